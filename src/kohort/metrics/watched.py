"""What a page says of another cluster that is watched beside the broker, and of who watches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kohort.metrics.page import Page


@dataclass(frozen=True, slots=True)
class WatchedCluster:
    """A watcher at one moment. Counts are since it began."""

    address: str
    is_up: bool = False
    """Whether it reads, and has read all that was there when it began."""
    until_ms: int | None = None
    """Until when it watched; None before it did."""
    groups: int = 0
    partitions: int = 0
    records: int = 0
    left_out: int = 0
    unread: int = 0
    failures: int = 0
    rebalances: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By group and cause."""


def add_watched(page: Page, watched: WatchedCluster) -> None:
    """Add the rows of a watcher."""
    where = watched.address
    page.add("kohort_watch_up", int(watched.is_up), where)
    page.add(
        "kohort_watch_until_timestamp_seconds", None if watched.until_ms is None else watched.until_ms / 1000, where
    )
    page.add("kohort_watch_groups", watched.groups, where)
    page.add("kohort_watch_partitions", watched.partitions, where)
    page.add("kohort_watch_records_total", watched.records, where)
    page.add("kohort_watch_left_out_records_total", watched.left_out, where)
    page.add("kohort_watch_unread_records_total", watched.unread, where)
    page.add("kohort_watch_failures_total", watched.failures, where)
    for (group, cause), count in sorted(watched.rebalances.items()):
        page.add("kohort_watch_rebalances_total", count, where, group, cause)
