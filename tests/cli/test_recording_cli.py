"""``kohort serve --record`` and ``kohort sim replay-recording``: what a real broker did, again in the machine."""

from click.testing import CliRunner

import kohort
from kohort.cli.main import main
from support.processes.served_broker import Served


def call(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args], input="one\ntwo\n")


def test_a_recorded_broker_takes_the_same_decisions_again(tmp_path):
    file = tmp_path / "broker.rec"
    served = Served("--record", str(file))
    try:
        produced = call("produce", "orders", "--bootstrap", served.bootstrap)
        assert produced.exit_code == 0, produced.output
        listed = call("groups", "--bootstrap", served.bootstrap)
        assert listed.exit_code == 0, listed.output
    finally:
        served.stop()

    replayed = call("sim", "replay-recording", file)

    assert replayed.exit_code == 0, replayed.output
    assert "every decision is the same" in replayed.output
    assert file.stat().st_mode & 0o077 == 0, "what users sent is for its owner's eyes"


def test_a_broker_of_several_listeners_is_recorded_too(tmp_path):
    file = tmp_path / "broker.rec"
    served = Served(
        *("--record", str(file)),
        *("--set", "listeners=INNER://127.0.0.1:0,OUTER://127.0.0.1:0"),
        *("--set", "listener.security.protocol.map=INNER:PLAINTEXT,OUTER:PLAINTEXT"),
    )
    try:
        for name, address in served.ready["listeners"].items():
            produced = call("produce", f"orders-{name}", "--bootstrap", address)
            assert produced.exit_code == 0, produced.output
    finally:
        served.stop()

    replayed = call("sim", "replay-recording", file)

    assert replayed.exit_code == 0, replayed.output
    assert "every decision is the same" in replayed.output


def test_a_broker_with_first_users_takes_the_same_decisions_again(tmp_path):
    file = tmp_path / "broker.rec"
    served = Served(
        *("--record", str(file)),
        *("--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0"),
        *("--add-scram", "SCRAM-SHA-256=[name=alice,password=planted]"),
        *("--add-scram", 'SCRAM-SHA-512=[name="bob",salt="c2FsdA==",password="planted too"]'),
    )
    login = {
        "bootstrap.servers": served.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": "planted",
    }
    try:
        with kohort.Admin(login) as admin:
            admin.create_topics({"orders": 1})
            told = admin.describe_user_scram_credentials()
    finally:
        served.stop()

    replayed = call("sim", "replay-recording", file)

    assert replayed.exit_code == 0, replayed.output
    assert sorted(told) == ["alice", "bob"]
    assert b"planted" not in file.read_bytes()


def test_a_file_that_is_no_recording_is_refused(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("these are notes, and not a recording")

    replayed = call("sim", "replay-recording", file)

    assert replayed.exit_code == 1
    assert "does not begin as a recording" in replayed.output


def test_a_broker_with_data_cannot_be_recorded(tmp_path):
    refused = call("serve", "--record", tmp_path / "broker.rec", "--data", tmp_path / "data", "--listen", "127.0.0.1:0")

    assert refused.exit_code == 2
    assert "--record needs one broker that begins with nothing" in refused.output


def test_a_recording_does_not_overwrite_a_file(tmp_path):
    file = tmp_path / "broker.rec"
    file.write_bytes(b"precious")

    refused = call("serve", "--record", file, "--listen", "127.0.0.1:0")

    assert refused.exit_code == 2
    assert "is there already" in refused.output
    assert file.read_bytes() == b"precious"
