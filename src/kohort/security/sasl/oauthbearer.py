"""OAUTHBEARER (RFC 7628, KIP-255): login with a token of a trusted issuer (protocol/security.md#oauthbearer)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from kohort.errors import AuthenticationFailed
from kohort.secret import Secret
from kohort.security.sasl.exchange import OAUTHBEARER, ClientExchange, LoggedInAs, Refused, ServerExchange, text_of
from kohort.security.sasl.tokens import TokenRefused, TokenValidator

SEPARATOR: Final = "\x01"
AFTER_AN_ERROR: Final = b"\x01"
EXTENSION_KEY: Final = re.compile(r"[A-Za-z]+")
EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
CLIENT_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>(?:[^=,\0\x01]|=2C|=3D)*))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
AUTH: Final = re.compile(r"(?P<scheme>[!-+\--~]+) +(?P<token>\S+)\s*")


class OAuthBearerClient(ClientExchange):
    """Client side of OAUTHBEARER, which sends a token and extensions (KIP-342)."""

    mechanism = OAUTHBEARER

    def __init__(self, token: Secret, extensions: Mapping[str, str] | None = None) -> None:
        if not token or not re.fullmatch(r"[\x21-\x7e]+", token.reveal()):
            raise AuthenticationFailed("OAUTHBEARER: the token is empty or has invalid characters")
        for key, value in (extensions or {}).items():
            if not EXTENSION_KEY.fullmatch(key) or key.lower() == "auth" or not EXTENSION_VALUE.fullmatch(value):
                raise AuthenticationFailed(f"OAUTHBEARER: the extension {key!r} has an invalid name or value")
        self._token = token
        self._extensions = dict(extensions or {})
        self.problem = ""
        """Broker's error about the token, as JSON."""

    def first(self) -> bytes:
        pairs = {"auth": f"Bearer {self._token.reveal()}", **self._extensions}
        text = "".join(f"{key}={value}{SEPARATOR}" for key, value in pairs.items())
        return f"n,,{SEPARATOR}{text}{SEPARATOR}".encode()

    def next(self, challenge: bytes) -> bytes | None:
        if self.problem:
            raise AuthenticationFailed(f"OAUTHBEARER: a challenge follows the broker's error: {self.problem}")
        if challenge:
            self.problem = bytes(challenge).decode(errors="replace")
            return AFTER_AN_ERROR
        self.is_complete = True
        return None


class OAuthBearerServer(ServerExchange):
    """Broker side. As in RFC 7628, it answers a bad token with a JSON error, then rejects the client's next token."""

    mechanism = OAUTHBEARER

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._refusal: Refused | None = None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        if self._refusal is not None:
            raise self._refusal
        found = CLIENT_FIRST.fullmatch(text_of(token))
        if found is None:
            raise Refused(detail="the client's token does not have the format of RFC 7628")
        pairs = dict(pair.split("=", 1) for pair in found["pairs"].split(SEPARATOR) if pair)
        auth = AUTH.fullmatch(pairs.get("auth", ""))
        if auth is None or auth["scheme"].lower() != "bearer":
            raise Refused(detail="the client sent no bearer token")
        try:
            verified = self._validator.validate(auth["token"], now_ms)
        except TokenRefused as refused:
            self._refusal = Refused(refused.answer(), refused.detail)
            return refused.answer().encode()
        authorization_id = (found["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
        if authorization_id and authorization_id != verified.name:
            raise Refused(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({verified.name})"
            )
        self.user = LoggedInAs(verified.name, verified.expires_ms)
        return b""


def problem_in_words(problem: str) -> str:
    """Return status and scope from a broker's JSON error, or other text unchanged."""
    try:
        content = json.loads(problem)
        status = content["status"]
    except (ValueError, TypeError, KeyError):
        return problem
    scope = content.get("scope")
    return f"{status} (scope {scope})" if scope else str(status)
