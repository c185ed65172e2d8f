"""The real clock and real random numbers: what every machine is given outside of tests."""

from __future__ import annotations

import random
import time
from typing import Final

NS_PER_MS: Final = 1_000_000


class SystemClock:
    """The monotonic clock, counted from the wall clock at the start.

    A wall clock that is set, or a machine that was suspended, moves no timer: only ``ahead_ms`` changes.
    """

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // NS_PER_MS

    def ahead_ms(self) -> int:
        return (time.time_ns() - time.monotonic_ns() - self._offset_ns) // NS_PER_MS


def wall_ms() -> int:
    """Return the machine's clock in milliseconds since the epoch: the time of a record. It may go back."""
    return time.time_ns() // 1_000_000


def system_rng() -> random.Random:
    """Chance from the operating system: what was drawn tells nobody what will be, as nonces of logins need it."""
    return random.SystemRandom()
