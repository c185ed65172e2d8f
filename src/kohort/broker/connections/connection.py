"""One peer: its frames, the one request in flight, and what waits behind it.

Kafka mutes a channel until the answer to its request is queued, so answers keep the order of requests
(protocol/requests.md#order-of-answers). Here the bytes that come meanwhile wait, bounded: above ``PAUSE_BYTES`` the
server is asked to stop reading from the peer. A large request that nothing holds up is read as far as there is room for
it (``budgets``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kohort.broker.connections.budgets import Outbox
from kohort.broker.request import Caller, ConnectionId, ReplyTo
from kohort.errors import ProtocolError
from kohort.notes import Note
from kohort.security.acls import Principal
from kohort.wire.codec import Buffer
from kohort.wire.frames import FrameReader

LARGE_BYTES: Final = 64 << 10
"""A frame above this is read in steps."""
PAUSE_BYTES: Final = 1 << 18
TLS_HELLO: Final = b"\x16\x03"
WITHOUT_TLS: Final = "security.protocol=PLAINTEXT or SASL_PLAINTEXT"


class Connection:
    """A connection as the broker sees it."""

    __slots__ = (
        "active_ms",
        "awaits_memory",
        "burst_bytes",
        "caller",
        "closed",
        "congested",
        "connection_id",
        "frames",
        "in_flight",
        "login",
        "muted_until_ms",
        "outbox",
        "paused",
        "reader",
        "refused",
        "since_ns",
        "waiting_bytes",
    )

    def __init__(self, connection_id: ConnectionId, caller: Caller, max_frame_bytes: int, now_ms: int) -> None:
        self.connection_id = connection_id
        self.caller = caller
        self.reader = FrameReader(max_frame_bytes, uncopied_above=LARGE_BYTES)
        """Its ``max_bytes`` may change while the connection stands."""
        self.frames: deque[bytes | bytearray] = deque()
        self.waiting_bytes = 0
        self.in_flight: ReplyTo | None = None
        self.since_ns = 0
        """When the request that is served, or waits, was taken up (BrokerCounters.time_ns)."""
        self.outbox = Outbox()
        self.paused = False
        self.awaits_memory = False
        """A large request of its own has begun, and there is no room for the rest of it."""
        self.congested = False
        self.burst_bytes = 0
        """Bytes sent since the peer was last known to have read everything."""
        self.closed = False
        self.muted_until_ms: int | None = None
        """Until when no request of it is served (OpenConnections.mute)."""
        self.refused: Note | None = None
        """Why it is closed when it is no longer muted, and never served."""
        self.login: Login | None = None
        """Where the listener wants one."""
        self.active_ms = now_ms

    def begin_login(self, login: Login | None) -> None:
        """Have a login see its frames, and hold them small until it is complete; None where none is wanted."""
        self.login = login
        if login is not None:
            self.reader.max_bytes = login.max_frame_bytes

    def receive(self, data: bytes) -> int:
        """Take bytes off the wire; how many requests they completed. Raises ProtocolError for a length that cannot be
        one."""
        frames = self.reader.feed(data)
        for frame in frames:
            self.frames.append(frame)
            self.waiting_bytes += len(frame)
        return len(frames)

    def describe_error(self, error: ProtocolError, data: bytes) -> str:
        """Say what is wrong with a frame; a length that nobody can mean may be the beginning of TLS."""
        if data.startswith(TLS_HELLO):
            return f"speaks TLS to the listener {self.caller.listener}, which has none: set {WITHOUT_TLS} there"
        return str(error)

    @property
    def host(self) -> str:
        return self.caller.host

    @property
    def is_blocked(self) -> bool:
        """True if something must happen before the next request is served."""
        return (
            self.in_flight is not None or self.congested or bool(self.outbox.parts) or self.muted_until_ms is not None
        )

    @property
    def can_serve(self) -> bool:
        """Whether the next frame may be served now."""
        return bool(self.frames) and not (self.closed or self.is_blocked)

    def next_frame(self) -> bytes | bytearray:
        frame = self.frames.popleft()
        self.waiting_bytes -= len(frame)
        return frame

    @property
    def must_pause(self) -> bool:
        """True if the peer sent enough ahead of its answers, or more than there is room for."""
        held = self.waiting_bytes + self.reader.pending_bytes
        return self.awaits_memory or (held > PAUSE_BYTES and (bool(self.frames) or self.is_blocked))


@dataclass(frozen=True, slots=True)
class LoginStep:
    """Result of one frame of a login."""

    buffers: Sequence[Buffer] = ()
    """What is answered now."""
    principal: Principal | None = None
    """Principal of the connection from now on."""
    closing: Note | None = None
    """Why the connection is closed, once that is answered."""
    wait_ms: int = 0
    """How long to wait before ``Login.resume``; nothing is served meanwhile."""


class Login:
    """The login of one connection to a listener with SASL."""

    __slots__ = ("awaits_keys", "max_frame_bytes")

    max_frame_bytes: int
    """Bytes of a frame before the login is complete."""
    awaits_keys: bool
    """True while the login waits for signing keys."""

    def takes(self, frame: bytes | bytearray, now_ms: int) -> bool:
        """Tell whether the login takes a frame: any frame until it is complete."""
        raise NotImplementedError

    def step(self, frame: bytes | bytearray, now_ms: int) -> LoginStep:
        """Take such a frame."""
        raise NotImplementedError

    def resume(self, now_ms: int) -> LoginStep | None:
        """Continue after a wait; None if the wait was not for the login."""
        raise NotImplementedError
