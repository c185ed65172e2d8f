"""Rebalances of classic groups from journal entries: trigger, phases, joins, removals and moves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Final, Literal

from kohort.coordinator import journal
from kohort.coordinator.journal_events import MemberDisconnected, PartitionsResumed

End = Literal["open", "assigning", "stable", "empty", "superseded", "dropped", "interrupted"]
RECENT_MS = 600_000
FAILOVER_MS: Final = 60_000
"""Longest time from the loss of a coordinator to the rebalances that the loss causes, in ms.

Clients pause between connection attempts, librdkafka for up to ten seconds.
"""
_EXPIRIES: Final = ("session_expired", "join_timeout", "sync_timeout")


@dataclass(slots=True)
class Rebalance:
    """Rebalance of a classic group, from its trigger until the last member has its assignment.

    ``end``: ``open`` and ``assigning`` (in progress), ``superseded`` (another rebalance began before the assignment),
    ``dropped`` (the coordinator could not persist the group), ``interrupted`` (the coordinator was lost).
    """

    group: str
    from_generation: int
    trigger: journal.Trigger
    opened_at_ms: int
    initial: bool
    timeout_ms: int
    members_before: tuple[journal.ClientIdentity, ...]
    generation: int | None = None
    members_after: tuple[journal.ClientIdentity, ...] = ()
    leader: str | None = None
    protocol: str | None = None
    closed_at_ms: int | None = None
    assigned_at_ms: int | None = None
    settled_at_ms: int | None = None
    end: End = "open"
    arrivals: list[journal.MemberArrived] = field(default_factory=list)
    removed: list[journal.MemberRemoved] = field(default_factory=list)
    moves: tuple[journal.Move, ...] = ()
    last_to_sync: journal.ClientIdentity | None = None
    error: str | None = None
    parent: int | None = None
    """Generation of the previous rebalance, if members revoked partitions in it that this rebalance assigns."""
    returned: journal.MemberRemoved | journal.RequestFenced | None = None
    """Earlier removal of the joining client from the group, or the last rejected request of this client."""
    returned_from: Rebalance | None = None
    left_in: Rebalance | None = None
    back: dict[str, tuple[journal.ClientIdentity, int]] = field(default_factory=dict)
    """Expired or departed clients that rejoined. Key: old member id; value: new member, and time of its join."""
    after_new_partitions: bool = False
    """True if new partitions caused the previous rebalance; other members may notice these partitions only now."""
    recent_topics: frozenset[str] = frozenset()
    """Topics created or deleted recently; members notice such a change at different times."""
    loaded: journal.GroupLoaded | None = None
    recent_load: journal.GroupLoaded | None = None
    assigned_before_ms: int | None = None
    """Time in ms of the assignments of the previous generation."""
    interrupted: Rebalance | None = None
    """Previous rebalance of the group, if a coordinator failover interrupted it."""
    newer: journal.RequestFenced | None = None
    """Rejected request whose generation is later than the generation that the coordinator loaded from the log."""
    disconnected: list[MemberDisconnected] = field(default_factory=list)
    resumed: list[PartitionsResumed] = field(default_factory=list)
    fenced: list[journal.RequestFenced] = field(default_factory=list)

    def last_assigned_ms(self, _member: journal.ClientIdentity) -> int | None:
        """Return the time in ms of the previous generation's assignments, which all its members got."""
        return self.assigned_before_ms

    @property
    def join_ms(self) -> int | None:
        """Duration of the join phase, in ms: from the trigger to the last JoinGroup or to the rebalance timeout."""
        return None if self.closed_at_ms is None else self.closed_at_ms - self.opened_at_ms

    @property
    def took_ms(self) -> int | None:
        last = self.settled_at_ms or self.assigned_at_ms or self.closed_at_ms
        return None if last is None else last - self.opened_at_ms

    @property
    def phases_ms(self) -> dict[str, int]:
        """Durations of the finished phases in ms, in order of time; ``took_ms`` is the sum of all except ``resume``.

        The event that ends each phase: ``join``: JoinGroup responses; ``assign``: persisted assignment; ``sync``: last
        SyncGroup; ``resume``: all new owners have fetched.
        """
        ends = (self.opened_at_ms, self.closed_at_ms, self.assigned_at_ms, self.settled_at_ms)
        phases = {
            name: end_ms - begin_ms
            for name, (begin_ms, end_ms) in zip(("join", "assign", "sync"), pairwise(ends), strict=True)
            if begin_ms is not None and end_ms is not None
        }
        settled_ms = self.settled_at_ms or self.assigned_at_ms
        if settled_ms is not None and self.resumed:
            phases["resume"] = max(0, max(entry.at_ms for entry in self.resumed) - settled_ms)
        return phases

    @property
    def held_up(self) -> tuple[journal.ClientIdentity, int] | None:
        """Last member to join, and the time in ms for which the other members waited for it; None without a wait."""
        if len(self.arrivals) < 2:
            return None
        by_time = sorted(self.arrivals, key=lambda a: a.after_ms)
        last, before = by_time[-1], by_time[-2]
        return (last.member, last.after_ms - before.after_ms) if last.after_ms > before.after_ms else None

    @property
    def released_by(self) -> tuple[journal.MemberRemoved, int] | None:
        """Removal that ended the join phase, and the time in ms for which the other members waited for the removal."""
        if self.closed_at_ms is None or not self.arrivals:
            return None
        last_ms = self.opened_at_ms + max(a.after_ms for a in self.arrivals)
        ended = [r for r in self.removed if r.at_ms == self.closed_at_ms > last_ms and r.why != "join_timeout"]
        return (ended[-1], self.closed_at_ms - last_ms) if ended else None

    @property
    def also_expired(self) -> list[journal.MemberRemoved]:
        return [r for r in self.removed if r.why == "session_expired" and r.member != self.trigger.member]

    @property
    def not_rejoined(self) -> list[journal.MemberRemoved]:
        """Removals of members at the rebalance timeout, because these members did not rejoin."""
        return [r for r in self.removed if r.why == "join_timeout"]


@dataclass(slots=True)
class _History:
    rebalances: list[Rebalance] = field(default_factory=list)
    removed: deque[journal.MemberRemoved] = field(default_factory=deque)
    fenced: deque[journal.RequestFenced] = field(default_factory=deque)
    loaded: journal.GroupLoaded | None = None
    loaded_last: journal.GroupLoaded | None = None
    newer: journal.RequestFenced | None = None
    back: dict[str, tuple[journal.ClientIdentity, int]] = field(default_factory=dict)

    def forget(self, now_ms: int) -> None:
        for entries in (self.removed, self.fenced):
            while entries and now_ms - entries[0].at_ms > RECENT_MS:
                entries.popleft()

    @property
    def latest(self) -> Rebalance | None:
        return self.rebalances[-1] if self.rebalances else None

    @property
    def in_flight(self) -> Rebalance | None:
        latest = self.latest
        return latest if latest is not None and latest.end in ("open", "assigning") else None


POLL_REASONS: Final = ("poll timeout has expired", "max.poll.interval", "max poll interval", "poll interval exceeded")
CLOSING_REASONS: Final = ("the consumer is being closed", "per normal operation", "pro-actively leaving", "is closing")


def stopped_polling(reason: str | None) -> bool:
    """Return True if a leave reason (KIP-800) names an exceeded poll interval, in the wording of any client library."""
    return _matches(reason, POLL_REASONS)


def closes_in_order(reason: str | None) -> bool:
    return _matches(reason, CLOSING_REASONS)


def _matches(reason: str | None, words: Iterable[str]) -> bool:
    said = (reason or "").lower()
    return any(word in said for word in words)


def rebalances(entries: Iterable[journal.JournalEntry]) -> list[Rebalance]:
    """Return the rebalances of all classic groups in journal ``entries``, in order of their start.

    If the oldest journal entries have expired, a rebalance without its first entry is left out.
    """
    histories: dict[str, _History] = {}
    for entry in entries:
        _take(histories.setdefault(entry.group, _History()), entry)
    found = [r for history in histories.values() for r in history.rebalances]
    return sorted(found, key=lambda r: r.opened_at_ms)


def _take(history: _History, entry: journal.JournalEntry) -> None:
    history.forget(entry.at_ms)
    if isinstance(entry, journal.RoundOpened):
        _open(history, entry)
        return
    if isinstance(entry, journal.RequestFenced):
        history.fenced.append(entry)
        if history.loaded is not None and entry.error == "ILLEGAL_GENERATION" and entry.generation > entry.current:
            history.newer = entry
        if history.latest is not None:
            history.latest.fenced.append(entry)
        return
    _remember(history, entry)
    latest, in_flight = history.latest, history.in_flight
    if in_flight is not None:
        _advance(in_flight, entry)
    elif isinstance(entry, journal.RoundSettled) and latest is not None and latest.generation == entry.generation:
        latest.settled_at_ms, latest.last_to_sync = entry.at_ms, entry.last


def _remember(history: _History, entry: journal.JournalEntry) -> None:
    if isinstance(entry, journal.MemberRemoved):
        history.removed.append(entry)
    elif isinstance(entry, journal.GroupDeleted):
        history.removed.clear()
        history.fenced.clear()
    elif isinstance(entry, journal.MemberArrived) and entry.new:
        _rejoined(history, entry.member, entry.at_ms)
    elif isinstance(entry, journal.GroupLoaded):
        history.loaded = history.loaded_last = entry
        history.newer = None
    elif isinstance(entry, MemberDisconnected):
        _disconnected(history, entry)
    elif isinstance(entry, PartitionsResumed):
        _resumed(history, entry)


def _disconnected(history: _History, entry: MemberDisconnected) -> None:
    for rebalance in reversed(history.rebalances):
        if entry.at_ms - rebalance.opened_at_ms > RECENT_MS:
            return
        if any(removed.member.member_id == entry.member.member_id for removed in rebalance.removed):
            rebalance.disconnected.append(entry)
            return


def _resumed(history: _History, entry: PartitionsResumed) -> None:
    for rebalance in reversed(history.rebalances):
        if rebalance.generation == entry.generation:
            rebalance.resumed.append(entry)
        if rebalance.generation is not None and rebalance.generation <= entry.generation:
            return


def _open(history: _History, entry: journal.RoundOpened) -> None:
    in_flight, before = history.in_flight, history.latest
    if in_flight is not None:
        in_flight.end = "superseded"
    returned, change = _returned(history, entry), None if before is None else before.trigger.change
    loaded, newer = history.loaded, history.newer
    history.loaded = history.newer = None
    at_once = list(takewhile(lambda removed: removed.at_ms == entry.at_ms, reversed(history.removed)))[::-1]
    if entry.trigger.event == "member_joined" and entry.trigger.member is not None:
        _rejoined(history, entry.trigger.member, entry.at_ms)
    last, newcomer = history.loaded_last, entry.trigger.member if entry.trigger.event == "member_joined" else None
    present = [member for member in entry.members if newcomer is None or member.member_id != newcomer.member_id]
    history.rebalances.append(
        Rebalance(
            group=entry.group,
            from_generation=entry.from_generation,
            trigger=entry.trigger,
            opened_at_ms=entry.at_ms,
            initial=entry.initial,
            timeout_ms=entry.timeout_ms,
            members_before=(*present, *(r.member for r in at_once if r.vitals is not None)),
            removed=at_once,
            parent=_parent(history.rebalances, entry),
            returned=returned,
            returned_from=None if returned is None else _rebalance_of(history.rebalances, returned),
            left_in=_left_in(history, entry),
            back=history.back,
            recent_topics=_recent_topics(history, entry.at_ms),
            after_new_partitions=change is not None and bool(change.partitions_changed),
            loaded=loaded,
            recent_load=last if last is not None and entry.at_ms - last.at_ms <= FAILOVER_MS else None,
            assigned_before_ms=None if before is None else before.settled_at_ms or before.assigned_at_ms,
            interrupted=before if before is not None and before.end == "interrupted" else None,
            newer=newer,
        )
    )


def _rebalance_of(
    earlier: list[Rebalance], returned: journal.MemberRemoved | journal.RequestFenced
) -> Rebalance | None:
    for rebalance in reversed(earlier):
        if any(entry is returned for entry in (*rebalance.removed, *rebalance.fenced)):
            return rebalance
        if rebalance.opened_at_ms < returned.at_ms:
            return None
    return None


def _advance(rebalance: Rebalance, entry: journal.JournalEntry) -> None:
    if isinstance(entry, journal.MemberArrived):
        rebalance.arrivals.append(entry)
    elif isinstance(entry, journal.MemberRemoved):
        rebalance.removed.append(entry)
    elif isinstance(entry, journal.RoundClosed):
        rebalance.closed_at_ms = entry.at_ms
        rebalance.generation, rebalance.members_after = entry.generation, entry.members
        rebalance.leader, rebalance.protocol = entry.leader, entry.protocol
        rebalance.end = "assigning" if entry.members else "empty"
    elif isinstance(entry, journal.AssignmentWritten):
        rebalance.assigned_at_ms, rebalance.moves, rebalance.end = entry.at_ms, entry.moves, "stable"
    elif isinstance(entry, journal.RoundDropped):
        rebalance.end, rebalance.error = "dropped", entry.error
    elif isinstance(entry, (journal.GroupLoaded, journal.GroupUnloaded)):
        rebalance.end = "interrupted"


def _parent(earlier: list[Rebalance], entry: journal.RoundOpened) -> int | None:
    change = entry.trigger.change
    if change is None or not change.owned_changed or change.topics_added or change.topics_removed:
        return None
    if change.protocols_before != change.protocols_after or change.partitions_changed or not earlier:
        return None
    before = earlier[-1]
    if before.generation != entry.from_generation or not any(m.after is None for m in before.moves):
        return None
    return before.generation


def _returned(history: _History, entry: journal.RoundOpened) -> journal.MemberRemoved | journal.RequestFenced | None:
    member = entry.trigger.member
    if entry.trigger.event != "member_joined" or member is None or not member.client_id:
        return None
    known = {m.member_id for m in entry.members}
    since_ms = entry.at_ms - RECENT_MS
    departed_before = [r for r in history.removed if r.member.client == member.client and r.at_ms >= since_ms]
    in_order = max((r.at_ms for r in departed_before if not _is_forced(r)), default=since_ms)
    candidates: list[journal.MemberRemoved | journal.RequestFenced] = [
        *(r for r in departed_before if _is_forced(r)),
        *(f for f in history.fenced if f.member.client == member.client),
    ]
    same = [c for c in candidates if c.member.member_id not in known and c.at_ms >= in_order]
    return max(same, key=lambda c: c.at_ms, default=None)


def _is_forced(removed: journal.MemberRemoved) -> bool:
    return removed.why in _EXPIRIES or (removed.why == "left" and stopped_polling(removed.reason))


def _left_in(history: _History, entry: journal.RoundOpened) -> Rebalance | None:
    member = entry.trigger.member
    if entry.trigger.event != "member_joined" or member is None or not member.client_id:
        return None
    for rebalance in reversed(history.rebalances):
        if entry.at_ms - rebalance.opened_at_ms > RECENT_MS:
            return None
        if any(arrival.member.client == member.client for arrival in rebalance.arrivals):
            return None
        left = rebalance.trigger.member if rebalance.trigger.event == "member_left" else None
        if left is not None and left.client == member.client:
            return rebalance
    return None


def _rejoined(history: _History, member: journal.ClientIdentity, at_ms: int) -> None:
    for removed in reversed(history.removed):
        if at_ms - removed.at_ms > RECENT_MS or not member.client_id:
            return
        if removed.member.client == member.client:
            if removed.why in ("session_expired", "left"):
                history.back.setdefault(removed.member.member_id, (member, at_ms))
            return


def _recent_topics(history: _History, at_ms: int) -> frozenset[str]:
    found: set[str] = set()
    for rebalance in reversed(history.rebalances):
        if at_ms - rebalance.opened_at_ms > RECENT_MS:
            break
        change = rebalance.trigger.change
        if change is not None:
            ends = change.partitions_changed.items()
            found |= {*change.topics_created, *change.topics_deleted, *(t for t, sizes in ends if 0 in sizes)}
    return frozenset(found)
