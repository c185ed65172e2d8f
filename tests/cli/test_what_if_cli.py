from __future__ import annotations

import json

import pytest

import kohort


@pytest.fixture
def group(broker):
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"what-if": 3})
        options = {"bootstrap_servers": broker.bootstrap, "group_id": "what-if-group", "client_id": "c-1"}
        with kohort.Consumer(group_protocol="classic", **options) as consumer:
            consumer.subscribe(["what-if"])
            while len(consumer.assignment()) < 3:
                consumer.poll(timeout_ms=100)
            yield "what-if-group"
        admin.delete_topics(["what-if"])


def test_what_if_prints_prediction_without_executing(run, group):
    output = run("group", "what-if", group, "--add", "4", "--compare").stdout

    assert "simulation, not executed" in output
    assert "the group uses at most 3 members: it has 3 partitions" in output
    assert "cooperative-sticky" in output, "the table of assignors"

    found = json.loads(run("group", "what-if", group, "--kill", "c-1:poll", "--output", "json").stdout)
    assert (found["executed"], found["prediction"]["members_after"]) == (False, 0)
    assert {move["to"] for move in found["prediction"]["moves"]} == {None}


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--remove", "x"), 2, "no member of group 'what-if-group' has the id 'x'"),
        (("--partitions", "what-if"), 2, "expected TOPIC=N"),
        (("--partitions", "what-if=2"), 2, "Kafka cannot reduce the number"),
        (("--assignor", "x"), 2, "unknown assignor 'x' of classic groups"),
        (("--assume", "session=10s"), 2, "with one of session.timeout.ms, heartbeat.interval.ms"),
        (("--assume", "session.timeout.ms=soon"), 2, "'soon' is not a duration"),
        (("--assume", "restart=30s..5s"), 2, "expected restart=5s..30s"),
        (("--static",), 2, "--static needs --add or --rolling-restart"),
    ],
)
def test_what_if_rejects_invalid_scenario(run, group, options, code, words):
    done = run("group", "what-if", group, *options, code=code)

    assert words in " ".join(done.stderr.split())


def test_what_if_with_rate_options_predicts_lag(run, group):
    output = run("group", "what-if", group, "--kill", "c-1", "--in-rate", "10", "--drain-rate", "40").stdout
    assert "3 partitions would have no owner" in output
    output = run("group", "what-if", group, "--add", "1", "--in-rate", "10", "--drain-rate", "40").stdout
    assert "lag: at most 1 to 31 records, catches up after" in output
    assert "producers write 10 records/s (option)" in output
    unknown = run("group", "what-if", group, "--add", "1", "--in-rate", "10")
    assert "no lag is predicted" in unknown.stderr


def test_what_if_combines_rolling_restart_with_change(run, group):
    found = json.loads(run("group", "what-if", group, "--rolling-restart", "--to-consumer", "--output", "json").stdout)

    assert (found["prediction"]["protocol"], found["prediction"]["assignor"]) == ("consumer", "uniform")
    assert any("converts the group" in one for one in found["prediction"]["assumptions"])


def test_assume_option_of_what_if_sets_timeouts(run, group):
    assumptions = (
        "--assume",
        "session.timeout.ms=10s",
        "--assume",
        "heartbeat.interval.ms=1s",
        "--assume",
        "restart=1s..2s",
    )
    found = json.loads(run("group", "what-if", group, "--kill", "c-1", *assumptions, "--output", "json").stdout)[
        "prediction"
    ]

    assert (found["pause_from_s"], found["pause_to_s"]) == (27.3, 33.3)
