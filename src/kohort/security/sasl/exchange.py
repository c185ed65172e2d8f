"""Login as a state machine: the client side builds tokens, the broker side evaluates them.

Callers handle frames, session lifetime and the delay of error responses.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from kohort.errors import KohortError
from kohort.secret import Secret

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class Derivation(NamedTuple):
    """Input of a salted password (RFC 5802: ``Hi``). Deriving takes milliseconds, so callers do it in a thread."""

    password: Secret
    salt: bytes
    iterations: int
    hash_name: str

    def derive(self) -> bytes:
        return hashlib.pbkdf2_hmac(self.hash_name, self.password.reveal().encode(), self.salt, self.iterations)


class ClientExchange:
    """Client side of one login, used once.

    Every method raises AuthenticationFailed, without secrets, for an invalid broker token.
    """

    mechanism: str = ""
    is_complete: bool = False
    """True after the broker's last expected token; a broker that reports success earlier is not trusted."""

    def first(self) -> bytes:
        raise NotImplementedError

    def next(self, challenge: bytes) -> bytes | Derivation | None:
        """Return the reply to the broker's token, or the derivation that the reply needs; None if no reply is due."""
        raise NotImplementedError

    def derived(self, salted_password: bytes) -> bytes:
        """Continue with the derived password; return the token that ``next`` could not build."""
        raise NotImplementedError


class Refused(KohortError):
    """Login rejected by the broker. ``words``: message for the client (None: a generic message).

    ``detail``: reason for the broker's log alone, without secrets.
    """

    def __init__(self, words: str | None = None, detail: str = "") -> None:
        super().__init__(detail or words or "invalid credentials")
        self.words = words
        self.detail = detail


class KeysMissing(KohortError):
    """The broker must fetch signing keys, then evaluate the token again."""


class LoggedInAs(NamedTuple):
    """User of an authenticated session. ``expires_ms``: end of the session (None: no end)."""

    name: str
    expires_ms: int | None = None


class ServerExchange:
    """Broker side of one login, used once."""

    mechanism: str = ""
    user: LoggedInAs | None = None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Return the response to a client's token. Raises Refused, or KeysMissing (evaluate the token again)."""
        raise NotImplementedError


def text_of(token: bytes) -> str:
    try:
        return bytes(token).decode()
    except UnicodeDecodeError:
        raise Refused(detail="not UTF-8") from None
