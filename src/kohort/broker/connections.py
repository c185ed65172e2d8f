"""One peer: its frames, the one request in flight, and what waits behind it.

Kafka mutes a channel until the answer to its request is queued, so answers keep the order of requests (facts 0.1). Here
the bytes that come meanwhile wait, bounded: above ``PAUSE_BYTES`` the server is asked to stop reading from the peer.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from kohort.broker.io import ConnectionId
from kohort.broker.request import ReplyTo
from kohort.wire.frames import FrameReader

LARGE_BYTES: Final = 64 << 10
"""A frame above this is read in steps."""
PAUSE_BYTES: Final = 1 << 18
BURST_BYTES: Final = 1 << 20
"""Bytes sent to one peer within one event, after which its next requests wait for the next event: a peer that asks for
much and reads little is found out (``Congested``) before it costs memory."""


class Connection:
    """A connection as the broker sees it."""

    __slots__ = (
        "active_ms",
        "burst_bytes",
        "client_host",
        "closed",
        "congested",
        "connection_id",
        "frames",
        "host",
        "in_flight",
        "paused",
        "reader",
        "waiting_bytes",
    )

    def __init__(self, connection_id: ConnectionId, host: str, max_frame_bytes: int, now_ms: int) -> None:
        self.connection_id = connection_id
        self.host = host
        self.client_host = f"/{host}"
        """As Kafka writes addresses."""
        self.reader = FrameReader(max_frame_bytes, uncopied_above=LARGE_BYTES)
        self.frames: deque[bytes | bytearray] = deque()
        self.waiting_bytes = 0
        self.in_flight: ReplyTo | None = None
        self.paused = False
        self.congested = False
        self.burst_bytes = 0
        self.closed = False
        self.active_ms = now_ms

    def receive(self, data: bytes) -> None:
        """Take bytes off the wire; raises ProtocolError for a length that cannot be one."""
        for frame in self.reader.feed(data):
            self.frames.append(frame)
            self.waiting_bytes += len(frame)

    @property
    def can_serve(self) -> bool:
        """Whether the next frame may be served now."""
        return self.in_flight is None and bool(self.frames) and not (self.congested or self.closed)

    def next_frame(self) -> bytes | bytearray:
        frame = self.frames.popleft()
        self.waiting_bytes -= len(frame)
        return frame

    @property
    def is_full(self) -> bool:
        """Whether the peer has sent enough ahead of its answers."""
        return bool(self.frames) and self.waiting_bytes + self.reader.pending_bytes > PAUSE_BYTES
