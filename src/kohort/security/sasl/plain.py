"""PLAIN (RFC 4616): user and password as they are, so only behind TLS (protocol/security.md#plain)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from kohort.errors import AuthenticationFailed
from kohort.secret import Secret
from kohort.security.sasl.exchange import (
    OTHER_AUTHORIZATION_ID,
    PLAIN,
    ClientExchange,
    LoggedInAs,
    Refused,
    ServerExchange,
    text_of,
)

PARTS: Final = 3
INVALID: Final = "Authentication failed: Invalid username or password"


class PlainClient(ClientExchange):
    """A client's half: a single token."""

    mechanism = PLAIN

    def __init__(self, username: str, password: Secret) -> None:
        if not username or not password:
            raise AuthenticationFailed("PLAIN needs a user name and a password")
        if "\0" in username or "\0" in password.reveal():
            raise AuthenticationFailed("a user name and a password for PLAIN cannot hold the character NUL")
        self._username = username
        self._password = password

    def first(self) -> bytes:
        return f"\0{self._username}\0{self._password.reveal()}".encode()

    def next(self, challenge: bytes) -> None:
        if challenge:
            raise AuthenticationFailed("the broker answered PLAIN with a challenge, which it does not have")
        self.is_complete = True


class PlainServer(ServerExchange):
    """A broker's half, with the users of its JAAS configuration."""

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
        # An unknown user takes the same time as a wrong password.
        expected = (known.reveal() if known is not None else f"not {password}").encode()
        if not hmac.compare_digest(expected, password.encode()) or known is None:
            raise Refused(INVALID, f"user {name!r}: {'wrong password' if known is not None else 'not known'}")
        if authorization_id not in {"", name}:
            raise Refused(OTHER_AUTHORIZATION_ID)
        self.user = LoggedInAs(name)
        return b""
