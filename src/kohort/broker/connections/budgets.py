"""Memory of all connections together: large requests that arrive, and answers that are not read yet.

The budget of requests that arrive: how much of them, from all connections, may be in memory before they are whole.

Kafka's ``queued.max.request.bytes`` sets memory aside for a whole request when its length is known, and reads from no
connection once it is used up. Here a small request is always read, and a large one waits, unread, until there is room
for its length; memory is taken as bytes arrive. Very large requests have half of the room to themselves, so that they
do not hold up others: at least one of them is let in, however large. While somebody waits, a request that was let in
must arrive within a limited time.

What answers hold in memory until their readers take them, all connections together.

A reader is sent about a mebibyte, and more once it has read that. The rest is read from the log only then, so a large
answer costs no more than a small one (KIP-74 bounds only what one answer holds). Two things follow when many do not
read: from half of ``queued.max.request.bytes`` on the pieces are small, and above all of it the connection that has
read nothing for the longest is ended. Kafka sends from the page cache and has no such limit.
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
"""A request up to this size needs no room: each connection may hold one."""
GRACE_MS: Final = 10_000
SLOWEST_BYTES_PER_MS: Final = 1 << 10
"""How fast a request has to come while others wait for its room: 10 s, and a second for each mebibyte."""
NO_LIMIT: Final = -1
PIECE_BYTES: Final = 1 << 20
"""Sent to one peer within one event; the rest, and its next requests, wait for the next event: a peer that asks for
much and reads little is found out (``Congested``) before it costs memory."""
SMALL_PIECE_BYTES: Final = 1 << 16
MOST_ANSWER_BYTES: Final = 1 << 30
"""Largest answer without a configured limit: half of the largest frame."""


@dataclass(slots=True)
class _SizeClass:
    """Requests of similar sizes, and the room that they share."""

    bytes: int
    used_bytes: int = 0
    due_ms: dict[ConnectionId, int] = field(default_factory=dict)
    """Deadline of each request that arrives, while others wait."""
    waiting: dict[ConnectionId, int] = field(default_factory=dict)
    """Who waits for how much, longest first."""

    def has(self, size: int) -> bool:
        return self.used_bytes + size <= self.bytes or not self.due_ms


class FrameBudget:
    """Who may send a large request now."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._unlimited = limit == NO_LIMIT
        self._very_large = limit // 8
        self._size_classes = (_SizeClass(limit // 2), _SizeClass(limit // 2))
        self._sizes: dict[ConnectionId, int] = {}

    def __contains__(self, connection: ConnectionId) -> bool:
        """Tell whether the connection sends a large request, or waits to."""
        return connection in self._sizes

    @property
    def used_bytes(self) -> int:
        """The lengths of the large requests that are arriving."""
        return sum(size_class.used_bytes for size_class in self._size_classes)

    @property
    def waiting(self) -> int:
        return sum(len(size_class.waiting) for size_class in self._size_classes)

    @property
    def wake_at_ms(self) -> int | None:
        """Time of the next deadline of a request that keeps others waiting."""
        if not self._sizes:
            return None
        return min(
            (min(size_class.due_ms.values()) for size_class in self._size_classes if size_class.waiting), default=None
        )

    def ask(self, connection: ConnectionId, size: int, now_ms: int) -> bool:
        """Tell whether a request of ``size`` bytes may be read now; if not, ``free`` will tell when it may."""
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
        """Take back the memory of a request that is whole, or whose peer is gone. Returns whose requests may be read
        now."""
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
        """Return who keeps others waiting and has been too slow."""
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
    """Answers of one connection that are not sent yet, in order."""

    __slots__ = ("_sent_of_first", "held_bytes", "parts")

    def __init__(self) -> None:
        self.parts: deque[Buffer | LogSlice] = deque()
        self._sent_of_first = 0
        self.held_bytes = 0

    def add(self, parts: Sequence[Buffer | LogSlice]) -> None:
        self.parts.extend(parts)
        self.held_bytes += sum(map(_held_by, parts))

    def take(self, most: int) -> list[Buffer]:
        """Return the next ``most`` bytes or, where they are in memory anyway, a few more. Raises StorageError."""
        taken: list[Buffer] = []
        while self.parts and most > 0:
            part = self.parts[0]
            if isinstance(part, LogSlice):
                size = min(len(part) - self._sent_of_first, most)
                taken.append(part.read(self._sent_of_first, size))
                self._sent_of_first += size
                if self._sent_of_first < len(part):
                    self.held_bytes -= len(part.prefix)
                    part.prefix = b""  # it was sent, or is read anew when its turn comes
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
    """Which connections hold how much, by what they were handed and by what waits for them here."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[ConnectionId, int] = {}
        """Who has read nothing for the longest comes first."""
        self._growing: dict[ConnectionId, int] = {}
        """Bytes of unfinished answers."""
        self.held_bytes = 0
        self.most_held_bytes = 0
        self.ended = 0
        """Connections that were ended for not reading."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def limit(self) -> int:
        """Bytes of all connections together; -1 for no limit."""
        return self._limit

    @property
    def answer_bytes(self) -> int:
        """Bytes above which the rest of an answer is refused."""
        return MOST_ANSWER_BYTES if self._limit == NO_LIMIT else self._limit

    @property
    def piece_bytes(self) -> int:
        scarce = self._limit != NO_LIMIT and self.held_bytes > self._limit // 2
        return SMALL_PIECE_BYTES if scarce else PIECE_BYTES

    def set(self, connection: ConnectionId, held: int) -> None:
        """Note that so much waits for ``connection`` to read; 0 if it has read all, and is forgotten."""
        if not held:
            self.held_bytes -= self._held.pop(connection, 0)
            return
        self.held_bytes += held - self._held.get(connection, 0)
        self._held[connection] = held
        self.most_held_bytes = max(self.most_held_bytes, self.held_bytes)

    def set_growing(self, connection: ConnectionId, written: int) -> None:
        """Set the bytes of an unfinished answer of a connection; 0 removes it."""
        self.held_bytes += written - self._growing.pop(connection, 0)
        if written:
            self._growing[connection] = written
        self.most_held_bytes = max(self.most_held_bytes, self.held_bytes)

    def too_many(self) -> ConnectionId | None:
        """Return the connection with the oldest unread answer if all answers exceed the limit.

        A single connection may exceed the limit.
        """
        if self._limit == NO_LIMIT or self.held_bytes <= self._limit or not self._held:
            return None
        if len(self._held) + len(self._growing) <= 1:
            return None
        self.ended += 1
        return next(iter(self._held))
