"""Rebalances that are over, counted by group and cause from the entries of a journal as they come.

Causes are what ``kohort.insight`` finds. What is counted, and when, is in ``group_counts``. A group that is gone takes
its counts with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kohort.coordinator.journal import GroupDeleted, JournalEntry
from kohort.insight.health import RebalanceTimes
from kohort.metrics.group_counts import BOUNDS_S, GroupCounts
from kohort.metrics.page import Page, bounded

DURATION: Final = "kohort_group_rebalance_duration_seconds"
BOUNDS_TO_INFINITY: Final = (*BOUNDS_S, float("inf"))
GROUPS_MOST: Final = 10_000
HELD_MOST_BYTES: Final = 64 << 20
"""What the entries of all groups may hold; above it those of groups that nothing happens to are forgotten first."""


class RebalanceCounts:
    """All groups of which a journal has told since this began."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupCounts] = {}
        """Those to which something happened last are last."""
        self._changed: dict[str, None] = {}

    def add(self, entries: Iterable[JournalEntry]) -> None:
        """Take entries, in the order of the journal; they count with the next ``settle``."""
        for entry in entries:
            if isinstance(entry, GroupDeleted):
                self._groups.pop(entry.group, None)
                self._changed.pop(entry.group, None)
                continue
            group = self._groups.pop(entry.group, None)
            if group is None:
                if len(self._groups) >= GROUPS_MOST:
                    self._forget(next(iter(self._groups)))
                group = GroupCounts()
            self._groups[entry.group] = group
            group.add(entry)
            self._changed[entry.group] = None

    def settle(self, now_ms: int) -> Iterator[None]:
        """Count what is over by ``now_ms``, group by group: others may work in between. Entries that are younger have
        all to be here, or those that come do not count for what was over before."""
        changed, self._changed = self._changed, {}
        held = 0
        for name, group in list(self._groups.items()):
            if name in changed or group.due_ms <= now_ms:
                group.settle(now_ms)
                yield
            held += group.held_bytes
        for group in self._groups.values():
            if held <= HELD_MOST_BYTES:
                return
            held -= group.held_bytes
            group.let_go()

    def times(self, group: str) -> RebalanceTimes:
        """Return when a group rebalanced lately, second rounds left out."""
        known = self._groups.get(group)
        return RebalanceTimes() if known is None else RebalanceTimes(opened_at_ms=tuple(known.opened_at_ms))

    def _forget(self, name: str) -> None:
        del self._groups[name]
        self._changed.pop(name, None)

    def add_to(self, page: Page) -> None:
        """Add what was counted, in the order of the groups' names."""
        for name, counts in sorted(self._groups.items()):
            for (cause, which), times in sorted(counts.rebalances.items()):
                page.add("kohort_group_rebalances_total", times, name, cause, which)
                page.exemplify("kohort_group_rebalances_total", counts.last[cause, which], name, cause, which)
            page.add("kohort_group_partitions_moved_total", counts.moved, name)
            page.add("kohort_group_partition_unowned_seconds_total", counts.unowned_ms / 1000, name)
            for cause, times in sorted(counts.evictions.items()):
                page.add("kohort_group_member_evictions_total", times, name, cause)
            for (api, error), times in sorted(counts.fenced.items()):
                page.add("kohort_group_fenced_members_total", times, name, api, error)

    def add_durations(self, page: Page) -> None:
        """Add how long rebalances took: many rows, which is why they come later."""
        for name, counts in sorted(self._groups.items()):
            for phase, by_size in counts.phases.items():
                sums, total = bounded(by_size, BOUNDS_S), counts.phase_ms[phase] / 1000
                page.add_histogram(DURATION, sums, total, name, phase)
            for (phase, place), last in counts.last_of_size.items():
                page.exemplify(DURATION, last, name, phase, bound=BOUNDS_TO_INFINITY[place])
