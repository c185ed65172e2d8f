"""What goes into a client and what comes out of it: the mirror of the broker's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kohort.errors import KohortError
from kohort.wire.codec import Buffer

ConnectionId = int
CLOSED_BY_BROKER: Final = "the broker closed the connection"


@dataclass(frozen=True, slots=True)
class Opened:
    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Received:
    connection: ConnectionId
    data: bytes


@dataclass(frozen=True, slots=True)
class FramesArrived:
    """Bytes were written where ``Engine.room`` said, and ``Engine.arrived`` found something whole among them."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Closed:
    """The connection ended, or could not be made; ``reason`` says why in words.

    ``is_refusal``: one side does not accept the other (a certificate, TLS itself), so that no further try mends it.
    """

    connection: ConnectionId
    reason: str
    is_refusal: bool = False


@dataclass(frozen=True, slots=True)
class TokenReady:
    """The token that ``WantToken`` asked for; None: the login is complete.

    An error says why it cannot be had, or how the broker failed to prove itself; it is final where it is
    AuthenticationFailed, else it counts as a lost connection. ``who`` logs in, in words for errors: no secret.
    """

    connection: ConnectionId
    token: bytes | KohortError | None
    who: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed, or the user asked for something."""


@dataclass(frozen=True, slots=True)
class Open:
    """Connect to host and port; answer with Opened or Closed."""

    connection: ConnectionId
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Send:
    connection: ConnectionId
    buffers: Sequence[Buffer]


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection; no Closed is expected for it."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class WantToken:
    """Work out a token of the login's mechanism, and answer with TokenReady: the first one of a new login to this
    host, or, with ``challenge``, the one that answers the broker's."""

    connection: ConnectionId
    host: str
    challenge: bytes | None


Input = Opened | Received | FramesArrived | Closed | TokenReady | Tick
Output = Open | Send | Close | WantToken
