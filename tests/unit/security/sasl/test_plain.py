"""PLAIN: tokens and error messages."""

import pytest

from kohort.errors import AuthenticationFailed
from kohort.secret import Secret
from kohort.security.sasl.exchange import LoggedInAs, Refused
from kohort.security.sasl.plain import PlainClient, PlainServer

USERS = {"alice": Secret("alice-secret"), "zoë": Secret("pässwörd")}
INVALID = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(("name", "password"), [("alice", "alice-secret"), ("zoë", "pässwörd")])
def test_correct_password_logs_in(name, password):
    client, server = PlainClient(name, Secret(password)), PlainServer(USERS)

    answer = server.evaluate(client.first(), 0)

    assert answer == b""
    assert server.user == LoggedInAs(name)
    assert client.next(answer) is None
    assert client.is_complete


def test_plain_token_has_kafka_format():
    assert PlainClient("alice", Secret("alice-secret")).first().hex() == "00616c69636500616c6963652d736563726574"


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 9, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0alice-secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", INVALID),
        (b"\0nobody\0alice-secret", INVALID),
        (b"\0nobody\0not nobody", INVALID),
        ("\0zoe\u0308\0pässwörd".encode(), INVALID),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\xff\0a\0b", None),
    ],
)
def test_plain_errors_match_kafka(token, words):
    server = PlainServer(USERS)

    with pytest.raises(Refused) as refused:
        server.evaluate(token, 0)

    assert refused.value.words == words
    assert server.user is None


def test_plain_errors_hide_the_password():
    with pytest.raises(Refused) as refused:
        PlainServer(USERS).evaluate(b"\0alice\0planted", 0)

    assert "planted" not in f"{refused.value} {refused.value.detail} {refused.value!r}"
    assert "alice-secret" not in f"{refused.value} {refused.value.detail}"


@pytest.mark.parametrize(("name", "password"), [("", "x"), ("x", ""), ("a\0b", "x"), ("x", "a\0b")])
def test_nul_in_credentials_is_rejected(name, password):
    with pytest.raises(AuthenticationFailed):
        PlainClient(name, Secret(password))


def test_challenge_is_rejected_by_plain_client():
    client = PlainClient("alice", Secret("x"))
    client.first()
    with pytest.raises(AuthenticationFailed, match="challenge"):
        client.next(b"more?")
    assert not client.is_complete
