"""One connection: its frames, and its request in flight.

Requests of a connection are served one at a time, so responses keep their order
(protocol/requests.md#order-of-responses). Later frames wait; above ``PAUSE_BYTES`` of waiting frames the server stops
reading from the connection.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kohort.broker.connections.budgets import Outbox
from kohort.broker.request import Caller, ConnectionId, ReplyTo
from kohort.config.broker import BrokerConfig
from kohort.errors import ProtocolError
from kohort.notes import Note
from kohort.security.acls import Principal
from kohort.wire.apis import APIS
from kohort.wire.codec import Buffer
from kohort.wire.frames import FrameReader
from kohort.wire.messages.produce import ProduceRequest

LARGE_BYTES: Final = 64 << 10
"""Frames above this size are decoded in steps."""
PAUSE_BYTES: Final = 1 << 18
LARGEST_WITHOUT_RECORDS: Final = 16 << 20
"""Size limit of all requests but Produce, in bytes; a larger ``message.max.bytes`` replaces it:
the assignments in a SyncGroup request may fill a record.
"""
API_KEY: Final = struct.Struct(">h")
TLS_HELLO: Final = b"\x16\x03"
WITHOUT_TLS: Final = "security.protocol=PLAINTEXT or SASL_PLAINTEXT"


class Connection:
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
        "largest_without_records",
        "login",
        "muted_until_ms",
        "outbox",
        "paused",
        "reader",
        "refused",
        "since_ns",
        "waiting_bytes",
    )

    def __init__(self, connection_id: ConnectionId, caller: Caller, config: BrokerConfig, now_ms: int) -> None:
        self.connection_id = connection_id
        self.caller = caller
        self.reader = FrameReader(config.socket_request_max_bytes, uncopied_above=LARGE_BYTES)
        self.largest_without_records = max(LARGEST_WITHOUT_RECORDS, config.message_max_bytes)
        self.frames: deque[bytes | bytearray] = deque()
        self.waiting_bytes = 0
        self.in_flight: ReplyTo | None = None
        self.since_ns = 0
        """Receipt time of the request in flight, in nanoseconds (BrokerCounters.time_ns)."""
        self.outbox = Outbox()
        self.paused = False
        self.awaits_memory = False
        """True if a large request of this connection waits for the frame budget."""
        self.congested = False
        self.burst_bytes = 0
        """Bytes sent in the current event, or since the client became congested."""
        self.closed = False
        self.muted_until_ms: int | None = None
        """Time in ms until which the connection's requests are not served (OpenConnections.mute)."""
        self.refused: Note | None = None
        """Reason to close the connection when its mute ends; None to serve it then."""
        self.login: Login | None = None
        self.active_ms = now_ms

    def begin_login(self, login: Login | None) -> None:
        """Start the SASL login, which handles the connection's first frames and limits their size."""
        self.login = login
        if login is not None:
            self.reader.max_bytes = login.max_frame_bytes

    def receive(self, data: bytes) -> int:
        """Add received bytes to the frame reader; return the number of completed frames. Raises ProtocolError."""
        frames = self.reader.feed(data)
        for frame in frames:
            self.frames.append(frame)
            self.waiting_bytes += len(frame)
        if not frames and self.reader.frame_bytes > self.largest_without_records:
            self._check_carries_records()
        return len(frames)

    def _check_carries_records(self) -> None:
        """Raise ProtocolError for a large request that is not Produce, as soon as its API key is received."""
        key = self.reader.first_bytes(API_KEY.size)
        if len(key) == API_KEY.size and (number := API_KEY.unpack(key)[0]) != ProduceRequest.API_KEY:
            name = APIS[number].name if number in APIS else f"API {number}"
            raise ProtocolError(
                f"{name} request of {self.reader.frame_bytes} bytes exceeds the limit of {self.largest_without_records}"
                f" bytes for requests without records"
            )

    def describe_error(self, error: ProtocolError, data: bytes) -> str:
        """Describe an invalid frame for the server log, with advice for a frame that looks like TLS."""
        if data.startswith(TLS_HELLO):
            return (
                f"the client uses TLS on listener {self.caller.listener} without TLS: set {WITHOUT_TLS} in the client"
            )
        return str(error)

    @property
    def host(self) -> str:
        return self.caller.host

    @property
    def is_blocked(self) -> bool:
        return (
            self.in_flight is not None or self.congested or bool(self.outbox.parts) or self.muted_until_ms is not None
        )

    @property
    def can_serve(self) -> bool:
        return bool(self.frames) and not (self.closed or self.is_blocked)

    def next_frame(self) -> bytes | bytearray:
        frame = self.frames.popleft()
        self.waiting_bytes -= len(frame)
        return frame

    @property
    def must_pause(self) -> bool:
        """True if the server must stop reading: too many bytes of requests wait, or the frame budget is used up."""
        held = self.waiting_bytes + self.reader.pending_bytes
        return self.awaits_memory or (held > PAUSE_BYTES and (bool(self.frames) or self.is_blocked))


@dataclass(frozen=True, slots=True)
class LoginStep:
    buffers: Sequence[Buffer] = ()
    principal: Principal | None = None
    closing: Note | None = None
    """Reason to close the connection after ``buffers`` were sent."""
    wait_ms: int = 0
    """Time in ms until ``Login.resume`` is called; the connection's requests are not served meanwhile."""


class Login:
    """SASL login of one connection."""

    __slots__ = ("awaits_keys", "max_frame_bytes")

    max_frame_bytes: int
    awaits_keys: bool

    def takes(self, frame: bytes | bytearray, now_ms: int) -> bool:
        """Return True if the login handles the frame: any frame before the login is complete."""
        raise NotImplementedError

    def step(self, frame: bytes | bytearray, now_ms: int) -> LoginStep:
        raise NotImplementedError

    def resume(self, now_ms: int) -> LoginStep | None:
        """Continue a login after its wait; return None if the login did not wait."""
        raise NotImplementedError
