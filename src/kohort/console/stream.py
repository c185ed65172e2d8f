"""Streams of events (SSE): one for each tab, with a bounded queue of its own; who does not read is told to load anew.

The hub lives on the loop of the server. What is published is made into bytes once, for all.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

PING_S: Final = 15.0
MOST_STREAMS: Final = 200
MOST_WAITING: Final = 64
MOST_WAITING_BYTES: Final = 1 << 20
"""Of one stream; beyond that all that waits becomes one ``resync``."""
MOST_KEPT: Final = 256
MOST_KEPT_BYTES: Final = 4 << 20
"""What is kept for those that come back with Last-Event-ID."""
RETRY_MS: Final = 1_000
RESYNC: Final = b"id: %d\nevent: resync\ndata: {}\n\n"
WITHOUT_VALUES: Final = ("reach", "resync")
"""Events that tell nothing of a group."""
GOODBYE: Final = b"event: bye\ndata: {}\n\n"


class Event:
    """An encoded event of one group, or of all (None)."""

    __slots__ = ("data", "group", "name", "number")

    def __init__(self, number: int, name: str, told: bytes, group: str | None) -> None:
        self.number, self.group, self.name = number, group, name
        self.data = b"id: %d\nevent: %s\ndata: %s\n\n" % (number, name.encode(), told)


class Waiting:
    """Unsent events of one stream. A narrowed one sends no values: its page asks again with the user's rights."""

    def __init__(self, group: str | None, *, is_narrowed: bool = False) -> None:
        self.group, self._is_narrowed = group, is_narrowed
        self._asks_again = False
        self._events: deque[bytes] = deque()
        self._bytes = 0
        self._is_lost = False
        self._woken = asyncio.Event()

    def add(self, event: Event) -> None:
        """Queue an event of its group; an overflow becomes one ``resync``."""
        if self._is_lost or event.group not in (None, self.group):
            return
        data = event.data
        if self._is_narrowed and event.name not in WITHOUT_VALUES:
            if self._asks_again:
                return
            self._asks_again, data = True, RESYNC % event.number
        self._events.append(data)
        self._bytes += len(data)
        if len(self._events) > MOST_WAITING or self._bytes > MOST_WAITING_BYTES:
            self.lose(event.number)
        self._woken.set()

    def lose(self, number: int) -> None:
        """Replace the queue by a ``resync``."""
        self._events.clear()
        self._events.append(RESYNC % number)
        self._bytes, self._is_lost = len(self._events[0]), True
        self._woken.set()

    @property
    def size(self) -> int:
        return self._bytes

    async def next(self, within_s: float) -> bytes | None:
        """Return the queued bytes; None after ``within_s``."""
        if not self._events:
            self._woken.clear()
            try:
                await asyncio.wait_for(self._woken.wait(), within_s)
            except TimeoutError:
                return None
        data = b"".join(self._events)
        self._events.clear()
        self._bytes, self._is_lost, self._asks_again = 0, False, False
        return data

    def wake(self) -> None:
        self._woken.set()


class Hub:
    def __init__(self) -> None:
        self._streams: set[Waiting] = set()
        self._wanted: Counter[str] = Counter()
        """How many streams there are of each group."""
        self._kept: deque[Event] = deque()
        self._kept_bytes = 0
        self._number = 0
        self._ending = False

    def open(self, group: str | None, *, is_narrowed: bool = False) -> Waiting | None:
        """Open a stream; None at the limit."""
        if len(self._streams) >= MOST_STREAMS:
            return None
        mine = Waiting(group, is_narrowed=is_narrowed)
        self._streams.add(mine)
        if group is not None:
            self._wanted[group] += 1
        return mine

    def close(self, mine: Waiting) -> None:
        if mine in self._streams:
            self._streams.discard(mine)
            if mine.group is not None:
                self._wanted -= Counter({mine.group: 1})

    @property
    def waiting_bytes(self) -> int:
        return sum(one.size for one in self._streams)

    def publish(self, name: str, told: bytes, group: str | None = None) -> None:
        """Send an event, whose data is JSON, to all streams, or to those of a group."""
        self._number += 1
        event = Event(self._number, name, told, group)
        self._kept.append(event)
        self._kept_bytes += len(event.data)
        while len(self._kept) > MOST_KEPT or self._kept_bytes > MOST_KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popleft().data)
        for one in self._streams:
            one.add(event)

    def end(self) -> None:
        self._ending = True
        for one in self._streams:
            one.wake()

    def wants(self, group: str) -> bool:
        """Tell whether a stream shows a group, for any thread."""
        return group in self._wanted

    async def stream(
        self, mine: Waiting, last_id: str | None, first: Callable[[], Awaitable[bytes]] | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the events of a stream until its client or the hub ends. ``first`` returns the first events."""
        try:
            self._resume(mine, last_id)
            yield b"retry: %d\n\n" % RETRY_MS
            if first is not None and (told := await first()):
                yield told
            while not self._ending:
                data = await mine.next(PING_S)
                if data is None:
                    yield b": ping\n\n"
                elif data:
                    yield data
            yield GOODBYE
        finally:
            self.close(mine)

    def _resume(self, mine: Waiting, last_id: str | None) -> None:
        """Send the events since the last one of the tab; ``resync`` if they are dropped."""
        if last_id is None or not (last_id.isascii() and last_id.isdecimal() and len(last_id) < 19):
            return
        last = int(last_id)
        missed = [event for event in self._kept if event.number > last]
        if last > self._number or self._number - last != len(missed):
            mine.lose(self._number)
            return
        for event in missed:
            mine.add(event)
