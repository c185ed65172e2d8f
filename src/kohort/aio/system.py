"""The real clock and real random numbers: what every machine is given outside of tests."""

from __future__ import annotations

import random
import time
from typing import Final

AHEAD_NS: Final = 1_000_000_000


class SystemClock:
    """Milliseconds since the epoch, never going back: the wall's at the start, carried on by the monotonic clock.

    Where the wall's has run ahead by a second, this one is set by it again: the machine has slept, when the monotonic
    clock stands still on Linux, or its clock was put right. Records come with the wall's time, and what is here an hour
    behind would refuse them.
    """

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        now_ns = time.monotonic_ns()
        offset_ns = time.time_ns() - now_ns
        if offset_ns - self._offset_ns > AHEAD_NS:
            self._offset_ns = offset_ns  # whichever thread notices: the same for all of them
        return (now_ns + self._offset_ns) // 1_000_000


def wall_ms() -> int:
    """Return the machine's clock in milliseconds since the epoch: the time of a record. It may go back."""
    return time.time_ns() // 1_000_000


def system_rng() -> random.Random:
    """Chance from the operating system: what was drawn tells nobody what will be, as nonces of logins need it."""
    return random.SystemRandom()
