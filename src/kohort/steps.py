"""Long work in steps, which yields to other work in between.

A machine has no clock, so steps are not measured: the code states about how many microseconds each piece costs, and a
``Pace`` adds them up. ``Steps`` are a generator that yields wherever other work may run, and returns the result.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, TypeVar

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
T = TypeVar("T")

Steps = Generator[None, None, R]

STEP_US: Final = 5_000
"""About how long one step takes: short beside the 50 ms that one request may hold up others."""
FIRST_US: Final = 15_000
"""The first step may take longer: most requests need no second one."""

COUNT_US: Final = 0.8
FREE_US: Final = 0.3
FREED_AT_ONCE: Final = 4_000
SORTED_AT_ONCE: Final = 4_000


class Pace:
    """Says when enough was done for one step. What ``goes_on`` with a request that has had its first step has none of
    its own, which would be longer."""

    __slots__ = ("_left_us",)

    def __init__(self, *, goes_on: bool = False) -> None:
        self._left_us = _lengths[-1][1 if goes_on else 0]

    def is_due(self, us: float) -> bool:
        """Count ``us`` microseconds of work that were just done; whether it is time to yield."""
        self._left_us -= us
        if self._left_us > 0:
            return False
        self._left_us = _lengths[-1][1]
        return True


_lengths: list[tuple[float, float]] = [(FIRST_US, STEP_US)]


@contextmanager
def shortest_steps() -> Iterator[None]:
    """Within this block every piece of work is a step, to test interleavings."""
    _lengths.append((0, 0))
    try:
        yield
    finally:
        _lengths.pop()


def each(items: Iterable[T], make: Callable[[T], R], us: float) -> Steps[list[R]]:
    """Return what ``make`` makes of each item, at about ``us`` microseconds apiece."""
    pace = Pace()
    made = []
    for item in items:
        made.append(make(item))
        if pace.is_due(us):
            yield
    return made


def emptied(held: list[Any], pace: Pace) -> Steps[None]:
    while held:
        del held[-FREED_AT_ONCE:]
        if pace.is_due(FREE_US * FREED_AT_ONCE):
            yield


def in_order(names: Iterable[str]) -> Steps[Iterator[str]]:
    """Return the names in order, each once. What is left of the work is done as they are taken, at about 3 us
    apiece."""
    pace = Pace()
    runs: list[list[str]] = []
    rest = iter(names)
    while run := list(islice(rest, SORTED_AT_ONCE)):
        run.sort()
        runs.append(run)
        if pace.is_due(COUNT_US * SORTED_AT_ONCE):
            yield
    return _once(heapq.merge(*runs))


def _once(names: Iterator[str]) -> Iterator[str]:
    last = None
    for name in names:
        if name != last:
            yield name
        last = name


def at_once(steps: Steps[R]) -> R:
    """Take all steps, one after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
