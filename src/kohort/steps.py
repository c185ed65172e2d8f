"""Work in steps: what takes long gives way to others now and then, and goes on when its turn comes.

A machine has no clock, so nobody measures a step: whoever works says about how many microseconds each piece costs, and
a ``Pace`` adds them up. ``Steps`` are a generator that yields wherever others may be served, and returns what was made.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Final, TypeVar

R = TypeVar("R")
T = TypeVar("T")

Steps = Generator[None, None, R]

STEP_US: Final = 5_000
"""About how long one step takes: short beside the 50 ms that one request may hold up others."""
FIRST_US: Final = 15_000
"""The first step may take longer: what is done by then needs no other."""


class Pace:
    """Says when enough was done for one step."""

    __slots__ = ("_left_us",)

    def __init__(self) -> None:
        self._left_us: float = FIRST_US

    def is_due(self, us: float) -> bool:
        """Count ``us`` microseconds of work that were just done; whether it is time to yield."""
        self._left_us -= us
        if self._left_us > 0:
            return False
        self._left_us = STEP_US
        return True


def each(items: Iterable[T], make: Callable[[T], R], us: float) -> Steps[list[R]]:
    """What ``make`` makes of each item, at about ``us`` microseconds apiece."""
    pace = Pace()
    made = []
    for item in items:
        made.append(make(item))
        if pace.is_due(us):
            yield
    return made


def at_once(steps: Steps[R]) -> R:
    """Take all steps, one after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
