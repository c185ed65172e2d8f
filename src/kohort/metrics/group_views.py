"""Groups as a page shows them: the last looks at each, and what lag and health follow from them.

Looks are kept at least some seconds apart, and so many of them, so that rates and standstills show. Of groups that are
very large only the last is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from kohort.insight.health import HealthReport, RebalanceTimes, health_of
from kohort.insight.lag import GroupLag, lag_of
from kohort.insight.snapshot import GroupSnapshot

APART_MS: Final = 5_000
LOOKS_MOST: Final = 10
LARGE: Final = 5_000
"""Partitions of a group of which one look is kept."""
PLACES_MOST: Final = 500_000
"""Partitions of all looks together; above it no more than the last look at each group is kept."""


class GroupView(NamedTuple):
    """A group now, how far it is behind, and how it is."""

    now: GroupSnapshot
    lag: GroupLag
    health: HealthReport


def no_rebalances(_group: str) -> RebalanceTimes:
    """Know of no rebalances."""
    return RebalanceTimes()


class GroupViews:
    """The looks at all groups of a cluster."""

    def __init__(self, rebalances: Callable[[str], RebalanceTimes] = no_rebalances) -> None:
        """``rebalances`` tells when a group rebalanced lately."""
        self._rebalances = rebalances
        self._looks: dict[str, list[GroupSnapshot]] = {}

    def look(self, groups: Iterable[GroupSnapshot]) -> Iterator[GroupView]:
        """Take a look at all groups there are, and yield each as it is now. A group that is not among them is
        forgotten."""
        before, self._looks = self._looks, {}
        room = PLACES_MOST
        for now in groups:
            looks = before.get(now.group, [])
            lag = lag_of([*looks, now])
            room -= (len(looks) + 1) * len(now.partitions)
            self._looks[now.group] = _kept(looks, now) if room > 0 else [now]
            yield GroupView(now, lag, health_of(lag, self._rebalances(now.group)))


def _kept(looks: list[GroupSnapshot], now: GroupSnapshot) -> list[GroupSnapshot]:
    if len(now.partitions) > LARGE:
        return [now]
    if looks and now.at_ms - looks[-1].at_ms < APART_MS:
        return looks
    return [*looks, now][-LOOKS_MOST:]
