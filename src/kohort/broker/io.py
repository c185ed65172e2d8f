"""What goes into a broker and what comes out of it: the whole of its contact with the world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kohort.wire.codec import Buffer

ConnectionId = int


@dataclass(frozen=True, slots=True)
class Connected:
    """A peer opened a connection; ``host`` is its address, without the port."""

    connection: ConnectionId
    host: str


@dataclass(frozen=True, slots=True)
class Received:
    """Bytes arrived: any part of a frame, or several frames."""

    connection: ConnectionId
    data: bytes


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The peer is gone; nothing more is sent there."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed: ``wake_at_ms`` is due."""


@dataclass(frozen=True, slots=True)
class Congested:
    """What was sent on the connection piles up unread by the peer; its requests wait until Drained."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Drained:
    """The peer reads again."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Send:
    """Buffers to write in this order; they are never joined by the broker."""

    connection: ConnectionId
    buffers: Sequence[Buffer]


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection after what was sent before is written. ``reason`` is for the log."""

    connection: ConnectionId
    reason: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Read no more from the connection: it has sent much while an earlier request of its own still waits."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Resume:
    """Read from the connection again."""

    connection: ConnectionId


Input = Connected | Received | Disconnected | Congested | Drained | Tick
Output = Send | Close | Pause | Resume
