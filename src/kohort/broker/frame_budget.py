"""The budget of requests that arrive: how much of them, from all connections, may be in memory before they are whole.

Kafka's ``queued.max.request.bytes`` sets memory aside for a whole request when its length is known, and reads from no
connection once it is used up. Here a small request is always read, and a large one waits, unread, until there is room
for its length; memory is taken as bytes arrive. Very large requests have half of the room to themselves, so that they
do not hold up others: at least one of them is let in, however large. While somebody waits, a request that was let in
must arrive within a limited time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kohort.broker.request import ConnectionId

SMALL_FRAME_BYTES: Final = 1 << 16
"""A request up to this size needs no room: each connection may hold one."""
GRACE_MS: Final = 10_000
SLOWEST_BYTES_PER_MS: Final = 1 << 10
"""How fast a request has to come while others wait for its room: 10 s, and a second for each mebibyte."""
NO_LIMIT: Final = -1


@dataclass(slots=True)
class _Lane:
    """Requests of similar sizes, and the room that they share."""

    bytes: int
    used_bytes: int = 0
    due_ms: dict[ConnectionId, int] = field(default_factory=dict)
    """Who has room, and until when while others wait."""
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
        self._lanes = (_Lane(limit // 2), _Lane(limit // 2))
        self._sizes: dict[ConnectionId, int] = {}

    def __contains__(self, connection: ConnectionId) -> bool:
        """Tell whether the connection sends a large request, or waits to."""
        return connection in self._sizes

    @property
    def used_bytes(self) -> int:
        """The lengths of the large requests that are arriving."""
        return sum(lane.used_bytes for lane in self._lanes)

    @property
    def waiting(self) -> int:
        """How many connections are not read because there is no room."""
        return sum(len(lane.waiting) for lane in self._lanes)

    @property
    def wake_at_ms(self) -> int | None:
        """When somebody is too slow who keeps others waiting."""
        if not self._sizes:
            return None
        return min((min(lane.due_ms.values()) for lane in self._lanes if lane.waiting), default=None)

    def ask(self, connection: ConnectionId, size: int, now_ms: int) -> bool:
        """Tell whether a request of ``size`` bytes may be read now; if not, ``free`` will tell when it may."""
        if self._unlimited or size <= SMALL_FRAME_BYTES or connection in self._sizes:
            return connection not in self._lane(self._sizes.get(connection, 0)).waiting
        self._sizes[connection] = size
        lane = self._lane(size)
        if lane.waiting or not lane.has(size):
            lane.waiting[connection] = size
            return False
        self._let_in(lane, connection, size, now_ms)
        return True

    def free(self, connection: ConnectionId, now_ms: int) -> list[ConnectionId]:
        """Take back the memory of a request that is whole, or whose peer is gone. Returns whose requests may be read
        now."""
        size = self._sizes.pop(connection, None)
        if size is None:
            return []
        lane = self._lane(size)
        if lane.waiting.pop(connection, None) is None:
            del lane.due_ms[connection]
            lane.used_bytes -= size
        let_in = []
        while lane.waiting:
            first, wanted = next(iter(lane.waiting.items()))
            if not lane.has(wanted):
                break
            del lane.waiting[first]
            self._let_in(lane, first, wanted, now_ms)
            let_in.append(first)
        return let_in

    def late(self, now_ms: int) -> list[ConnectionId]:
        """Return who keeps others waiting and has been too slow."""
        return [
            connection
            for lane in self._lanes
            if lane.waiting
            for connection, due_ms in lane.due_ms.items()
            if due_ms <= now_ms
        ]

    def _lane(self, size: int) -> _Lane:
        return self._lanes[size > self._very_large]

    def _let_in(self, lane: _Lane, connection: ConnectionId, size: int, now_ms: int) -> None:
        lane.used_bytes += size
        lane.due_ms[connection] = now_ms + GRACE_MS + size // SLOWEST_BYTES_PER_MS
