"""Rebalances that are over, counted by group and cause from the entries of a journal as they come.

Causes are what ``kohort.insight`` finds. Of each group the entries of the last rebalances are kept, so that what comes
next is understood; a rebalance is counted once, when it is over. A group that is gone takes its counts with it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Final

from kohort.coordinator.journal import EpochRaised, GroupDeleted, JournalEntry, MemberRemoved, RequestFenced
from kohort.insight.findings.model import RebalanceFinding
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.health import RebalanceTimes
from kohort.metrics.page import Page, bounded

BOUNDS_S: Final = (0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0)
UNDER_WAY: Final = frozenset({"open", "assigning", "reconciling"})
NO_REBALANCE: Final = "no_rebalance"
FINDINGS_KEPT: Final = 3
ENTRIES_MOST: Final = 5_000
"""Entries that are kept of one group: one that rebalances without end is told of by its last ones."""
TIMES_KEPT: Final = 20
GROUPS_MOST: Final = 10_000
LEFT: Final = frozenset({"left", "pending_left"})
PUT_OUT: Final = frozenset({"session_expired", "revocation_timeout", "rejoin_timeout", "resync_timeout"})


class GroupCounts:
    """What is counted of one group."""

    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []
        self.counted: dict[str, None] = {}
        """The rebalances that were counted lately."""
        self.opened_at_ms: deque[int] = deque(maxlen=TIMES_KEPT)
        self.rebalances: Counter[tuple[str, str]] = Counter()
        self.phases: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS_S) + 1))
        self.phase_ms: Counter[str] = Counter()
        self.moved = 0
        self.unowned_ms = 0
        self.evictions: Counter[str] = Counter()
        self.fenced: Counter[tuple[str, str]] = Counter()

    def add(self, entry: JournalEntry) -> None:
        """Take an entry; what it says for itself is counted at once."""
        self.entries.append(entry)
        if isinstance(entry, RequestFenced):
            self.fenced[entry.api, entry.error] += 1
        elif isinstance(entry, MemberRemoved) and entry.why not in LEFT:
            self.evictions[entry.why] += 1
        elif isinstance(entry, EpochRaised) and entry.cause.event in PUT_OUT:
            self.evictions[entry.cause.event] += 1

    def settle(self) -> None:
        """Count the rebalances that are over by now, and forget entries that say nothing any more."""
        del self.entries[:-ENTRIES_MOST]
        found = find_rebalances(self.entries)
        for one in found:
            if one.end not in UNDER_WAY and one.id not in self.counted:
                self.counted[one.id] = None
                self._count(one)
        if len(found) > FINDINGS_KEPT:
            since = found[-FINDINGS_KEPT].opened_at_ms
            self.entries = [entry for entry in self.entries if entry.at_ms >= since]
        while len(self.counted) > ENTRIES_MOST:
            del self.counted[next(iter(self.counted))]

    def _count(self, one: RebalanceFinding) -> None:
        if one.end != NO_REBALANCE:
            if one.parent is None:
                self.opened_at_ms.append(one.opened_at_ms)
            self.rebalances[one.cause, "first" if one.parent is None else "followup"] += 1
            times = dict(one.phases_ms) if one.took_ms is None else {**one.phases_ms, "total": one.took_ms}
            for phase, ms in times.items():
                self.phases[phase][bisect_left(BOUNDS_S, ms / 1000)] += 1
                self.phase_ms[phase] += ms
        self.moved += len(one.moves)
        self.unowned_ms += one.unowned_partition_ms or 0


class RebalanceCounts:
    """All groups of which a journal has told since this began."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupCounts] = {}
        self._changed: dict[str, None] = {}

    def add(self, entries: Iterable[JournalEntry]) -> None:
        """Take entries, in the order of the journal; they count with the next ``settle``."""
        for entry in entries:
            if isinstance(entry, GroupDeleted):
                self._groups.pop(entry.group, None)
                self._changed.pop(entry.group, None)
                continue
            group = self._groups.get(entry.group)
            if group is None:
                if len(self._groups) >= GROUPS_MOST:
                    self._forget(next(iter(self._groups)))
                group = self._groups[entry.group] = GroupCounts()
            group.add(entry)
            self._changed[entry.group] = None

    def settle(self) -> Iterator[None]:
        """Count what is over by now, group by group: others may work in between."""
        changed, self._changed = self._changed, {}
        for name in changed:
            self._groups[name].settle()
            yield

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
            page.add("kohort_group_partitions_moved_total", counts.moved, name)
            page.add("kohort_group_partition_unowned_seconds_total", counts.unowned_ms / 1000, name)
            for cause, times in sorted(counts.evictions.items()):
                page.add("kohort_group_member_evictions_total", times, name, cause)
            for (api, error), times in sorted(counts.fenced.items()):
                page.add("kohort_group_fenced_requests_total", times, name, api, error)

    def add_durations(self, page: Page) -> None:
        """Add how long rebalances took: many rows, which is why they come later."""
        for name, counts in sorted(self._groups.items()):
            for phase, by_size in counts.phases.items():
                sums, total = bounded(by_size, BOUNDS_S), counts.phase_ms[phase] / 1000
                page.add_histogram("kohort_group_rebalance_duration_seconds", sums, total, name, phase)
