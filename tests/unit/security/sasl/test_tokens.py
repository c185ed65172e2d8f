"""Token validation: unsigned tokens, and signed tokens with one wrong claim each."""

import base64
import hmac
import json

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

from kohort.security.sasl.exchange import KeysMissing
from kohort.security.sasl.tokens import (
    FIRST_WAIT_MS,
    MISSING_MS,
    SignedTokens,
    SigningKeys,
    TokenRefused,
    UnsecuredTokens,
    VerifiedToken,
)

NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1000
HOUR_MS = 3_600_000
RSA = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"}, private=True)
OTHER = RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)
EC = ECKey.generate_key("P-256", {"kid": "ec", "alg": "ES256"}, private=True)
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"}, private=True)
JWKS = json.dumps({"keys": [k.as_dict(private=False) for k in (RSA, EC, ED)] + [{"kty": "new", "kid": "n"}]}).encode()
CLAIMS = {"sub": "carol", "iss": "https://issuer", "aud": "kafka", "iat": NOW_S, "exp": NOW_S + 3600}


def keys(content=JWKS):
    made = SigningKeys("https://issuer/jwks", HOUR_MS, NOW_MS)
    assert made.take_fetch(NOW_MS)
    made.fetched(content, NOW_MS)
    return made


def signed(key=RSA, algorithm="RS256", header=None, **changes):
    claims = {k: v for k, v in (CLAIMS | changes).items() if v is not None}
    head = {"alg": algorithm, "kid": key.kid} | (header or {})
    return jws.serialize_compact(head, json.dumps(claims), key, algorithms=[algorithm])


def judged(token, now_ms=NOW_MS, **options):
    options = {"audience": ["kafka"], "issuer": "https://issuer"} | options
    return SignedTokens(keys(), **options).validate(token, now_ms)


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # RFC 9864 renames this algorithm
@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(RSA, "RS256"), (RSA, "RS512"), (RSA, "PS256"), (EC, "ES256"), (ED, "EdDSA"), (ED, "Ed25519")],
)
def test_token_signed_by_known_key_is_accepted(key, algorithm):
    assert judged(signed(key, algorithm)) == VerifiedToken("carol", (NOW_S + 3600) * 1000)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["other", "kafka"]},
        {"scope": "read write"},
        {"scope": ["read"]},
        {"iat": NOW_S + 3600},
        {"nbf": NOW_S + 20},
        {"exp": NOW_S + 0.5},
    ],
)
def test_tokens_accepted_by_kafka_are_accepted(claims):
    assert judged(signed(**claims)).name == "carol"


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"aud": "other"}, 'claim aud is "other", expected kafka'),
        ({"aud": None}, "claim aud is missing"),
        ({"aud": ["other"]}, "expected kafka"),
        ({"iss": "https://evil"}, 'claim iss is "https://evil", expected https://issuer'),
        ({"iss": None}, "claim iss is missing"),
        ({"exp": NOW_S - 31}, "claim exp was 31 s ago"),
        ({"exp": None}, "claim exp is missing"),
        ({"exp": "tomorrow"}, "exp is not a time"),
        ({"exp": True}, "exp is not a time"),
        ({"exp": 1e300}, "exp is not a time"),
        ({"iat": None}, "claim iat is missing"),
        ({"sub": None}, "claim sub is missing"),
        ({"sub": " "}, "claim sub is missing"),
        ({"sub": 7}, "claim sub is missing"),
        ({"nbf": NOW_S + 31}, "claim nbf is 31 s in the future"),
        ({"scope": 7}, "claim scope is neither"),
    ],
)
def test_reason_of_a_rejected_claim_is_only_logged(claims, words):
    with pytest.raises(TokenRefused) as refused:
        judged(signed(**claims))
    assert words in refused.value.detail
    assert refused.value.answer() == '{"status":"invalid_token"}'


def test_unexpected_audience_is_rejected():
    with pytest.raises(TokenRefused, match=r"sasl\.oauthbearer\.expected\.audience is not set"):
        judged(signed(), audience=[])
    assert judged(signed(aud=None), audience=[]).name == "carol"


@pytest.mark.parametrize("seconds", [1, 29])
def test_expired_token_within_skew_gets_short_session(seconds):
    token = signed(exp=NOW_S - seconds)
    assert judged(token) == VerifiedToken("carol", (NOW_S - seconds + 30) * 1000)


def test_name_and_scope_claims_are_configurable():
    assert judged(signed(client_id="svc"), sub_claim="client_id").name == "svc"


def part_of(content):
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def part(content):
    return part_of(json.dumps(content).encode())


def mangled(token):
    head, body, signature = token.split(".")
    return f"{head}.{body}.{'A' * len(signature)}"


def unsecured_twin(token):
    return f"{part({'alg': 'none', 'kid': 'rsa'})}.{token.split('.')[1]}."


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (lambda: mangled(signed()), "wrong signature"),
        (lambda: signed(OTHER), "wrong signature"),
        (lambda: unsecured_twin(signed()), 'alg is "none"'),
        (lambda: f"{part({'alg': 'RS256', 'kid': 7})}.{part(CLAIMS)}.AAAA", "kid is not text"),
        (lambda: signed(header={"jku": "https://evil/jwks"}, key=OTHER), "wrong signature"),
        (lambda: signed(EC, "ES256", header={"kid": "rsa"}), "no key for kid"),
        (lambda: "not.a.jwt", "is not a JSON object"),
        (lambda: "nothing", "not a JWT"),
        (lambda: "a.b.c.d", "not a JWT"),
        (lambda: "!!.!!.!!", "not a JWT"),
        (lambda: "W10.e30.", "the header is not a JSON object"),
    ],
)
def test_unsigned_or_wrongly_signed_token_is_rejected(token, words):
    with pytest.raises(TokenRefused) as refused:
        judged(token())
    assert words in refused.value.detail


def test_public_key_as_hmac_secret_is_rejected():
    secret = RSA.as_pem(private=False)
    signed_part = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(CLAIMS)}"
    forged = f"{signed_part}.{part_of(hmac.digest(secret, signed_part.encode(), 'sha256'))}"
    with pytest.raises(TokenRefused, match="HS256"):
        judged(forged)


def test_token_without_kid_is_verified_with_every_key_of_its_type():
    token = jws.serialize_compact({"alg": "RS256"}, json.dumps(CLAIMS), RSA, algorithms=["RS256"])
    assert judged(token).name == "carol"


# ---------------------------------------------------------------- keys


def test_tokens_wait_for_first_keys_up_to_10_seconds():
    made = SigningKeys("u", HOUR_MS, NOW_MS)
    validator = SignedTokens(made, ["kafka"])
    assert made.take_fetch(NOW_MS)
    assert not made.take_fetch(NOW_MS)

    with pytest.raises(KeysMissing):
        validator.validate(signed(), NOW_MS)
    made.failed("nobody answers", NOW_MS)
    with pytest.raises(KeysMissing):
        validator.validate(signed(), NOW_MS + 100)
    late_ms = NOW_MS + FIRST_WAIT_MS
    assert made.take_fetch(late_ms)
    with pytest.raises(KeysMissing):  # requests another fetch, for this key
        validator.validate(signed(), late_ms)
    made.failed("nobody answers", late_ms)
    with pytest.raises(TokenRefused, match="nobody answers"):
        validator.validate(signed(), late_ms)


def test_failed_key_fetches_back_off():
    made, now_ms, waits = SigningKeys("u", HOUR_MS, 0), 0, []
    for _ in range(9):
        assert made.take_fetch(now_ms)
        made.failed("no", now_ms)
        waits.append(made.wake_at_ms - now_ms)
        now_ms = made.wake_at_ms

    assert waits == [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]


def test_signing_keys_are_refreshed_hourly_and_kept_after_a_failed_fetch():
    made = keys()
    assert made.wake_at_ms == NOW_MS + HOUR_MS
    assert made.take_fetch(NOW_MS + HOUR_MS)
    made.failed("no", NOW_MS + HOUR_MS)
    assert SignedTokens(made, ["kafka"]).validate(signed(), NOW_MS).name == "carol"


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"keys": 7}', b'{"keys": [7]}', b"\xff", b"[" * 99999])
def test_malformed_jwks_counts_as_failed_fetch(content):
    made = keys(content)
    assert "not a set of keys" in made.problem
    assert made.wake_at_ms == NOW_MS + 100


def test_unknown_key_is_fetched_once_per_minute():
    made = keys(json.dumps({"keys": []}).encode())
    validator = SignedTokens(made, ["kafka"])
    soon_ms = NOW_MS + 1_000

    with pytest.raises(KeysMissing):
        validator.validate(signed(), soon_ms)
    assert made.take_fetch(soon_ms)
    with pytest.raises(KeysMissing):
        validator.validate(signed(), soon_ms)
    made.fetched(b'{"keys": []}', soon_ms)
    with pytest.raises(TokenRefused, match="no key for kid"):
        validator.validate(signed(), soon_ms + MISSING_MS - 1)
    with pytest.raises(KeysMissing):
        validator.validate(signed(), soon_ms + MISSING_MS)
    assert made.take_fetch(soon_ms + MISSING_MS)
    made.fetched(JWKS, soon_ms + MISSING_MS)
    assert validator.validate(signed(), soon_ms + MISSING_MS).name == "carol"


def test_many_unknown_keys_cause_few_fetches():
    made = keys()
    validator = SignedTokens(made, ["kafka"])
    fetches = 0
    for i in range(50):
        now_ms = NOW_MS + 100 * i
        with pytest.raises(KeysMissing):
            validator.validate(signed(header={"kid": f"k{i}"}), now_ms)
        if made.take_fetch(now_ms):
            fetches += 1
            made.fetched(JWKS, now_ms)

    assert fetches == 4  # in five seconds


# ---------------------------------------------------------------- unsigned tokens


def plain_token(header=None, tail="", **claims):
    all_claims = {
        k: v for k, v in ({"sub": "carol", "iat": NOW_S, "exp": NOW_S + 3600} | claims).items() if v is not None
    }
    return ".".join([part(header or {"alg": "none"}), part(all_claims), tail])


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (plain_token({"alg": "RS256"}), "signed token"),
        (plain_token(tail="AAAA"), "signed token"),
        (plain_token(exp=None), "claim exp is missing"),
        (plain_token(exp=NOW_S, iat=NOW_S - 9), "0 s ago"),
        (plain_token(sub=None), "claim sub is missing"),
        (plain_token(iat=NOW_S + 9), "iat is 9 s in the future"),
        (plain_token(exp=NOW_S + 5, iat=NOW_S + 6), "iat is 6 s"),
    ],
)
def test_unsigned_token_claims_are_validated(token, words):
    with pytest.raises(TokenRefused, match=words):
        UnsecuredTokens().validate(token, NOW_MS)


def test_required_scope_is_checked():
    judge = UnsecuredTokens(required_scope=["read"], scope_claim="scp")

    assert judge.validate(plain_token(scp="read write"), NOW_MS).name == "carol"
    assert judge.validate(plain_token(scp=["read"]), NOW_MS).name == "carol"
    with pytest.raises(TokenRefused) as refused:
        judge.validate(plain_token(scp="write"), NOW_MS)
    assert refused.value.answer() == '{"status":"insufficient_scope", "scope":"read"}'
