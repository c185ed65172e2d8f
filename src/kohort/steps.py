"""Long requests in steps, with other requests in between.

State machines have no clock, so steps are not measured: code estimates the microseconds of each piece of work, and a
``Pace`` adds them up. ``Steps`` are a generator that yields where other requests may run, and returns the result.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby, islice
from typing import Any, Final, TypeVar

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
T = TypeVar("T")

Steps = Generator[None, None, R]

STEP_US: Final = 5_000
"""Length of a step in microseconds: a request may delay other requests by at most 50 ms."""
FIRST_US: Final = 15_000
"""Length of a request's first step in microseconds; it is longer because most requests need only one step."""

COUNT_US: Final = 0.8
FREE_US: Final = 0.3
FREED_AT_ONCE: Final = 4_000
SORTED_AT_ONCE: Final = 4_000


class Pace:
    """Duration of a step of a long request. ``goes_on``: the request has had its longer first step already."""

    __slots__ = ("_left_us",)

    def __init__(self, *, goes_on: bool = False) -> None:
        self._left_us = _lengths[-1][1 if goes_on else 0]

    def is_due(self, us: float) -> bool:
        """Add ``us`` microseconds of finished work; return True if the step should yield to other requests."""
        self._left_us -= us
        if self._left_us > 0:
            return False
        self._left_us = _lengths[-1][1]
        return True


_lengths: list[tuple[float, float]] = [(FIRST_US, STEP_US)]


@contextmanager
def shortest_steps() -> Iterator[None]:
    """Yield after every piece of work while the block runs, to test interleaved requests."""
    _lengths.append((0, 0))
    try:
        yield
    finally:
        _lengths.pop()


def each(items: Iterable[T], make: Callable[[T], R], us: float) -> Steps[list[R]]:
    """Apply ``make`` to each item, at about ``us`` microseconds each."""
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
    """Return the names in order without duplicates. Reading the iterator takes about 3 us per name."""
    pace = Pace()
    runs: list[list[str]] = []
    rest = iter(names)
    while run := list(islice(rest, SORTED_AT_ONCE)):
        run.sort()
        runs.append(run)
        if pace.is_due(COUNT_US * SORTED_AT_ONCE):
            yield
    return (name for name, _ in groupby(heapq.merge(*runs)))


def at_once(steps: Steps[R]) -> R:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
