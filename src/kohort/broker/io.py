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
class Send:
    """Buffers to write in this order; they are never joined by the broker."""

    connection: ConnectionId
    buffers: Sequence[Buffer]


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection after what was sent before is written. ``reason`` is for the log."""

    connection: ConnectionId
    reason: str


Input = Connected | Received | Disconnected | Tick
Output = Send | Close
