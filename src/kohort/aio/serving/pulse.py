"""Whether a loop stood still: a timer that beats once a second, and the moment at which it was last seen alive.

The beat goes by the clock of the sessions. A process that was stopped finds what came meanwhile before its timers; so
it is asked before every event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kohort.broker.counters import Durations

EVERY_MS: Final = 1_000
STALL_MS: Final = 1_000
"""Less than this is told of nobody: members are put out after seconds."""


class Pulse:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        beat: Callable[[], None],
        late: Callable[[int, int], None],
    ) -> None:
        """``beat`` is called with every beat, and is to ask ``stood_since``; ``late`` is told by how many
        milliseconds it was late, and when."""
        self._loop = loop
        self._now_ms = now_ms
        self._beat = beat
        self._late = late
        self._alive_ms = now_ms()
        self._timer = loop.call_later(EVERY_MS / 1000, self._called)

    def _called(self) -> None:
        self._timer = self._loop.call_later(EVERY_MS / 1000, self._called)
        self._beat()

    def stood_since(self, now_ms: int) -> int | None:
        """Return since when the loop had stood still, if it had; it is alive now."""
        due_ms, self._alive_ms = self._alive_ms + EVERY_MS, now_ms
        if now_ms > due_ms:
            self._late(now_ms - due_ms, now_ms)
        return due_ms if now_ms - due_ms >= STALL_MS else None

    def set_on(self) -> None:
        """Take it that the clock was set: that is no stall."""
        self._alive_ms = self._now_ms()

    def end(self) -> None:
        self._timer.cancel()


EVERY_S: Final = 0.5


class LoopLag:
    """The lateness of one loop, from when this is made until it is ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.lag = Durations()
        self._due_s = loop.time() + EVERY_S
        self._timer = loop.call_at(self._due_s, self._called)

    def _called(self) -> None:
        now_s = self._loop.time()
        self.lag.add(max(0, int((now_s - self._due_s) * 1e9)))
        self._due_s = now_s + EVERY_S
        self._timer = self._loop.call_at(self._due_s, self._called)

    def end(self) -> None:
        self._timer.cancel()
