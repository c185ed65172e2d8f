"""Validation of OAUTHBEARER tokens, signed or (for tests) unsigned, and their signing keys
(protocol/security.md#tokens).

No claim is used before the signature is verified, and no address in a token is requested.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kohort.clock import WallTime
from kohort.errors import KohortError
from kohort.extras import needs
from kohort.security.sasl.exchange import KeysMissing

RETRY_MS: Final = 100
RETRY_MAX_MS: Final = 10_000
FIRST_WAIT_MS: Final = 10_000
"""Longest time in ms that logins wait for the first fetch of signing keys."""
MISSING_MS: Final = 60_000
APART_MS: Final = 1_000
"""Shortest time in ms between two fetches of signing keys: tokens may name unknown keys."""
MISSING_MOST: Final = 16
KEYS_MOST: Final = 1_000
KIND_OF: Final = {"R": "RSA", "P": "RSA", "E": "EC"}


class SigningKeys:
    def __init__(self, url: str, refresh_ms: int, now_ms: int) -> None:
        self.url = url
        self.problem = ""
        self._refresh_ms = refresh_ms
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._started_ms = now_ms
        self._were_fetched = False
        self._is_fetching = False
        self._failures = 0
        self._fetch_at_ms = now_ms
        self._ended_ms = now_ms - APART_MS
        self._missing: dict[str, int] = {}
        self._awaited: set[str] = set()

    # ------------------------------------------------------------ fetching

    @property
    def wake_at_ms(self) -> int | None:
        return None if self._is_fetching else self._fetch_at_ms

    def take_fetch(self, now_ms: int) -> bool:
        if self._is_fetching or self._fetch_at_ms > now_ms:
            return False
        self._is_fetching = True
        return True

    def fetched(self, content: bytes, now_ms: int) -> None:
        try:
            keys = _keys_of(content)
        except (ValueError, TypeError, KeyError, RecursionError):
            self.failed("the response is not a set of keys (JWKS)", now_ms)
            return
        self._keys, self._were_fetched, self._failures, self.problem = keys, True, 0, ""
        self._end(now_ms, self._refresh_ms)

    def failed(self, problem: str, now_ms: int) -> None:
        self.problem = problem
        backoff_ms = min(RETRY_MS << min(self._failures, 16), RETRY_MAX_MS)
        self._failures += 1
        self._end(now_ms, backoff_ms)

    def _end(self, now_ms: int, wait_ms: int) -> None:
        self._is_fetching = False
        self._awaited.clear()
        self._ended_ms, self._fetch_at_ms = now_ms, now_ms + wait_ms

    # ------------------------------------------------------------ selection

    def candidates(self, key_id: str | None, algorithm: str, now_ms: int) -> Sequence[Mapping[str, Any]]:
        """Return the public keys that may verify a signature.

        Raises KeysMissing if no keys were fetched yet, or if the next fetch may return the missing key.
        """
        if not self._were_fetched and now_ms < self._started_ms + FIRST_WAIT_MS:
            raise KeysMissing("no keys were fetched yet")
        found = [key for key in self._keys if _fits(key, key_id, algorithm)]
        is_known = key_id is None or any(key.get("kid") == key_id for key in self._keys)
        if key_id is not None and not is_known and self._is_requested(key_id, now_ms):
            raise KeysMissing("unknown key; a fetch is due")
        return found

    def _is_requested(self, key_id: str, now_ms: int) -> bool:
        """True if a fetch of this key is due or in flight; each key is requested at most once a minute."""
        if key_id in self._awaited:
            return True
        requested_ms = self._missing.pop(key_id, None)
        if requested_ms is not None and now_ms - requested_ms < MISSING_MS:
            self._missing[key_id] = requested_ms
            return False
        self._missing[key_id] = now_ms
        if len(self._missing) > MISSING_MOST:
            del self._missing[next(iter(self._missing))]
        self._awaited.add(key_id)
        self._fetch_at_ms = min(self._fetch_at_ms, max(now_ms, self._ended_ms + APART_MS))
        return True


def _fits(key: Mapping[str, Any], key_id: str | None, algorithm: str) -> bool:
    kind = KIND_OF.get(algorithm[0], "OKP") if algorithm[:2] != "Ed" else "OKP"
    return (
        key["kty"] == kind
        and key.get("alg", algorithm) in {algorithm, "EdDSA"}
        and key.get("use", "sig") == "sig"
        and (key_id is None or key.get("kid") == key_id)
    )


def _keys_of(content: bytes) -> list[Mapping[str, Any]]:
    keys = json.loads(content)["keys"]
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise TypeError("keys")
    return [key for key in keys if key.get("kty") in {"RSA", "EC", "OKP"}][:KEYS_MOST]


ASYMMETRIC: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Accepted signature algorithms, all asymmetric, so that a verification key cannot sign."""
TOKEN_MAX_CHARS: Final = 1 << 17


class TokenRefused(KohortError):
    """Invalid token. ``detail``: reason for the broker's log; the client receives a status."""

    def __init__(self, detail: str, status: str = "invalid_token", scope: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.scope = scope

    def answer(self) -> str:
        scope = f', "scope":{json.dumps(self.scope)}' if self.scope else ""
        return f'{{"status":"{self.status}"{scope}}}'


class VerifiedToken(NamedTuple):
    name: str
    expires_ms: int


class TokenValidator:
    def validate(self, token: str, now_ms: int) -> VerifiedToken:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class UnsecuredTokens(TokenValidator):
    """Accepts unsigned tokens whose claims pass Kafka's default checks, for tests without an identity provider."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: Sequence[str] = ()
    skew_ms: int = 0
    wall: WallTime = field(default_factory=WallTime)

    def validate(self, token: str, now_ms: int) -> VerifiedToken:
        wall_ms = self.wall.at(now_ms)
        header, claims, signature = _parts(token)
        if header.get("alg") != "none" or signature:
            raise TokenRefused("signed token on a listener for unsigned tokens")
        expires_ms = _time(claims, "exp")
        if expires_ms is None:
            raise TokenRefused("claim exp is missing")
        _check_expiry(expires_ms, wall_ms, self.skew_ms)
        issued_ms = _time(claims, "iat")
        if issued_ms is not None and issued_ms > wall_ms + self.skew_ms:
            raise TokenRefused(f"claim iat is {(issued_ms - wall_ms) // 1000} s in the future")
        if issued_ms is not None and issued_ms >= expires_ms:
            raise TokenRefused("claim exp is not after iat")
        scope = _scope(claims, self.scope_claim)
        if not set(self.required_scope) <= scope:
            wanted = " ".join(self.required_scope)
            raise TokenRefused(f"scope is {sorted(scope)}, expected {wanted}", "insufficient_scope", wanted)
        until_ms = _session_end(expires_ms, wall_ms, self.skew_ms) - self.wall.ahead_ms
        return VerifiedToken(_name(claims, self.principal_claim), until_ms)


@dataclass(frozen=True, slots=True)
class SignedTokens(TokenValidator):
    """Accepts tokens for this audience and issuer that are signed by one of ``keys``."""

    keys: SigningKeys
    audience: Sequence[str] = ()
    issuer: str | None = None
    skew_ms: int = 30_000
    scope_claim: str = "scope"
    sub_claim: str = "sub"
    wall: WallTime = field(default_factory=WallTime)

    def validate(self, token: str, now_ms: int) -> VerifiedToken:
        header, _, _ = _parts(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ASYMMETRIC:
            raise TokenRefused(f"alg is {_short(algorithm)}, expected one of {', '.join(ASYMMETRIC)}")
        if key_id is not None and not isinstance(key_id, str):
            raise TokenRefused("kid is not text")
        claims = self._verified(token, algorithm, self.keys.candidates(key_id, algorithm, now_ms), key_id)
        expires_ms, issued_ms = _time(claims, "exp"), _time(claims, "iat")
        if expires_ms is None or issued_ms is None:
            raise TokenRefused(f"claim {'exp' if expires_ms is None else 'iat'} is missing")
        wall_ms = self.wall.at(now_ms)
        _check_expiry(expires_ms, wall_ms, self.skew_ms)
        not_before_ms = _time(claims, "nbf")
        if not_before_ms is not None and not_before_ms > wall_ms + self.skew_ms:
            ahead_s = (not_before_ms - wall_ms) // 1000
            raise TokenRefused(f"claim nbf is {ahead_s} s in the future, beyond the clock skew")
        self._check_maker(claims)
        _scope(claims, self.scope_claim)
        until_ms = _session_end(expires_ms, wall_ms, self.skew_ms) - self.wall.ahead_ms
        return VerifiedToken(_name(claims, self.sub_claim), until_ms)

    def _verified(
        self, token: str, algorithm: str, keys: Sequence[Mapping[str, Any]], key_id: str | None
    ) -> Mapping[str, Any]:
        with needs("security", "a signed token"):
            from joserfc import jws
            from joserfc.errors import JoseError
            from joserfc.jwk import import_key
        for key in keys:
            try:
                content = jws.deserialize_compact(token, import_key(dict(key)), algorithms=[algorithm]).payload
            except (JoseError, ValueError, TypeError):
                continue
            return _object(content, "the claims")
        if not keys:
            problem = f"; {self.keys.problem}" if self.keys.problem else ""
            raise TokenRefused(f"no key for kid {_short(key_id)} and alg {algorithm}{problem}")
        raise TokenRefused("wrong signature")

    def _check_maker(self, claims: Mapping[str, Any]) -> None:
        audience = claims.get("aud")
        named = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
        if audience is not None and not self.audience:
            raise TokenRefused(f"claim aud is {_short(audience)}, but sasl.oauthbearer.expected.audience is not set")
        if self.audience and not any(one in named for one in self.audience):
            raise TokenRefused(f"claim aud is {_short(audience)}, expected {', '.join(self.audience)}")
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise TokenRefused(f"claim iss is {_short(claims.get('iss'))}, expected {self.issuer}")


def _parts(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    parts = token.split(".")
    if len(parts) != 3 or len(token) > TOKEN_MAX_CHARS:
        raise TokenRefused("not a JWT")
    return _object(_unbase64(parts[0]), "the header"), _object(_unbase64(parts[1]), "the claims"), parts[2]


def _object(content: bytes, what: str) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TokenRefused(f"{what} is not a JSON object")
    return found


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenRefused("not a JWT") from None


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e12 < value < 1e12:
        raise TokenRefused(f"claim {name} is not a time")
    return round(value * 1000)


def _check_expiry(expires_ms: int, now_ms: int, skew_ms: int) -> None:
    if expires_ms + skew_ms <= now_ms:
        raise TokenRefused(f"claim exp was {(now_ms - expires_ms) // 1000} s ago")


def _session_end(expires_ms: int, now_ms: int, skew_ms: int) -> int:
    """Return the end of the session, which includes the clock skew; otherwise the next request could fail."""
    return expires_ms if expires_ms > now_ms else expires_ms + skew_ms


def _scope(claims: Mapping[str, Any], name: str) -> set[str]:
    value = claims.get(name)
    if value is None:
        return set()
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise TokenRefused(f"claim {name} is neither text nor a list of texts")
    return {word.strip() for word in words}


def _name(claims: Mapping[str, Any], claim: str) -> str:
    value = claims.get(claim)
    if not isinstance(value, str) or not value.strip():
        raise TokenRefused(f"claim {claim} is missing")
    return value.strip()


def _short(value: object) -> str:
    text = json.dumps(value) if value is not None else "missing"
    return text if len(text) <= 100 else f"{text[:100]}..."
