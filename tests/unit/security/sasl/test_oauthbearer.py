"""OAUTHBEARER, client and broker side: the format of RFC 7628, extensions, errors."""

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
    all_claims = {"sub": "carol", "iat": 1_700_000_000, "exp": 1_700_003_600} | claims
    return f"{part({'alg': 'none'})}.{part({k: v for k, v in all_claims.items() if v is not None})}."


def server(**options):
    return OAuthBearerServer(UnsecuredTokens(**options))


def test_client_token_has_expected_bytes():
    token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYXJvbCIsImlhdCI6MTcwMDAwMDAwMCwiZXhwIjoxNzAwMDAzNjAwfQ."
    assert unsecured() == token
    client, theirs = OAuthBearerClient(Secret(token)), server()

    answer = theirs.evaluate(client.first(), NOW_MS)

    assert client.first() == b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
    assert answer == b""
    assert theirs.user == LoggedInAs("carol", 1_700_003_600_000)
    assert client.next(answer) is None
    assert client.is_complete


def test_extensions_are_sent_with_the_token():
    client = OAuthBearerClient(Secret(unsecured()), {"logicalCluster": "lkc-1", "note": "two words"})

    assert client.first().endswith(b"\x01logicalCluster=lkc-1\x01note=two words\x01\x01")
    assert server().evaluate(client.first(), NOW_MS) == b""


@pytest.mark.parametrize("extension", [{"auth": "x"}, {"AUTH": "x"}, {"a1": "x"}, {"": "x"}, {"a": ""}, {"a": "\x01"}])
def test_invalid_extensions_are_rejected(extension):
    with pytest.raises(AuthenticationFailed, match="extension"):
        OAuthBearerClient(Secret("token"), extension)


@pytest.mark.parametrize("token", ["", "two words", "line\n", "\x01"])
def test_invalid_token_characters_are_rejected(token):
    with pytest.raises(AuthenticationFailed) as failed:
        OAuthBearerClient(Secret(token))
    assert token not in str(failed.value) or not token


def test_rejected_token_gets_an_error_as_json_and_the_next_token_fails():
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
def test_malformed_client_token_gets_generic_error(token):
    with pytest.raises(Refused) as refused:
        server().evaluate(token, NOW_MS)
    assert refused.value.words is None


def test_bearer_scheme_is_case_insensitive():
    assert server().evaluate(f"n,,\x01auth=bearer {unsecured()}\x01\x01".encode(), NOW_MS) == b""


def test_authorization_id_of_another_user_is_rejected():
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
def test_json_error_of_the_broker_is_reported_as_its_status(problem, words):
    assert problem_in_words(problem) == words
