"""Groups as a page shows them: the last looks at each, and the rows of lag and health that follow from them.

Looks are kept at least some seconds apart, and so many of them, so that rates and standstills show. Of groups that are
very large only the last is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from kohort.insight.health import HealthReport, RebalanceTimes, health_of
from kohort.insight.lag import GroupLag, LagOfPartition, lag_of
from kohort.insight.snapshot import GroupSnapshot
from kohort.metrics.page import Page

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


STATES: Final = {
    "classic": ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
}


HEALTH: Final = {"OK": 1, "WARN": 2, "STOP": 4, "STALL": 5, "REWIND": 6, "REBALANCING": 7, "STORM": 8}
"""Burrow's numbers, and two words that it has not."""
STUCK: Final = "stuck"


def add_group(page: Page, view: GroupView) -> None:
    group, total = view.now, view.lag.total
    name = group.group
    about = (group.protocol, group.protocol_type, group.assignor or "", group.coordinator_id)
    page.add("kohort_group_info", 1, name, *("" if one is None else one for one in about))
    for state in STATES[group.protocol]:
        page.add("kohort_group_state", int(state == group.state), name, state)
    page.add("kohort_group_health", None if view.health.group.word is None else HEALTH[view.health.group.word], name)
    page.add("kohort_group_generation", group.epoch, name)
    page.add("kohort_group_members", len(group.members), name)
    page.add("kohort_group_idle_members", sum(1 for member in group.members if not member.assignment), name)
    stuck = sum(1 for verdict in view.health.members.values() if verdict.word == STUCK)
    page.add("kohort_group_stuck_members", stuck, name)
    committed = {one.partition for one in group.partitions if one.committed is not None}
    owned = {place for member in group.members for place in member.assignment}
    page.add("kohort_group_uncommitted_partitions", len(owned - committed), name)
    if group.members:
        read = {topic for member in group.members for topic in member.topics}
        partitions = sum(group.partition_counts.get(topic, 0) for topic in read)
        page.add("kohort_group_unowned_partitions", partitions - sum(1 for p in owned if p.topic in read), name)
    page.add("kohort_group_total_lag_records", total.records, name)
    page.add("kohort_group_max_lag_records", max(_records(view), default=None), name)
    page.add("kohort_group_max_lag_seconds", _seconds(total.time_ms), name)
    page.add("kohort_group_lag_drain_eta_seconds", _seconds(total.eta_ms), name)
    page.add("kohort_group_lost_records", sum(one.lost for one in view.lag.partitions), name)


def add_group_partitions(page: Page, view: GroupView, most: int) -> None:
    for this in first_lags(view, most):
        place = (view.now.group, this.partition.topic, this.partition.partition)
        page.add("kohort_group_lag_records", this.records, *place)
        page.add("kohort_group_lag_seconds", _seconds(this.time_ms), *place)
        page.add("kohort_group_lead_records", this.lead, *place)


def first_lags(view: GroupView, most: int) -> Iterable[LagOfPartition]:
    """Return the partitions of a group that have series of their own: the first ``most`` by name."""
    if len(view.lag.partitions) <= most:
        return view.lag.partitions
    return sorted(view.lag.partitions, key=lambda one: one.partition)[:most]


def _records(view: GroupView) -> list[int]:
    return [one.records for one in view.lag.partitions if one.records is not None and one.counts]


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
