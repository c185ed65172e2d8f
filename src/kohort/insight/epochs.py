"""Rebalances of consumer groups (KIP-848), as journal entries show them.

A rebalance begins with a new group epoch, and ends when all members have their target assignment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from kohort.coordinator import journal
from kohort.coordinator.journal_events import MemberDisconnected, PartitionsResumed
from kohort.insight.assignments import DEPARTURE_EVENTS, JournaledGroup, Place, UnownedTime
from kohort.insight.rebalances import RECENT_MS

FIRST_EPOCHS: Final = 2
"""Highest possible group epoch after the first join: 2 if the first member subscribes with a pattern, else 1."""
REMEMBERED: Final = 1000
EpochEnd = Literal["assigning", "reconciling", "stable", "empty", "superseded", "interrupted", "converted"]


@dataclass(frozen=True, slots=True)
class MemberRow:
    """Assignment and target assignment of a member, at the end of a rebalance or at the end of the journal."""

    member: journal.ClientIdentity
    epoch: int | None
    state: str
    known: bool
    assignment_before: tuple[Place, ...]
    assignment: tuple[Place, ...]
    target: tuple[Place, ...] | None
    revoking: tuple[Place, ...]
    revoking_since_ms: int | None
    awaited: tuple[journal.AwaitedPartition, ...]

    @property
    def is_undisturbed(self) -> bool:
        return (
            self.known
            and self.assignment_before == self.assignment
            and not self.revoking
            and self.target in (None, self.assignment)
        )


@dataclass(slots=True)
class EpochRebalance:
    """Rebalance of a consumer group: from a new group epoch until all members have their target assignment.

    Several new epochs belong to one rebalance if they have one target assignment. ``end``: ``assigning`` (the target
    assignment is missing), ``reconciling`` (a member does not have its target yet), ``superseded`` (a newer epoch
    began), ``interrupted`` (the coordinator was lost), ``converted`` (the group became classic), ``empty``, ``stable``.
    """

    group: str
    raises: list[journal.EpochRaised]
    converted: journal.GroupConverted | None = None
    removed_before: journal.EpochRaised | None = None
    """Earlier new group epoch, caused by the removal of the joining member or of a member of the same client."""
    removed_from: EpochRebalance | None = None
    back: dict[str, tuple[journal.ClientIdentity, int]] = field(default_factory=dict)
    """Removed clients that rejoined. Key: old member id; value: new member, and time of its join."""
    left_revoking: tuple[Place, ...] = ()
    """Partitions that the removed member was still revoking at its removal."""
    revoking_since_ms: int | None = None
    assigned_before: dict[str, int] = field(default_factory=dict)
    """Time in ms at which each member that caused a new epoch had last got partitions. Key: member id."""
    was_empty: bool = False
    target: journal.TargetComputed | None = None
    moves: tuple[journal.Move, ...] = ()
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Topics whose partition count changed. Key: topic name; value: partition counts before and after the change."""
    steps: list[journal.MemberReconciled] = field(default_factory=list)
    unowned: list[UnownedTime] = field(default_factory=list)
    fenced: list[journal.RequestFenced] = field(default_factory=list)
    disconnected: list[MemberDisconnected] = field(default_factory=list)
    resumed: list[PartitionsResumed] = field(default_factory=list)
    members: tuple[MemberRow, ...] = ()
    settled_at_ms: int | None = None
    end: EpochEnd = "assigning"

    @property
    def opened_at_ms(self) -> int:
        return self.raises[0].at_ms

    @property
    def from_epoch(self) -> int:
        return self.raises[0].epoch - 1

    @property
    def epoch(self) -> int:
        return self.raises[-1].epoch

    def last_assigned_ms(self, member: journal.ClientIdentity) -> int | None:
        """Return the time in ms at which a member last got partitions before it caused the new epoch."""
        return self.assigned_before.get(member.member_id)

    @property
    def took_ms(self) -> int | None:
        """Time from the new group epoch until all members have their target assignment; None if unfinished."""
        return None if self.settled_at_ms is None else self.settled_at_ms - self.opened_at_ms

    @property
    def phases_ms(self) -> dict[str, int]:
        """Durations of the finished phases of the rebalance in ms, in order of time.

        The event that ends each phase: ``target``: new target assignment; ``revoke``: last revocation; ``give``: last
        assignment; ``settle``: all members have their target assignments; ``resume``: all new owners have fetched.
        ``took_ms`` excludes ``resume``.
        """
        revoked = max((s.at_ms for s in self.steps if s.revoked), default=None)
        given = max((s.at_ms for s in self.steps if s.given), default=None)
        points = {
            "target": None if self.target is None else self.target.at_ms,
            "revoke": revoked,
            "give": given,
            "settle": self.settled_at_ms,
            "resume": max((entry.at_ms for entry in self.resumed), default=None),
        }
        phases, last_ms = {}, self.opened_at_ms
        for name, at_ms in points.items():
            if at_ms is not None:
                phases[name] = max(0, at_ms - last_ms)
                last_ms = max(last_ms, at_ms)
        return phases

    @property
    def unrevoked(self) -> list[MemberRow]:
        waiting = [row for row in self.members if row.revoking]
        return sorted(waiting, key=lambda row: row.revoking_since_ms or 0)

    @property
    def held_up(self) -> journal.MemberReconciled | None:
        slow = [step for step in self.steps if step.revoked_after_ms]
        return max(slow, key=lambda step: step.revoked_after_ms or 0, default=None)

    @property
    def undisturbed(self) -> list[MemberRow]:
        return [row for row in self.members if row.is_undisturbed]

    @property
    def longest_unowned(self) -> UnownedTime | None:
        return max((g for g in self.unowned if g.until_ms is not None), key=lambda g: g.took_ms or 0, default=None)

    @property
    def unowned_ms(self) -> int:
        return sum(gap.took_ms or 0 for gap in self.unowned)


def epoch_rebalances(entries: Iterable[journal.JournalEntry]) -> list[EpochRebalance]:
    """Return the rebalances of consumer groups in journal ``entries``, in order of their start.

    If the oldest journal entries have expired, the first rebalance begins with the oldest new epoch in the journal.
    """
    histories: dict[str, _History] = {}
    for entry in entries:
        histories.setdefault(entry.group, _History()).take(entry)
    for history in histories.values():
        history.close()
    found = [rebalance for history in histories.values() for rebalance in history.found]
    return sorted(found, key=lambda rebalance: rebalance.opened_at_ms)


class _History:
    def __init__(self) -> None:
        self.found: list[EpochRebalance] = []
        self.assignments = JournaledGroup()
        self.owned_before: dict[str, tuple[Place, ...]] = {}
        self.converted: journal.GroupConverted | None = None
        self.departed_before: list[journal.EpochRaised] = []
        self.given_at: dict[str, int] = {}
        """Time in ms at which each member last got partitions. Key: member id."""

    @property
    def in_flight(self) -> EpochRebalance | None:
        latest = self.found[-1] if self.found else None
        return latest if latest is not None and latest.end in ("assigning", "reconciling") else None

    def take(self, entry: journal.JournalEntry) -> None:
        if isinstance(entry, journal.EpochRaised):
            self._raise(entry)
        rebalance = self.in_flight
        unowned = len(self.assignments.unowned)
        if rebalance is not None and isinstance(entry, journal.TargetComputed):
            self._take_target(rebalance, entry)
        else:
            self.assignments.take(entry)
        if self.found:
            self.found[-1].unowned += self.assignments.unowned[unowned:]
        if isinstance(entry, journal.RequestFenced) and self.found:
            self.found[-1].fenced.append(entry)
        elif isinstance(entry, PartitionsResumed) and self.found:
            self.found[-1].resumed.append(entry)
        elif isinstance(entry, MemberDisconnected):
            self._disconnect(entry)
        elif isinstance(entry, journal.GroupConverted):
            self.converted = entry if entry.to == "consumer" else None
            self._end("converted")
        elif isinstance(entry, journal.GroupUnloaded):
            self._end("interrupted")
        elif isinstance(entry, journal.GroupDeleted):
            self._end("empty")
            self.assignments = JournaledGroup()
        elif isinstance(entry, journal.EpochRaised) and not entry.members:
            self._end("empty")
        elif isinstance(entry, journal.MemberReconciled):
            self._reconcile(rebalance, entry)

    def _reconcile(self, rebalance: EpochRebalance | None, entry: journal.MemberReconciled) -> None:
        if entry.given:
            self.given_at[entry.member.member_id] = entry.at_ms
        if rebalance is not None:
            rebalance.steps.append(entry)
            self._settle(rebalance, entry.at_ms)

    def _take_target(self, rebalance: EpochRebalance, entry: journal.TargetComputed) -> None:
        before, sizes = dict(self.assignments.planned), self.assignments.topic_sizes()
        self.assignments.take(entry)
        after = self.assignments.topic_sizes()
        rebalance.target, rebalance.end = entry, "reconciling"
        rebalance.sizes = {t: (sizes[t], after[t]) for t in sorted({*sizes, *after}) if sizes[t] != after[t]}
        rebalance.moves = tuple(self._named(move, before) for move in entry.moves)

    def _named(self, move: journal.Move, before: dict[Place, str]) -> journal.Move:
        topic = self.assignments.name(move.topic)
        return journal.Move(topic, move.partition, move.before or before.get((topic, move.partition)), move.after)

    def _raise(self, entry: journal.EpochRaised) -> None:
        cause, rebalance = entry.cause, self.in_flight
        member = self.assignments.members.get(cause.member.member_id) if cause.member is not None else None
        if rebalance is not None and rebalance.end == "assigning":
            rebalance.raises.append(entry)
        else:
            self._end("superseded")
            members = self.assignments.members
            self.owned_before = {member_id: tuple(sorted(m.owned)) for member_id, m in members.items()}
            opened = EpochRebalance(entry.group, [entry])
            opened.was_empty = self.found[-1].end == "empty" if self.found else entry.epoch <= FIRST_EPOCHS
            if self.converted is not None and self.converted.at_ms == entry.at_ms:
                opened.converted = self.converted
            if cause.event == "member_joined" and cause.member is not None:
                before = opened.removed_before = self._earlier_departure(cause.member)
                opened.removed_from = next((r for r in reversed(self.found) if before in r.raises), None)
            if member is not None and member.revoking:
                opened.left_revoking = tuple(sorted(member.revoking))
                opened.revoking_since_ms = min(member.revoking.values())
            self.found.append(opened)
        self.converted = None
        if cause.member is not None and cause.member.member_id in self.given_at:
            self.found[-1].assigned_before[cause.member.member_id] = self.given_at[cause.member.member_id]
        if cause.event == "member_joined" and cause.member is not None:
            self._rejoined(cause.member, entry.at_ms)
        if cause.member is not None and cause.event in DEPARTURE_EVENTS:
            self.departed_before.append(entry)
            del self.departed_before[:-REMEMBERED]

    def _earlier_departure(self, member: journal.ClientIdentity) -> journal.EpochRaised | None:
        departed = [(raised, raised.cause.member) for raised in reversed(self.departed_before)]
        for raised, other in departed:
            if other is not None and other.member_id == member.member_id:
                return raised
        present = {m.member.client for m in self.assignments.members.values() if m.member != member}
        if member.client in present or not member.client_id:
            return None
        return next((raised for raised, other in departed if other is not None and other.client == member.client), None)

    def _rejoined(self, member: journal.ClientIdentity, at_ms: int) -> None:
        for rebalance in reversed(self.found):
            if at_ms - rebalance.opened_at_ms > RECENT_MS:
                return
            for raised in rebalance.raises:
                gone = raised.cause.member
                if raised.cause.event not in DEPARTURE_EVENTS or gone is None or gone.member_id in rebalance.back:
                    continue
                if gone.client == member.client:
                    rebalance.back[gone.member_id] = member, at_ms
                    return

    def _disconnect(self, entry: MemberDisconnected) -> None:
        for rebalance in reversed(self.found):
            gone = [raised.cause.member for raised in rebalance.raises if raised.cause.event == "member_left"]
            if any(member is not None and member.member_id == entry.member.member_id for member in gone):
                rebalance.disconnected.append(entry)
                return

    def _settle(self, rebalance: EpochRebalance, at_ms: int) -> None:
        if rebalance.target is None:
            return
        there = [
            m for m in self.assignments.members.values() if m.state == "stable" and m.epoch == rebalance.target.epoch
        ]
        if len(there) >= rebalance.target.members:
            rebalance.settled_at_ms = at_ms
            self._end("stable")

    def _end(self, how: EpochEnd) -> None:
        rebalance = self.in_flight
        if rebalance is not None:
            rebalance.end = how
            rebalance.members = self._rows()

    def close(self) -> None:
        if self.in_flight is not None:
            self.in_flight.members = self._rows()

    def _rows(self) -> tuple[MemberRow, ...]:
        return tuple(
            MemberRow(
                member=m.member,
                epoch=m.epoch,
                state=m.state,
                known=m.known,
                assignment_before=self.owned_before.get(m.member.member_id, ()),
                assignment=tuple(sorted(m.assignment)),
                target=None if m.target is None else tuple(sorted(m.target)),
                revoking=tuple(sorted(m.revoking)),
                revoking_since_ms=min(m.revoking.values(), default=None),
                awaited=m.awaited,
            )
            for m in self.assignments.members.values()
        )
