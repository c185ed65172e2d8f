"""Samples of lag and health of groups, from the latest snapshots of each group.

Rates and stalls are computed from up to 10 snapshots of each group, which are at least 5 s apart. Of a very large
group, only the newest snapshot is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from kohort.insight.health import HealthReport, RebalanceTimes, health_of
from kohort.insight.lag import GroupLag, lag_of
from kohort.insight.snapshot import GroupSnapshot
from kohort.metrics.page import Page

SNAPSHOT_INTERVAL_MS: Final = 5_000
SNAPSHOTS_MOST: Final = 10
LARGE_GROUP: Final = 5_000
"""Number of partitions above which only the newest snapshot of a group is kept."""
KEPT_PARTITIONS_MOST: Final = 500_000
"""Maximum number of partitions in all kept snapshots. Above it, only the newest snapshot of each group is kept."""


class GroupView(NamedTuple):
    """Newest snapshot of a group, with lag and health of the group."""

    now: GroupSnapshot
    lag: GroupLag
    health: HealthReport


class GroupViews:
    def __init__(self, rebalances: Callable[[str], RebalanceTimes] = lambda _: RebalanceTimes()) -> None:
        self._rebalances = rebalances
        self._snapshots: dict[str, list[GroupSnapshot]] = {}

    def update(self, groups: Iterable[GroupSnapshot]) -> Iterator[GroupView]:
        """Add a snapshot of each group in ``groups`` and yield lag and health of the group; forget all other groups."""
        before, self._snapshots = self._snapshots, {}
        room = KEPT_PARTITIONS_MOST
        for now in groups:
            snapshots = before.get(now.group, [])
            lag = lag_of([*snapshots, now])
            room -= (len(snapshots) + 1) * len(now.partitions)
            self._snapshots[now.group] = _kept(snapshots, now) if room > 0 else [now]
            yield GroupView(now, lag, health_of(lag, self._rebalances(now.group)))


def _kept(snapshots: list[GroupSnapshot], now: GroupSnapshot) -> list[GroupSnapshot]:
    if len(now.partitions) > LARGE_GROUP:
        return [now]
    if snapshots and now.at_ms - snapshots[-1].at_ms < SNAPSHOT_INTERVAL_MS:
        return snapshots
    return [*snapshots, now][-SNAPSHOTS_MOST:]


STATES: Final = {
    "classic": ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
}


HEALTH: Final = {"OK": 1, "WARN": 2, "STOP": 4, "STALL": 5, "REWIND": 6, "REBALANCING": 7, "STORM": 8}
"""Metric value of each group health. The numbers are Burrow's; those of REBALANCING and STORM are kohort's."""


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
    stuck = sum(1 for verdict in view.health.members.values() if verdict.word == "stuck")
    page.add("kohort_group_stuck_members", stuck, name)
    committed = {one.partition for one in group.partitions if one.committed is not None}
    owned = {place for member in group.members for place in member.assignment}
    page.add("kohort_group_uncommitted_partitions", len(owned - committed), name)
    if group.members:
        read = {topic for member in group.members for topic in member.topics}
        partitions = sum(group.partition_counts.get(topic, 0) for topic in read)
        page.add("kohort_group_unowned_partitions", partitions - sum(1 for p in owned if p.topic in read), name)
    page.add("kohort_group_total_lag_records", total.records, name)
    records = [one.records for one in view.lag.partitions if one.records is not None and one.counts]
    page.add("kohort_group_max_lag_records", max(records, default=None), name)
    page.add("kohort_group_max_lag_seconds", _seconds(total.time_ms), name)
    page.add("kohort_group_lag_drain_eta_seconds", _seconds(total.eta_ms), name)
    page.add("kohort_group_lost_records", sum(one.lost for one in view.lag.partitions), name)


def add_group_partitions(page: Page, view: GroupView, most: int) -> None:
    partitions = view.lag.partitions
    for lag in partitions if len(partitions) <= most else sorted(partitions, key=lambda one: one.partition)[:most]:
        place = (view.now.group, lag.partition.topic, lag.partition.partition)
        page.add("kohort_group_lag_records", lag.records, *place)
        page.add("kohort_group_lag_seconds", _seconds(lag.time_ms), *place)
        page.add("kohort_group_lead_records", lag.lead, *place)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
