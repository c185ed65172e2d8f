"""Our own metrics of groups, from snapshots of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kohort.insight.snapshot import GroupSnapshot, PartitionSnapshot
from kohort.metrics.page import Page

STATES: Final = {
    "classic": ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
}


class Lag(NamedTuple):
    """How far behind a partition is; unknown is None."""

    records: int | None
    seconds: float | None


def lag_of(this: PartitionSnapshot, at_ms: int) -> Lag:
    """Return how far behind a partition is. An offset beyond the end of the log is not behind."""
    if this.committed is None or this.log_end is None:
        return Lag(None, None)
    records = max(0, this.log_end - this.committed)
    if not records:
        return Lag(0, 0.0)
    since = this.committed_record_at_ms
    return Lag(records, None if since is None or since < 0 else max(0, at_ms - since) / 1000)


def add_group(page: Page, group: GroupSnapshot) -> None:
    """Add what is of a group as a whole."""
    name = group.group
    about = (group.protocol, group.protocol_type, group.assignor or "", group.coordinator_id)
    page.add("kohort_group_info", 1, name, *("" if one is None else one for one in about))
    for state in STATES[group.protocol]:
        page.add("kohort_group_state", int(state == group.state), name, state)
    page.add("kohort_group_generation", group.epoch, name)
    page.add("kohort_group_members", len(group.members), name)
    page.add("kohort_group_idle_members", sum(1 for member in group.members if not member.assignment), name)
    committed = {one.partition for one in group.partitions if one.committed is not None}
    owned = {place for member in group.members for place in member.assignment}
    page.add("kohort_group_uncommitted_partitions", len(owned - committed), name)
    if group.members:
        read = {topic for member in group.members for topic in member.topics}
        total = sum(group.partition_counts.get(topic, 0) for topic in read)
        page.add("kohort_group_unowned_partitions", total - sum(1 for place in owned if place.topic in read), name)
    lags = [lag_of(one, group.at_ms) for one in group.partitions]
    records = [lag.records for lag in lags if lag.records is not None]
    if records:
        page.add("kohort_group_total_lag_records", sum(records), name)
        page.add("kohort_group_max_lag_records", max(records), name)
    seconds = [lag.seconds for lag in lags if lag.seconds is not None]
    page.add("kohort_group_max_lag_seconds", max(seconds, default=None), name)


def add_group_partitions(page: Page, group: GroupSnapshot, most: int) -> None:
    """Add what is of each partition that a group reads, of ``most`` of them."""
    for this in first_partitions(group, most):
        place = (group.group, this.partition.topic, this.partition.partition)
        lag = lag_of(this, group.at_ms)
        page.add("kohort_group_lag_records", lag.records, *place)
        page.add("kohort_group_lag_seconds", lag.seconds, *place)
        if this.committed is not None and this.log_start is not None:
            page.add("kohort_group_lead_records", max(0, this.committed - this.log_start), *place)


def first_partitions(group: GroupSnapshot, most: int) -> Iterator[PartitionSnapshot]:
    """Yield the partitions of a group that have series of their own: the first ``most`` by name."""
    if len(group.partitions) <= most:
        yield from group.partitions
    else:
        yield from sorted(group.partitions, key=lambda one: one.partition)[:most]
