"""Input events and output actions of the client's request engine; ``kohort.broker.io`` has those of the broker."""

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
    """Event: bytes read into ``Engine.room`` complete at least one response frame."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Closed:
    """Event: the connection ended or failed; ``reason`` is an error message.

    ``is_refusal``: client or broker rejected the other's certificate or TLS parameters, so a retry cannot succeed.
    """

    connection: ConnectionId
    reason: str
    is_refusal: bool = False


@dataclass(frozen=True, slots=True)
class TokenReady:
    """Event: result of ``RequestToken``: a token, a login error, or None after a complete login.

    AuthenticationFailed is permanent; other errors count as a lost connection. ``identity`` names the user in error
    messages and contains no secret.
    """

    connection: ConnectionId
    token: bytes | KohortError | None
    identity: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """Event without input: time has passed, or the user called a method."""


@dataclass(frozen=True, slots=True)
class Open:
    """Action: connect to host and port; the result is the event Opened or Closed."""

    connection: ConnectionId
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Send:
    connection: ConnectionId
    buffers: Sequence[Buffer]


@dataclass(frozen=True, slots=True)
class Close:
    """Action: close the connection; no event Closed follows."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class RequestToken:
    """Action: create the next token of a SASL login: the first one, or the answer to the broker's ``challenge``."""

    connection: ConnectionId
    host: str
    challenge: bytes | None


Input = Opened | Received | FramesArrived | Closed | TokenReady | Tick
Output = Open | Send | Close | RequestToken
