"""One run: a queue of events in order of their time, one seed, one clock.

An event is a function that is called when its time has come. Two events of the same millisecond run in the order in
which they were made, so a run depends on its seed and on nothing else.
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
"""Objects made, then collections, between looks for cycles: a run makes many objects and few cycles, and the
interpreter's own thresholds cost a tenth of it."""


class Storm(AssertionError):
    """Events bring about events without end."""


class World:
    """The clock, the chance and the queue of one run."""

    def __init__(self, seed: int, *, events_max: int = EVENTS_MAX, moment_max: int = MOMENT_MAX) -> None:
        """Let there be at most so many events, and so many in one millisecond."""
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
        """Milliseconds since the run began."""
        return self.now_ms - START_MS

    def fork_rng(self) -> random.Random:
        """Return chance for one actor, so that what one draws does not shift what another gets."""
        return random.Random(self.rng.getrandbits(64))

    def after(self, delay_ms: int, action: Action) -> None:
        """Run ``action`` in ``delay_ms`` milliseconds."""
        assert delay_ms >= 0, "an event cannot lie in the past"
        self._serial += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._serial, action))

    def run(self, until_ms: int, *, after_each: Action, stop: Callable[[], bool] | None = None) -> bool:
        """Run events up to ``until_ms`` (absolute). Returns True as soon as ``stop()`` holds, False at the end."""
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
