"""One login as a machine: a client's half that builds tokens, a broker's half that evaluates them.

Frames, the session's lifetime and delayed error responses are outside.
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
    """A salted password that a client's half needs before it goes on. To derive it takes milliseconds, so whoever runs
    the exchange does it where nobody waits for it (RFC 5802: ``Hi``)."""

    password: Secret
    salt: bytes
    iterations: int
    hash_name: str

    def derive(self) -> bytes:
        return hashlib.pbkdf2_hmac(self.hash_name, self.password.reveal().encode(), self.salt, self.iterations)


class ClientExchange:
    """A client's half of one login. Each is used once.

    Every method raises AuthenticationFailed, in words that hold no secret, where the broker's half is not what it
    should be.
    """

    mechanism: str = ""
    is_complete: bool = False
    """True after the broker's last expected token; an earlier success is an error."""

    def first(self) -> bytes:
        raise NotImplementedError

    def next(self, challenge: bytes) -> bytes | Derivation | None:
        """Return the reply to the broker's token, or the derivation it needs; None if none is due."""
        raise NotImplementedError

    def derived(self, salted_password: bytes) -> bytes:
        """Continue with the derived password; return the token that ``next`` could not."""
        raise NotImplementedError


class Refused(KohortError):
    """A broker's half refuses. ``words`` are for the client; None where it is told nothing that it could learn from.

    ``detail`` is for the broker's log alone, and holds no secret.
    """

    def __init__(self, words: str | None = None, detail: str = "") -> None:
        super().__init__(detail or words or "invalid credentials")
        self.words = words
        self.detail = detail


class KeysWanted(KohortError):
    """The token cannot be verified before keys are fetched; evaluate it again then."""


class LoggedInAs(NamedTuple):
    """The user, and the end of the session; None for no end."""

    name: str
    expires_ms: int | None = None


class ServerExchange:
    """A broker's half of one login. Each is used once."""

    mechanism: str = ""
    user: LoggedInAs | None = None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Answer a client's token. Raises Refused, or KeysWanted for a token to evaluate again."""
        raise NotImplementedError


def text_of(token: bytes) -> str:
    try:
        return bytes(token).decode()
    except UnicodeDecodeError:
        raise Refused(detail="not UTF-8") from None
