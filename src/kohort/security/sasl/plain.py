"""PLAIN (RFC 4616): user name and password in plain text, so only with TLS (protocol/security.md#plain)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from kohort.errors import AuthenticationFailed
from kohort.secret import Secret
from kohort.security.sasl import exchange
from kohort.security.sasl.exchange import PLAIN, LoggedInAs, Refused, text_of

PARTS: Final = 3
INVALID: Final = "Authentication failed: Invalid username or password"


class PlainClient(exchange.ClientExchange):
    """Client side of PLAIN, which sends a single token."""

    mechanism = PLAIN

    def __init__(self, username: str, password: Secret) -> None:
        if not username or not password:
            raise AuthenticationFailed("PLAIN needs a user name and a password")
        if "\0" in username or "\0" in password.reveal():
            raise AuthenticationFailed("user name and password for PLAIN must not contain NUL")
        self._username = username
        self._password = password

    def first(self) -> bytes:
        return f"\0{self._username}\0{self._password.reveal()}".encode()

    def next(self, challenge: bytes) -> None:
        if challenge:
            raise AuthenticationFailed("the broker sent a challenge; PLAIN has none")
        self.is_complete = True


class PlainServer(exchange.ServerExchange):
    """Broker side of PLAIN, with the users of the JAAS configuration."""

    mechanism = PLAIN

    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._users = users

    def evaluate(self, token: bytes, now_ms: int) -> bytes:  # noqa: ARG002 - no password expires
        parts = text_of(token).split("\0", PARTS)
        if len(parts) != PARTS:
            raise Refused(f"Invalid SASL/PLAIN response: expected {PARTS} tokens, got {len(parts)}")
        authorization_id, name, password = parts
        if not name:
            raise Refused("Authentication failed: username not specified")
        if not password:
            raise Refused("Authentication failed: password not specified")
        known = self._users.get(name)
        # equal timing for an unknown user and a wrong password
        expected = (known.reveal() if known is not None else f"not {password}").encode()
        if not hmac.compare_digest(expected, password.encode()) or known is None:
            raise Refused(INVALID, f"user {name!r}: {'wrong password' if known is not None else 'unknown'}")
        if authorization_id not in {"", name}:
            raise Refused(exchange.OTHER_AUTHORIZATION_ID)
        self.user = LoggedInAs(name)
        return b""
