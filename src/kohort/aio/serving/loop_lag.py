"""How late a loop is: a timer that looks, twice a second, when it was called against when it was to be."""

from __future__ import annotations

import asyncio
from typing import Final

from kohort.broker.counters import Durations

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
        """Look no more."""
        self._timer.cancel()
