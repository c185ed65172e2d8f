"""The real clock and the real chance: what every machine is given outside of tests."""

from __future__ import annotations

import random
import time


class SystemClock:
    """Milliseconds since the epoch, never going back: the wall's at the start, carried on by the monotonic clock."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000


def system_rng() -> random.Random:
    """Chance from the operating system's entropy; a generator of its own for each machine."""
    return random.Random()
