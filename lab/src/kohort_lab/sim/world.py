"""Event queue of a run: one seed, one clock.

An event is a function with a time. Events of the same millisecond run in creation order, so a run depends only on its
seed.
"""

from __future__ import annotations

import gc
import heapq
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

Action = Callable[[], None]

START_MS = 1_700_000_000_000
EVENTS_MAX = 300_000
MOMENT_MAX = 5_000
COLLECT_AFTER: Final = (50_000, 20, 50)
"""Thresholds of the garbage collector; a run makes many objects and few cycles, and the defaults cost 10 % time."""


class Storm(AssertionError):
    """Endless chain of events."""


class World:
    """Clock, random numbers and event queue of a run."""

    def __init__(self, seed: int, *, events_max: int = EVENTS_MAX, moment_max: int = MOMENT_MAX) -> None:
        """Limit the number of events, in total and per millisecond."""
        self.seed = seed
        self._events_max = events_max
        self._moment_max = moment_max
        self.rng = random.Random(seed)
        self.now_ms = START_MS
        self.events = 0
        self._moment_began = 0
        self._queue: list[tuple[int, int, Action]] = []
        self._serial = 0

    @property
    def elapsed_ms(self) -> int:
        """Simulated time since the start, in ms."""
        return self.now_ms - START_MS

    def fork_rng(self) -> random.Random:
        """Return random numbers for one actor, independent of other actors' draws."""
        return random.Random(self.rng.getrandbits(64))

    def after(self, delay_ms: int, action: Action) -> None:
        assert delay_ms >= 0, "an event cannot lie in the past"
        self._serial += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._serial, action))

    def run(self, until_ms: int, *, after_each: Action, stop: Callable[[], bool] | None = None) -> bool:
        """Run events up to the time ``until_ms``. Return True as soon as ``stop()`` is true, False at the end."""
        with _few_collections():
            return self._run(until_ms, after_each, stop)

    def _run(self, until_ms: int, after_each: Action, stop: Callable[[], bool] | None) -> bool:
        queue, pop = self._queue, heapq.heappop
        while queue and queue[0][0] <= until_ms:
            at_ms, _, action = pop(queue)
            if at_ms > self.now_ms:
                self.now_ms = at_ms
                self._moment_began = self.events
            self.events += 1
            if self.events > self._events_max or self.events - self._moment_began > self._moment_max:
                raise Storm(f"{self.events} events, {self.events - self._moment_began} of them in one millisecond")
            action()
            after_each()
            if stop is not None and stop():
                return True
        self.now_ms = max(self.now_ms, until_ms)
        return stop is not None and stop()


@contextmanager
def _few_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
