"""Counts by a name that others choose: of topics and nodes there may be ever new ones in the life of a client."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
MOST_NAMES: Final = 10_000


class CountsByName(dict[K, V]):
    """Makes what is missing, up to so many; then the oldest goes with its counts."""

    __slots__ = ("_make", "_most")

    def __init__(self, make: Callable[[], V], most: int = MOST_NAMES) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, name: K) -> V:
        if len(self) >= self._most:
            del self[next(iter(self))]
        made = self[name] = self._make()
        return made
