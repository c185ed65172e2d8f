"""What is given, never taken: the clock, chance, and timers with names.

Machines read no clock and roll no dice; they get ``now_ms`` with every event and an ``Rng`` when they are made.
So a run is its inputs, and a seed repeats it.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)


class Clock(Protocol):
    """Where ``now_ms`` comes from: milliseconds since the epoch, never going back."""

    def now_ms(self) -> int: ...


class Rng(Protocol):
    """Chance and identity. ``random.Random`` satisfies it; so does a seeded one."""

    def random(self) -> float: ...
    def randrange(self, start: int, stop: int) -> int: ...
    def getrandbits(self, k: int) -> int: ...


class ManualClock:
    """A clock that moves when told: for tests and for the simulator."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, delta_ms: int) -> int:
        """Move on by ``delta_ms`` (never back) and return the new time."""
        assert delta_ms >= 0, "time does not go back"
        self._now_ms += delta_ms
        return self._now_ms


def uuid_text(rng: Rng) -> str:
    """A version 4 UUID in its usual 36 characters, drawn from ``rng``."""
    bits = (rng.getrandbits(128) & ~(0xF000 << 64) & ~(0xC000 << 48)) | (4 << 76) | (2 << 62)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Timers(Generic[K]):
    """Timers by key: one deadline per key, set, moved and cancelled in O(log n), fired in order.

    A moved or cancelled timer leaves its old entry on the heap, to be skipped when it surfaces; the heap is rebuilt
    when such entries outnumber the live ones, so memory follows the number of live timers.
    """

    def __init__(self) -> None:
        self._deadlines: dict[K, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._serial = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def set(self, key: K, at_ms: int) -> None:
        """Fire ``key`` at ``at_ms``; an earlier deadline of the same key is replaced."""
        self._serial += 1
        self._deadlines[key] = (at_ms, self._serial)
        heapq.heappush(self._heap, (at_ms, self._serial, key))
        if len(self._heap) > 64 + 2 * len(self._deadlines):
            self._heap = [(at, serial, k) for k, (at, serial) in self._deadlines.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: K) -> None:
        """Forget ``key``; nothing happens if it is not set."""
        self._deadlines.pop(key, None)

    def deadline_ms(self, key: K) -> int | None:
        entry = self._deadlines.get(key)
        return entry[0] if entry else None

    @property
    def wake_at_ms(self) -> int | None:
        """The nearest deadline, or None."""
        heap = self._heap
        while heap:
            at_ms, serial, key = heap[0]
            if self._deadlines.get(key) == (at_ms, serial):
                return at_ms
            heapq.heappop(heap)
        return None

    def pop_due(self, now_ms: int) -> Iterator[K]:
        """The keys whose time has come, earliest first; each is removed before it is yielded."""
        while (at_ms := self.wake_at_ms) is not None and at_ms <= now_ms:
            _, _, key = heapq.heappop(self._heap)
            del self._deadlines[key]
            yield key

    def keys(self) -> list[K]:
        return list(self._deadlines)
