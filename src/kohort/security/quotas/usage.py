"""What everybody with a quota has used lately, in bounded memory.

Kafka forgets who was silent for an hour. Here whoever is as good as new is forgotten, which nobody can tell; and when
names take more memory than there is for them, whoever was silent for the longest (docs/limits.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from kohort.security.quotas.rates import QuotaWindow

MOST_BYTES: Final = 16 << 20
METER_BYTES: Final = 2_000
"""About what one takes, besides the names."""
LOOKED_AT: Final = 2
"""How many of those that were silent for the longest are looked at whenever a new one comes."""

Names = tuple[str, str]
"""Who is measured together: a user and a client id, either may stand for all."""


class Meter(Protocol):
    """What is measured of one of them."""

    def is_forgotten(self, now_ms: int, window: QuotaWindow) -> bool: ...


M = TypeVar("M", bound=Meter)


class Usage(Generic[M]):
    """The meters for one quota, by name; whoever was silent for the longest comes first."""

    def __init__(self, make: Callable[[], M], window: QuotaWindow, most_bytes: int = MOST_BYTES) -> None:
        self._make = make
        self.window = window
        self._most_bytes = most_bytes
        self._meters: dict[Names, M] = {}
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._meters)

    def of(self, names: Names, now_ms: int) -> M:
        """Return the meter of these names, which are about to use something."""
        meter = self._meters.pop(names, None)
        if meter is None:
            self._make_room(now_ms)
            meter = self._make()
            self.held_bytes += _weight(names)
        self._meters[names] = meter
        return meter

    def _make_room(self, now_ms: int) -> None:
        for _ in range(LOOKED_AT):
            if self._meters and self._first().is_forgotten(now_ms, self.window):
                self._drop_first()
        while self._meters and self.held_bytes > self._most_bytes:
            self._drop_first()

    def _first(self) -> M:
        return next(iter(self._meters.values()))

    def _drop_first(self) -> None:
        names = next(iter(self._meters))
        del self._meters[names]
        self.held_bytes -= _weight(names)


def _weight(names: Names) -> int:
    return METER_BYTES + 4 * sum(map(len, names))
