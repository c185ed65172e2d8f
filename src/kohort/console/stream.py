"""Streams of server-sent events: one per browser tab, each with a queue of limited size.

A tab that reads too slowly gets a ``resync`` event, and then requests all data again. All code runs on the server's
event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, NamedTuple

PING_S: Final = 15.0
MOST_STREAMS: Final = 200
MOST_QUEUED: Final = 64
MOST_QUEUED_BYTES: Final = 1 << 20
"""Maximum size in bytes of a stream's unsent events. Above it, one ``resync`` event replaces them."""
MOST_KEPT: Final = 256
MOST_KEPT_BYTES: Final = 4 << 20
"""Maximum total size in bytes of the sent events that are kept for tabs that reconnect with Last-Event-ID."""
RETRY_MS: Final = 1_000
ENCODED: Final = b"id: %d\nevent: %s\ndata: %s\n\n"
RESYNC: Final = b"id: %d\nevent: resync\ndata: {}\n\n"
WITHOUT_VALUES: Final = ("reach", "resync")
"""Names of the events that users with limited rights get unchanged: these events contain no data of groups."""
GOODBYE: Final = b"event: bye\ndata: {}\n\n"


class Event(NamedTuple):
    """An encoded server-sent event. Only tabs that show ``group`` get the event; None: all tabs."""

    number: int
    name: str
    data: bytes
    group: str | None


class EventQueue:
    """Unsent events of a browser tab.

    For users with limited rights, a ``resync`` event replaces events with values: the page then requests the values.
    """

    def __init__(self, group: str | None, *, is_narrowed: bool = False) -> None:
        self.group, self._is_narrowed = group, is_narrowed
        self._resync_queued = False
        self._events: deque[bytes] = deque()
        self.size = 0
        """Total size of the unsent events, in bytes."""
        self._is_lost = False
        self._woken = asyncio.Event()

    def add(self, event: Event) -> None:
        if self._is_lost or event.group not in (None, self.group):
            return
        data = event.data
        if self._is_narrowed and event.name not in WITHOUT_VALUES:
            if self._resync_queued:
                return
            self._resync_queued, data = True, RESYNC % event.number
        self._events.append(data)
        self.size += len(data)
        if len(self._events) > MOST_QUEUED or self.size > MOST_QUEUED_BYTES:
            self.replace_by_resync(event.number)
        self._woken.set()

    def replace_by_resync(self, number: int) -> None:
        self._events.clear()
        self._events.append(RESYNC % number)
        self.size, self._is_lost = len(self._events[0]), True
        self._woken.set()

    async def next(self, within_s: float) -> bytes | None:
        """Wait for unsent events of the browser tab, and return all; None if there is none after ``within_s``."""
        if not self._events:
            self._woken.clear()
            try:
                await asyncio.wait_for(self._woken.wait(), within_s)
            except TimeoutError:
                return None
        data = b"".join(self._events)
        self._events.clear()
        self.size, self._is_lost, self._resync_queued = 0, False, False
        return data

    def wake(self) -> None:
        self._woken.set()


class Hub:
    def __init__(self) -> None:
        self._streams: set[EventQueue] = set()
        self._streams_of_group: Counter[str] = Counter()
        self._kept: deque[Event] = deque()
        self._kept_bytes = 0
        self._number = 0
        self._ending = False

    def open(self, group: str | None, *, is_narrowed: bool = False) -> EventQueue | None:
        if len(self._streams) >= MOST_STREAMS:
            return None
        queue = EventQueue(group, is_narrowed=is_narrowed)
        self._streams.add(queue)
        if group is not None:
            self._streams_of_group[group] += 1
        return queue

    def close(self, queue: EventQueue) -> None:
        if queue in self._streams:
            self._streams.discard(queue)
            if queue.group is not None:
                self._streams_of_group -= Counter({queue.group: 1})

    def publish(self, name: str, data: bytes, group: str | None = None) -> None:
        """Send an event with JSON ``data`` to all browser tabs, or to the tabs that show one group."""
        self._number += 1
        event = Event(self._number, name, ENCODED % (self._number, name.encode(), data), group)
        self._kept.append(event)
        self._kept_bytes += len(event.data)
        while len(self._kept) > MOST_KEPT or self._kept_bytes > MOST_KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popleft().data)
        for queue in self._streams:
            queue.add(event)

    def end(self) -> None:
        self._ending = True
        for queue in self._streams:
            queue.wake()

    def has_stream_of(self, group: str) -> bool:
        """Return True if a browser tab shows the group. Thread-safe."""
        return group in self._streams_of_group

    async def stream(
        self, queue: EventQueue, last_id: str | None, first: Callable[[], Awaitable[bytes]] | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the events of a stream until browser or server closes it. ``first`` returns the initial events."""
        try:
            self._resume(queue, last_id)
            yield b"retry: %d\n\n" % RETRY_MS
            if first is not None and (events := await first()):
                yield events
            while not self._ending:
                data = await queue.next(PING_S)
                if data is None:
                    yield b": ping\n\n"
                elif data:
                    yield data
            yield GOODBYE
        finally:
            self.close(queue)

    def _resume(self, queue: EventQueue, last_id: str | None) -> None:
        """Queue again the events after ``last_id``, or one ``resync`` event if they are no longer kept."""
        if last_id is None or not (last_id.isascii() and last_id.isdecimal() and len(last_id) < 19):
            return
        last = int(last_id)
        missed = [event for event in self._kept if event.number > last]
        if last > self._number or self._number - last != len(missed):
            queue.replace_by_resync(self._number)
            return
        for event in missed:
            queue.add(event)
