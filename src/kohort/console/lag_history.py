"""Lag of groups over time, one point for each sample. The total number of points is limited."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from kohort.insight.findings.groups import GroupFinding

MOST_POINTS: Final = 200_000
MOST_OF_GROUP: Final = 1_000
LEAST_OF_GROUP: Final = 20
MOST_GROUPS: Final = MOST_POINTS // LEAST_OF_GROUP
MOST_TOPICS: Final = 10
TREND_MS: Final = 900_000
TREND_POINTS: Final = 60


class LagPoint(msgspec.Struct, frozen=True, gc=False):
    """Lag of a group at one time: in records, in ms, and in records for each topic with a large lag."""

    at_ms: int
    lag: int | None
    lag_ms: int | None
    topics: dict[str, int | None]


class LagHistory:
    def __init__(self) -> None:
        self._points: dict[str, deque[LagPoint]] = {}

    def add(self, found: Iterable[GroupFinding]) -> None:
        """Add a point with the present lag of each group. Remove all points of deleted groups."""
        groups = list(found)[:MOST_GROUPS]
        most = max(LEAST_OF_GROUP, min(MOST_OF_GROUP, MOST_POINTS // max(1, len(groups))))
        kept, self._points = self._points, {}
        for group in groups:
            points = kept.get(group.group)
            if points is None or points.maxlen != most:
                points = deque(points or (), most)
            points.append(point_of(group))
            self._points[group.group] = points

    def of(self, group: str) -> list[LagPoint]:
        return list(self._points.get(group, ()))


def point_of(found: GroupFinding) -> LagPoint:
    topics: dict[str, int | None] = {}
    for one in found.partitions:
        before = topics.get(one.topic)
        topics[one.topic] = before if one.lag is None else one.lag + (before or 0)
    most = sorted(topics, key=lambda topic: (-(topics[topic] or 0), topic))[:MOST_TOPICS]
    return LagPoint(found.at_ms, found.lag, found.lag_ms, {topic: topics[topic] for topic in sorted(most)})


def thinned(points: Sequence[LagPoint], most: int) -> list[LagPoint]:
    """Thin out lag points to at most ``most`` evenly spaced ones. The last point is always included."""
    if len(points) <= most:
        return list(points)
    step = (len(points) - 1) / (most - 1)
    return [points[round(i * step)] for i in range(most)]
