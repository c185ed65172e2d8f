"""Detect stalls of a broker's event loop. A timer creates an event each second, so two seconds without any are a stall.

When a suspended process continues, its pending events run before its timers. So each event checks for a stall. The
detector uses the clock of the session timeouts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kohort.broker.counters import Durations

EVERY_MS: Final = 1_000
STALL_MS: Final = 1_000
"""Shortest reported stall of the event loop, in ms: session timeouts are several seconds."""


class StallDetector:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        beat: Callable[[], None],
        late: Callable[[int, int], None],
    ) -> None:
        """Start the stall detection. It calls ``beat`` each second. ``beat`` must call ``stall_start_ms``.

        ``late(delay_ms, now_ms)`` is called if ``stall_start_ms`` was not called for more than a second.
        """
        self._loop = loop
        self._now_ms = now_ms
        self._beat = beat
        self._late = late
        self._alive_ms = now_ms()
        self._timer = loop.call_later(EVERY_MS / 1000, self._called)

    def _called(self) -> None:
        self._timer = self._loop.call_later(EVERY_MS / 1000, self._called)
        self._beat()

    def stall_start_ms(self, now_ms: int) -> int | None:
        """Return the start time in ms of a stall that ends now; None if there was no stall."""
        due_ms, self._alive_ms = self._alive_ms + EVERY_MS, now_ms
        if now_ms > due_ms:
            self._late(now_ms - due_ms, now_ms)
        return due_ms if now_ms - due_ms >= STALL_MS else None

    def restart(self) -> None:
        """Restart the stall detection after the clock was changed."""
        self._alive_ms = self._now_ms()

    def end(self) -> None:
        self._timer.cancel()


EVERY_S: Final = 0.5


class LoopLag:
    """Histogram of the delays of a repeated timer on an event loop. The timer runs until ``end``."""

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
