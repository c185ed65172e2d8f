"""Memory limits of all connections: for large requests that are being received, and for unread responses.

``FrameBudget``: Kafka's ``queued.max.request.bytes`` reserves memory for whole requests and stops reading from all
connections when used up. Here small requests are always read; a large one waits until the budget has room. Very large
requests have one half of the budget, so that they do not delay smaller ones, and one of them is always admitted. While
requests wait, admitted ones must arrive within a limited time.

``UnreadAnswers``: the broker sends about a mebibyte of a response, and continues when the client has read it. Unsent
records stay in the log until then, so a large response costs no more memory than a small one (KIP-74 limits only single
responses). If all unread responses together exceed half of ``queued.max.request.bytes``, the broker sends smaller
amounts. If they exceed all of it, the connection with the oldest unread response is closed. Kafka has no such limit, as
it sends from the page cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kohort.broker.request import ConnectionId
from kohort.log.batches import LogSlice
from kohort.wire.codec import Buffer

SMALL_FRAME_BYTES: Final = 1 << 16
"""Requests up to this size (bytes) need no frame budget."""
GRACE_MS: Final = 10_000
SLOWEST_BYTES_PER_MS: Final = 1 << 10
"""Minimum receive rate of a large request while further requests wait for the frame budget."""
NO_LIMIT: Final = -1
PIECE_BYTES: Final = 1 << 20
"""Maximum bytes sent to a client per event, so that a client that does not read is noticed early."""
SMALL_PIECE_BYTES: Final = 1 << 16
MOST_ANSWER_BYTES: Final = 1 << 30
"""Maximum bytes of a response if no limit is configured: half of the largest frame."""


@dataclass(slots=True)
class _SizeClass:
    """Requests of one size class (large or very large), and the half of the frame budget that they may use."""

    bytes: int
    used_bytes: int = 0
    due_ms: dict[ConnectionId, int] = field(default_factory=dict)
    """Deadlines of admitted requests while other requests wait for memory, as a dict: connection to time in ms."""
    waiting: dict[ConnectionId, int] = field(default_factory=dict)
    """Requests that wait for the frame budget, as a dict: connection to size in bytes; the longest wait is first."""

    def has(self, size: int) -> bool:
        return self.used_bytes + size <= self.bytes or not self.due_ms


class FrameBudget:
    """Memory budget for large requests that are being received."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._unlimited = limit == NO_LIMIT
        self._very_large = limit // 8
        self._size_classes = (_SizeClass(limit // 2), _SizeClass(limit // 2))
        self._sizes: dict[ConnectionId, int] = {}

    def __contains__(self, connection: ConnectionId) -> bool:
        """Return True if a large request of the connection is being received or waits for the budget."""
        return connection in self._sizes

    @property
    def used_bytes(self) -> int:
        return sum(size_class.used_bytes for size_class in self._size_classes)

    @property
    def waiting(self) -> int:
        return sum(len(size_class.waiting) for size_class in self._size_classes)

    @property
    def wake_at_ms(self) -> int | None:
        """Earliest deadline of an admitted request in ms, if further requests wait for memory."""
        if not self._sizes:
            return None
        return min(
            (min(size_class.due_ms.values()) for size_class in self._size_classes if size_class.waiting), default=None
        )

    def ask(self, connection: ConnectionId, size: int, now_ms: int) -> bool:
        """Return True if a request may be read now; otherwise it waits until a call of ``free`` admits it."""
        if self._unlimited or size <= SMALL_FRAME_BYTES or connection in self._sizes:
            return connection not in self._size_class(self._sizes.get(connection, 0)).waiting
        self._sizes[connection] = size
        size_class = self._size_class(size)
        if size_class.waiting or not size_class.has(size):
            size_class.waiting[connection] = size
            return False
        self._let_in(size_class, connection, size, now_ms)
        return True

    def free(self, connection: ConnectionId, now_ms: int) -> list[ConnectionId]:
        """Release the memory of a complete or abandoned request; return the connections admitted next."""
        size = self._sizes.pop(connection, None)
        if size is None:
            return []
        size_class = self._size_class(size)
        if size_class.waiting.pop(connection, None) is None:
            del size_class.due_ms[connection]
            size_class.used_bytes -= size
        let_in = []
        while size_class.waiting:
            first, wanted = next(iter(size_class.waiting.items()))
            if not size_class.has(wanted):
                break
            del size_class.waiting[first]
            self._let_in(size_class, first, wanted, now_ms)
            let_in.append(first)
        return let_in

    def late(self, now_ms: int) -> list[ConnectionId]:
        """Return connections with a large request that missed its deadline while requests of other connections wait."""
        return [
            connection
            for size_class in self._size_classes
            if size_class.waiting
            for connection, due_ms in size_class.due_ms.items()
            if due_ms <= now_ms
        ]

    def _size_class(self, size: int) -> _SizeClass:
        return self._size_classes[size > self._very_large]

    def _let_in(self, size_class: _SizeClass, connection: ConnectionId, size: int, now_ms: int) -> None:
        size_class.used_bytes += size
        size_class.due_ms[connection] = now_ms + GRACE_MS + size // SLOWEST_BYTES_PER_MS


class Outbox:
    """Unsent responses of one connection, in order."""

    __slots__ = ("_sent_of_first", "held_bytes", "parts")

    def __init__(self) -> None:
        self.parts: deque[Buffer | LogSlice] = deque()
        self._sent_of_first = 0
        self.held_bytes = 0

    def add(self, parts: Sequence[Buffer | LogSlice]) -> None:
        self.parts.extend(parts)
        self.held_bytes += sum(map(_held_by, parts))

    def take(self, most: int) -> list[Buffer]:
        """Return buffers to send, about ``most`` bytes; a buffer in memory is not split. Raises StorageError."""
        taken: list[Buffer] = []
        while self.parts and most > 0:
            part = self.parts[0]
            if isinstance(part, LogSlice):
                size = min(len(part) - self._sent_of_first, most)
                taken.append(part.read(self._sent_of_first, size))
                self._sent_of_first += size
                if self._sent_of_first < len(part):
                    self.held_bytes -= len(part.prefix)
                    part.prefix = b""  # free the preloaded records: later reads use the log
                    break
            else:
                size = len(part)
                taken.append(part)
            self.parts.popleft()
            self._sent_of_first = 0
            self.held_bytes -= _held_by(part)
            most -= size
        return taken


def _held_by(part: Buffer | LogSlice) -> int:
    return len(part.prefix) if isinstance(part, LogSlice) else len(part)


class UnreadAnswers:
    """Number of response bytes of each connection that its client has not read yet."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[ConnectionId, int] = {}
        self._growing: dict[ConnectionId, int] = {}
        self.held_bytes = 0
        self.most_held_bytes = 0
        self.ended = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def limit(self) -> int:
        """Limit of all unread responses in bytes (``queued.max.request.bytes``); -1: no limit."""
        return self._limit

    @property
    def answer_bytes(self) -> int:
        """Maximum bytes of a response with the limit ``AnswerBound.UNREAD``; errors replace the entries beyond it."""
        return MOST_ANSWER_BYTES if self._limit == NO_LIMIT else self._limit // 2

    @property
    def piece_bytes(self) -> int:
        scarce = self._limit != NO_LIMIT and self.held_bytes > self._limit // 2
        return SMALL_PIECE_BYTES if scarce else PIECE_BYTES

    def set(self, connection: ConnectionId, held: int) -> None:
        """Set the number of unread bytes of a connection; 0 removes the connection."""
        if not held:
            self.held_bytes -= self._held.pop(connection, 0)
            return
        self.held_bytes += held - self._held.get(connection, 0)
        self._held[connection] = held
        self.most_held_bytes = max(self.most_held_bytes, self.held_bytes)

    def set_growing(self, connection: ConnectionId, written: int) -> None:
        """Set the number of bytes of a connection's unfinished response; 0 removes it."""
        self.held_bytes += written - self._growing.pop(connection, 0)
        if written:
            self._growing[connection] = written
        self.most_held_bytes = max(self.most_held_bytes, self.held_bytes)

    def too_many(self) -> ConnectionId | None:
        """Return the connection with the oldest unread response if all unread responses exceed the limit.

        Returns None if only one connection has unread responses.
        """
        if self._limit == NO_LIMIT or self.held_bytes <= self._limit or not self._held:
            return None
        if len(self._held) + len(self._growing) <= 1:
            return None
        self.ended += 1
        return next(iter(self._held))
