"""Rebalance counters for each group and cause, from journal entries. Each finished rebalance is counted one time.

A rebalance is counted 5 s after its end, because later journal entries can show its cause: for example, the connection
of a departed member closes. First fetches of new owners are added a minute after the rebalance. Counters do not depend
on the times of scrapes. Causes are those of ``kohort.insight``. The counters of a deleted group are deleted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kohort.coordinator.journal import EpochRaised, GroupDeleted, JournalEntry, MemberRemoved, RequestFenced
from kohort.coordinator.journal_events import held_bytes
from kohort.insight.findings.model import RebalanceFinding
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.health import RebalanceTimes
from kohort.insight.rebalances import RECENT_MS
from kohort.metrics.page import Exemplar, Page, bounded

BOUNDS_S: Final = (0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0)
NO_REBALANCE: Final = "no_rebalance"
GRACE_MS = 5_000
"""Delay from the end of a rebalance until it is counted, in ms. Journal entries in this time may show its cause."""
RESUME_MS = 60_000
"""Delay from the end of a rebalance until the first fetches of new owners are counted, in ms."""
SETTLE_MOST_MS: Final = 600_000
"""Time in ms after which a rebalance counts as finished even if a member has not sent SyncGroup."""
FINDINGS_KEPT: Final = 3
ENTRIES_MOST: Final = 5_000
"""Maximum number of journal entries of one group in memory. The oldest entries are dropped first."""
ENTRIES_MOST_BYTES: Final = 8 << 20
ANALYSED_AGAIN_MOST: Final = 100_000
"""One scrape analyses at most this many entries of a group again, to find a cause without later entries."""
TIMES_KEPT: Final = 20
LEFT: Final = frozenset({"left", "pending_left"})
EXPIRED: Final = frozenset({"session_expired", "revocation_timeout", "rejoin_timeout", "resync_timeout"})
RESUME: Final = "resume"
END_OF_TIME: Final = 1 << 62
"""Time in the far future. ``settle`` with this time counts every finished rebalance."""


@dataclass(slots=True)
class Counted:
    """Moved partitions and unowned time of one rebalance, as far as the counters already include them."""

    moved: int
    unowned_ms: int
    is_whole: bool = False


class GroupCounts:
    """Counters of one group, and the journal entries of its rebalances that are not fully counted."""

    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []
        self._sizes: list[int] = []
        self.held_bytes = 0
        self.due_ms = END_OF_TIME
        """Time in ms at which a rebalance must be counted, even if no further journal entry arrives."""
        self._reads_left = 0
        self._counted: dict[tuple[str, int], Counted] = {}
        self.opened_at_ms: deque[int] = deque(maxlen=TIMES_KEPT)
        self.rebalances: Counter[tuple[str, str]] = Counter()
        self.last: dict[tuple[str, str], Exemplar] = {}
        """Exemplar of the last counted rebalance, for each pair of cause and kind (``first`` or ``followup``)."""
        self.phases: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS_S) + 1))
        self.phase_ms: Counter[str] = Counter()
        self.last_of_size: dict[tuple[str, int], Exemplar] = {}
        """Exemplar of the last counted rebalance, for each pair of phase and index of a histogram bucket."""
        self.moved = 0
        self.unowned_ms = 0
        self.evictions: Counter[str] = Counter()
        self.fenced: Counter[tuple[str, str]] = Counter()

    def add(self, entry: JournalEntry) -> None:
        """Add a journal entry. An expired member or a rejected request is counted at once.

        If the group has too many journal entries, count all finished rebalances. If it still has too many, drop the
        older half of the entries.
        """
        size = held_bytes(entry)
        self.entries.append(entry)
        self._sizes.append(size)
        self.held_bytes += size
        if isinstance(entry, RequestFenced):
            self.fenced[entry.api, entry.error] += 1
        elif isinstance(entry, MemberRemoved) and entry.why not in LEFT:
            self.evictions[entry.why] += 1
        elif isinstance(entry, EpochRaised) and entry.cause.event in EXPIRED:
            self.evictions[entry.cause.event] += 1
        if len(self.entries) > ENTRIES_MOST or self.held_bytes > ENTRIES_MOST_BYTES:
            self.settle(END_OF_TIME, look_back=False)
            if len(self.entries) > ENTRIES_MOST // 2 or self.held_bytes > ENTRIES_MOST_BYTES // 2:
                self.forget(len(self.entries) - len(self.entries) // 2)

    def settle(self, now_ms: int, *, look_back: bool = True) -> None:
        """Count the rebalances that finished by ``now_ms``, and drop the journal entries that are no longer needed."""
        self.due_ms = END_OF_TIME
        found = [one for one in find_rebalances(self.entries) if one.end != NO_REBALANCE]
        self._reads_left = ANALYSED_AGAIN_MOST if look_back else 0
        for place, one in enumerate(found):
            after = found[place + 1] if place + 1 < len(found) else None
            over_ms = _over_ms(one, after, now_ms)
            if over_ms is not None:
                self._take(found, place, over_ms, now_ms)
            elif not one.is_in_flight:
                self.due_ms = min(self.due_ms, one.opened_at_ms + SETTLE_MOST_MS)
        self._prune(found)

    def _take(self, found: Sequence[RebalanceFinding], place: int, over_ms: int, now_ms: int) -> None:
        key = found[place].key
        counted = self._counted.get(key)
        if counted is None:
            if over_ms + GRACE_MS > now_ms:
                self.due_ms = min(self.due_ms, over_ms + GRACE_MS)
                return
            counted = self._counted[key] = self._count(self._as_of(found, place, over_ms + GRACE_MS))
        if not counted.is_whole:
            if over_ms + RESUME_MS > now_ms:
                self.due_ms = min(self.due_ms, over_ms + RESUME_MS)
                return
            self._complete(self._as_of(found, place, over_ms + RESUME_MS), counted)

    def _as_of(self, found: Sequence[RebalanceFinding], place: int, at_ms: int) -> RebalanceFinding:
        since_ms = _since_ms(found, place, found[place].opened_at_ms)
        if self.entries[0].at_ms >= since_ms and self.entries[-1].at_ms <= at_ms:
            return found[place]
        told = [entry for entry in self.entries if since_ms <= entry.at_ms <= at_ms]
        self._reads_left -= len(told)
        if self._reads_left < 0:
            return found[place]
        return next((one for one in find_rebalances(told) if one.key == found[place].key), found[place])

    def _count(self, one: RebalanceFinding) -> Counted:
        if one.parent is None:
            self.opened_at_ms.append(one.opened_at_ms)
        which = one.cause, "first" if one.parent is None else "followup"
        self.rebalances[which] += 1
        self.last[which] = Exemplar(one.id, one.opened_at_ms)
        for phase, ms in one.phases_ms.items():
            if phase != RESUME:
                self._count_phase(one, phase, ms)
        if one.took_ms is not None:
            self._count_phase(one, "total", one.took_ms)
        self.moved += len(one.moves)
        self.unowned_ms += one.unowned_partition_ms or 0
        return Counted(len(one.moves), one.unowned_partition_ms or 0)

    def _complete(self, one: RebalanceFinding, counted: Counted) -> None:
        counted.is_whole = True
        if RESUME in one.phases_ms:
            self._count_phase(one, RESUME, one.phases_ms[RESUME])
        self.moved += max(0, len(one.moves) - counted.moved)
        self.unowned_ms += max(0, (one.unowned_partition_ms or 0) - counted.unowned_ms)

    def _count_phase(self, one: RebalanceFinding, phase: str, ms: int) -> None:
        place = bisect_left(BOUNDS_S, ms / 1000)
        self.phases[phase][place] += 1
        self.phase_ms[phase] += ms
        self.last_of_size[phase, place] = Exemplar(one.id, one.opened_at_ms, ms / 1000)

    def _prune(self, found: Sequence[RebalanceFinding]) -> None:
        """Drop the journal entries that are not needed to explain rebalances that are not fully counted."""
        if not self.entries:
            return
        place = next((n for n, one in enumerate(found) if not self._is_whole(one)), len(found))
        next_ms = self.entries[-1].at_ms if place == len(found) else found[place].opened_at_ms
        since_ms = _since_ms(found, place, next_ms)
        self.forget(next(n for n, entry in enumerate(self.entries) if entry.at_ms >= since_ms))
        for key in [key for key in self._counted if key[1] < since_ms]:
            del self._counted[key]

    def _is_whole(self, one: RebalanceFinding) -> bool:
        counted = self._counted.get(one.key)
        return counted is not None and counted.is_whole

    def forget(self, many: int) -> None:
        """Drop the oldest ``many`` journal entries."""
        self.held_bytes -= sum(self._sizes[:many])
        del self.entries[:many], self._sizes[:many]


def _since_ms(found: Sequence[RebalanceFinding], place: int, opened_at_ms: int) -> int:
    before = [one.opened_at_ms for one in found[max(0, place - FINDINGS_KEPT) : place]]
    return min([opened_at_ms - RECENT_MS, *before])


def _over_ms(one: RebalanceFinding, after: RebalanceFinding | None, now_ms: int) -> int | None:
    """Return the time at which a rebalance ended; None if it has not ended by ``now_ms``.

    A rebalance of a classic group ends with the last SyncGroup, or with the start of the next rebalance.
    """
    if one.is_in_flight:
        return None
    known_ms = one.opened_at_ms + (one.took_ms or 0)
    waits = one.protocol == "classic" and one.end == "stable" and "sync" not in one.phases_ms
    if waits and one.origin == "journal":
        late_ms = known_ms + SETTLE_MOST_MS
        over_ms = late_ms if after is None else min(late_ms, after.opened_at_ms)
        return over_ms if over_ms <= now_ms else None
    if one.end == "superseded" and after is not None:
        return max(known_ms, after.opened_at_ms)
    return known_ms


DURATION: Final = "kohort_group_rebalance_duration_seconds"
BOUNDS_TO_INFINITY: Final = (*BOUNDS_S, float("inf"))
GROUPS_MOST: Final = 10_000
HELD_MOST_BYTES: Final = 64 << 20
"""Maximum memory of the journal entries of all groups, in bytes. Above it, quiet groups lose their entries first."""


class RebalanceCounts:
    """Rebalance counters of all groups that had journal entries since the start of the process."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupCounts] = {}
        self._changed: dict[str, None] = {}

    def add(self, entries: Iterable[JournalEntry]) -> None:
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
        """Count the rebalances that finished by ``now_ms``; yield after each group.

        The caller must have added all journal entries up to ``now_ms``.
        """
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
            group.forget(len(group.entries))

    def times(self, group: str) -> RebalanceTimes:
        """Return the start times of a group's recent rebalances, except follow-ups of cooperative assignors."""
        known = self._groups.get(group)
        return RebalanceTimes() if known is None else RebalanceTimes(opened_at_ms=tuple(known.opened_at_ms))

    def _forget(self, name: str) -> None:
        del self._groups[name]
        self._changed.pop(name, None)

    def add_to(self, page: Page) -> Iterator[None]:
        for name, counts in sorted(self._groups.items()):
            for (cause, which), times in sorted(counts.rebalances.items()):
                page.add("kohort_group_rebalances_total", times, name, cause, which)
                page.add_exemplar("kohort_group_rebalances_total", counts.last[cause, which], name, cause, which)
            page.add("kohort_group_partitions_moved_total", counts.moved, name)
            page.add("kohort_group_partition_unowned_seconds_total", counts.unowned_ms / 1000, name)
            for cause, times in sorted(counts.evictions.items()):
                page.add("kohort_group_member_evictions_total", times, name, cause)
            for (api, error), times in sorted(counts.fenced.items()):
                page.add("kohort_group_fenced_members_total", times, name, api, error)
            yield

    def add_durations(self, page: Page) -> Iterator[None]:
        for name, counts in sorted(self._groups.items()):
            for phase, by_size in counts.phases.items():
                sums, total = bounded(by_size, BOUNDS_S), counts.phase_ms[phase] / 1000
                page.add_histogram(DURATION, sums, total, name, phase)
            for (phase, place), last in counts.last_of_size.items():
                page.add_exemplar(DURATION, last, name, phase, bound=BOUNDS_TO_INFINITY[place])
            yield
