"""OAUTHBEARER, both halves: the form of RFC 7628, extensions, and how a refusal is told."""

import base64
import json

import pytest

from kohort.errors import AuthenticationFailed
from kohort.secret import Secret
from kohort.security.sasl.exchange import LoggedInAs, Refused
from kohort.security.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer, problem_in_words
from kohort.security.sasl.tokens import UnsecuredTokens

NOW_MS = 1_700_000_000_000


def part(content):
    return base64.urlsafe_b64encode(json.dumps(content, separators=(",", ":")).encode()).decode().rstrip("=")


def unsecured(**claims):
    said = {"sub": "carol", "iat": 1_700_000_000, "exp": 1_700_003_600} | claims
    return f"{part({'alg': 'none'})}.{part({k: v for k, v in said.items() if v is not None})}."


def server(**options):
    return OAuthBearerServer(UnsecuredTokens(**options))


def test_the_token_of_the_fact_sheet():
    token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYXJvbCIsImlhdCI6MTcwMDAwMDAwMCwiZXhwIjoxNzAwMDAzNjAwfQ."
    assert unsecured() == token
    client, theirs = OAuthBearerClient(Secret(token)), server()

    answer = theirs.evaluate(client.first(), NOW_MS)

    assert client.first() == b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
    assert answer == b""
    assert theirs.user == LoggedInAs("carol", 1_700_003_600_000)
    assert client.next(answer) is None
    assert client.is_complete


def test_extensions_go_with_it():
    client = OAuthBearerClient(Secret(unsecured()), {"logicalCluster": "lkc-1", "note": "two words"})

    assert client.first().endswith(b"\x01logicalCluster=lkc-1\x01note=two words\x01\x01")
    assert server().evaluate(client.first(), NOW_MS) == b""


@pytest.mark.parametrize("extension", [{"auth": "x"}, {"AUTH": "x"}, {"a1": "x"}, {"": "x"}, {"a": ""}, {"a": "\x01"}])
def test_extensions_that_cannot_be_sent_are_refused_at_once(extension):
    with pytest.raises(AuthenticationFailed, match="extension"):
        OAuthBearerClient(Secret("token"), extension)


@pytest.mark.parametrize("token", ["", "two words", "line\n", "\x01"])
def test_a_token_that_cannot_be_sent_is_refused_at_once(token):
    with pytest.raises(AuthenticationFailed) as failed:
        OAuthBearerClient(Secret(token))
    assert token not in str(failed.value) or not token


def test_a_refused_token_is_told_in_json_then_in_words():
    client, theirs = OAuthBearerClient(Secret(unsecured(exp=1_600_000_000))), server()

    challenge = theirs.evaluate(client.first(), NOW_MS)
    last = client.next(challenge)
    with pytest.raises(Refused) as refused:
        theirs.evaluate(last, NOW_MS)

    assert challenge == b'{"status":"invalid_token"}'
    assert last == b"\x01"
    assert refused.value.words == '{"status":"invalid_token"}'
    assert "exp was 100000000 s ago" in refused.value.detail
    assert theirs.user is None
    assert client.problem == '{"status":"invalid_token"}'
    assert not client.is_complete
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        client.next(b"")


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\xff",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,auth=Bearer x\x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Basic eDp5\x01\x01",
        b"n,,\x01other=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
    ],
)
def test_another_form_is_refused_without_a_hint(token):
    with pytest.raises(Refused) as refused:
        server().evaluate(token, NOW_MS)
    assert refused.value.words is None


def test_the_scheme_is_written_in_any_case():
    assert server().evaluate(f"n,,\x01auth=bearer {unsecured()}\x01\x01".encode(), NOW_MS) == b""


def test_nobody_logs_in_as_somebody_else():
    token = f"n,a=dave,\x01auth=Bearer {unsecured()}\x01\x01".encode()
    theirs = server()

    with pytest.raises(Refused) as refused:
        theirs.evaluate(token, NOW_MS)

    assert refused.value.words == (
        "Authentication failed: Client requested an authorization id (dave) that is different from the token's "
        "principal name (carol)"
    )
    assert theirs.user is None


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ('{"status":"invalid_token"}', "invalid_token"),
        ('{"status":"insufficient_scope","scope":"write"}', "insufficient_scope (scope write)"),
        ("no json", "no json"),
        ("[]", "[]"),
    ],
)
def test_a_problem_in_words(problem, words):
    assert problem_in_words(problem) == words
