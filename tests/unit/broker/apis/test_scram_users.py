"""DescribeUserScramCredentials, AlterUserScramCredentials and logins of their users."""

import pytest

from kohort.broker.cluster.security_store import SECURITY_FILE
from kohort.errors import StorageError
from kohort.log.storage import MemoryStorage
from kohort.secret import Secret
from kohort.security.sasl.exchange import Derivation
from kohort.security.sasl.scram import HASHES, MECHANISM_NUMBERS
from kohort.wire.messages.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from support.machines.broker_stage import BrokerStage
from support.machines.sasl_peer import connect, log_in, sasl_stage, scram

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


def upsertion(name="alice", password="planted", mechanism=SHA_256, iterations=4096, **fields):
    salted = Derivation(Secret(password), b"salt", iterations, HASHES[mechanism]).derive()
    all_fields = {"mechanism": MECHANISM_NUMBERS[mechanism], "salt": b"salt", "salted_password": salted} | fields
    return ScramCredentialUpsertion(name=name, iterations=iterations, **all_fields)


def alter(peer, *upsertions, delete=()):
    deletions = [ScramCredentialDeletion(name=n, mechanism=MECHANISM_NUMBERS.get(m, m)) for n, m in delete]
    answer = peer.ask(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=list(upsertions)), 0)
    return {r.user: (r.error_code, r.error_message) for r in answer.results}


def described(peer, *names):
    users = [UserName(name=name) for name in names] if names else None
    answer = peer.ask(DescribeUserScramCredentialsRequest(users=users), 0)
    assert answer.error_code == 0
    return {
        r.user: r.error_message or [(info.mechanism, info.iterations) for info in r.credential_infos]
        for r in answer.results
    }


@pytest.fixture
def admin(stage):
    return stage.connect()


def test_scram_users_are_created_described_changed_and_deleted(admin):
    assert described(admin) == {}
    assert alter(admin, upsertion(), upsertion("bob", mechanism=SHA_512, iterations=8192)) == {
        "alice": (0, None),
        "bob": (0, None),
    }
    assert alter(admin, upsertion(mechanism=SHA_512, iterations=16384)) == {"alice": (0, None)}
    assert described(admin) == {"alice": [(1, 4096), (2, 16384)], "bob": [(2, 8192)]}
    assert described(admin, "bob") == {"bob": [(2, 8192)]}
    assert alter(admin, delete=[("alice", SHA_256), ("bob", SHA_512)]) == {"alice": (0, None), "bob": (0, None)}
    assert described(admin) == {"alice": [(2, 16384)]}


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (upsertion(""), (93, "Username must not be empty")),
        (upsertion("x", iterations=4095), (93, "Too few iterations")),
        (upsertion("x", iterations=16385), (93, "Too many iterations")),
        (upsertion("x", salt=b""), (93, "the salt has 0 bytes, expected 1 to 1024")),
    ],
)
def test_invalid_scram_credential_is_rejected(admin, change, answer):
    assert alter(admin, change) == {change.name: answer}
    assert described(admin) == {}


@pytest.mark.parametrize("salted_password", [b"", b"abc", b"x" * 64])
def test_salted_password_of_any_length_is_accepted(admin, salted_password):
    assert alter(admin, upsertion("x", salted_password=salted_password)) == {"x": (0, None)}
    assert described(admin) == {"x": [(1, 4096)]}


def test_unknown_scram_mechanism_is_rejected(admin):
    unknown = ScramCredentialUpsertion(name="x", mechanism=3, iterations=4096)
    assert alter(admin, unknown) == {"x": (33, "Unknown SCRAM mechanism")}
    assert alter(admin, delete=[("x", 0)]) == {"x": (33, "Unknown SCRAM mechanism")}


def test_duplicate_scram_user_is_rejected_while_other_users_are_changed(admin):
    refused = (92, "A user credential cannot be altered twice in the same request")
    answers = alter(admin, upsertion(), upsertion(mechanism=SHA_512), upsertion("bob"))
    assert answers == {"alice": refused, "bob": (0, None)}
    assert alter(admin, upsertion("bob"), delete=[("bob", SHA_256)]) == {"bob": refused}
    assert described(admin) == {"bob": [(1, 4096)]}


def test_deletion_of_an_unknown_user_is_rejected(admin):
    words = "Attempt to delete a user credential that does not exist"
    assert alter(admin, delete=[("alice", SHA_256)]) == {"alice": (91, words)}
    alter(admin, upsertion())
    assert alter(admin, delete=[("alice", SHA_512)]) == {"alice": (91, words)}


def test_description_of_duplicate_and_unknown_scram_users_is_rejected(admin):
    alter(admin, upsertion())
    answers = described(admin, "alice", "alice", "bob")
    assert answers["alice"].endswith("twice in a single request: alice")
    assert answers["bob"] == "Attempt to describe a user credential that does not exist: bob"


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_created_scram_user_can_log_in_at_once(mechanism):
    stage = sasl_stage("PLAIN", SHA_256, SHA_512)
    alter(stage.connect(), upsertion(mechanism=mechanism))
    peer = connect(stage)

    assert log_in(peer, scram("alice", "planted", mechanism)).error_code == 0
    assert stage.broker._connections[peer.number].caller.principal.name == "alice"


@pytest.mark.parametrize(
    ("name", "password", "mechanism"),
    [("alice", "wrong", SHA_256), ("bob", "planted", SHA_256), ("alice", "planted", SHA_512)],
)
def test_second_node_uses_the_same_scram_users(name, password, mechanism):
    stage = sasl_stage("PLAIN", SHA_256, SHA_512)
    alter(stage.connect(), upsertion())
    peer = connect(stage)

    assert log_in(peer, scram(name, password, mechanism)) is None
    stage.advance(100)
    answer = peer.take()

    assert answer.error_code == 58
    assert answer.error_message == (
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )
    assert peer.closed


def test_scram_users_survive_a_restart_without_stored_passwords():
    storage = MemoryStorage()
    stage = BrokerStage(storage)
    alter(stage.connect(), upsertion())
    content = storage.read(SECURITY_FILE)
    stage.restart()

    assert described(stage.connect()) == {"alice": [(1, 4096)]}
    assert b"planted" not in content
    assert bytes(upsertion().salted_password).hex().encode() not in content


@pytest.mark.parametrize("content", ['[{"name": "x"}]', "[7]", '[{"name": "x", "mechanism": "MD5"}]'])
def test_invalid_stored_scram_users_prevent_the_broker_start(content):
    storage = MemoryStorage()
    storage.replace(SECURITY_FILE, f'{{"version": 1, "users": {content}}}'.encode())
    with pytest.raises(StorageError, match="the credential of a SCRAM user cannot be read"):
        BrokerStage(storage)


FIRST = "SCRAM-SHA-256=[name=alice,password=planted]\nSCRAM-SHA-512=[name=bob,password=other]"


def test_first_scram_users_come_from_kohort_add_scram():
    stage = sasl_stage(SHA_256, SHA_512, **{"kohort.add.scram": FIRST})
    assert described(stage.connect()) == {"alice": [(1, 4096)], "bob": [(2, 4096)]}
    assert log_in(connect(stage), scram("alice", "planted")).error_code == 0
    assert log_in(connect(stage), scram("bob", "other", SHA_512)).error_code == 0


def test_kohort_add_scram_does_not_replace_existing_users():
    storage = MemoryStorage()
    stage = BrokerStage(storage)
    alter(stage.connect(), upsertion(iterations=8192))
    stage = BrokerStage(storage, **{"kohort.add.scram": FIRST})
    assert described(stage.connect()) == {"alice": [(1, 8192)], "bob": [(2, 4096)]}
    assert "planted" not in repr(stage.config)
