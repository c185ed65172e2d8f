"""Timeline of assignments: a row (lane) for each member, and a column for each period between two rebalances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

import msgspec

from kohort.coordinator import journal
from kohort.coordinator.journal_events import MemberDisconnected
from kohort.insight.assignments import DEPARTURE_EVENTS, JournaledGroup, JournaledMember, Place
from kohort.insight.findings.model import MemberRef, RebalanceFinding, member_ref
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.member_exits import MemberExit, exit_of_raised, exit_of_removed, observed_exits

AWAY: Final = "static leave: it keeps its partitions until its session ends"
LaneAssignments = dict[str, tuple[journal.ClientIdentity, frozenset[Place]]]


class AssignmentSpanFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Period in which a member's assignment does not change; ``until_ms`` is None while the period lasts."""

    from_ms: int
    until_ms: int | None
    partitions: tuple[str, ...]


class MarkFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Event of a member. ``kind`` is ``removed``, ``left``, ``away`` (a static member left temporarily), ``replaced``
    (by a new member id) or ``fenced`` (a request was rejected).
    """

    at_ms: int
    kind: str
    text: str
    how: str | None = None


class SilenceFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Period in which no consumer reads a member's partitions: before its expiry, or while a static member is absent.

    ``until_ms`` is None while a static member is absent. Only the expiry reveals the silence before it.
    """

    from_ms: int
    until_ms: int | None
    text: str


class LaneFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Timeline row of a member; a static member keeps its row under a new member id."""

    member: MemberRef
    assignments: tuple[AssignmentSpanFinding, ...]
    marks: tuple[MarkFinding, ...] = ()
    silences: tuple[SilenceFinding, ...] = ()


class ColumnFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Timeline column: period between two rebalances; the first column may begin without a rebalance."""

    from_ms: int
    until_ms: int | None
    generation: int | None
    protocol: str | None = None
    cause: str | None = None
    trigger: MemberRef | None = None
    took_ms: int | None = None
    rebalance: str | None = None


class TimelineFinding(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    from_ms: int
    until_ms: int
    columns: tuple[ColumnFinding, ...]
    lanes: tuple[LaneFinding, ...]


def find_timeline(
    entries: Sequence[journal.JournalEntry], *, group: str, from_ms: int, until_ms: int
) -> TimelineFinding:
    """Return the assignments of a group from ``from_ms`` to ``until_ms``; ``entries`` are in journal order."""
    drawing = _Lanes(from_ms, entries)
    for entry in entries:
        if entry.at_ms <= until_ms:
            drawing.take(entry)
    rebalances = [r for r in find_rebalances(entries) if r.end != "no_rebalance" and r.opened_at_ms <= until_ms]
    lanes = [lane.finding(from_ms) for lane in drawing.lanes.values()]
    return TimelineFinding(
        group=group,
        from_ms=from_ms,
        until_ms=until_ms,
        columns=_columns(rebalances, drawing.first_ms, from_ms),
        lanes=tuple(lane for lane in lanes if lane.assignments or lane.marks),
    )


def _columns(rebalances: Sequence[RebalanceFinding], first_ms: int | None, from_ms: int) -> tuple[ColumnFinding, ...]:
    within = [r for r in rebalances if r.opened_at_ms >= from_ms]
    before = [r for r in rebalances if r.opened_at_ms < from_ms]
    begin_ms = max(from_ms, first_ms or from_ms)
    columns = []
    if before or (first_ms is not None and (not within or first_ms < within[0].opened_at_ms)):
        columns.append(
            ColumnFinding(
                from_ms=begin_ms,
                until_ms=within[0].opened_at_ms if within else None,
                generation=before[-1].generation if before else None,
                protocol=before[-1].protocol if before else None,
            )
        )
    for rebalance, following in zip_longest(within, within[1:]):
        columns.append(
            ColumnFinding(
                from_ms=rebalance.opened_at_ms,
                until_ms=None if following is None else following.opened_at_ms,
                generation=rebalance.generation,
                protocol=rebalance.protocol,
                cause=rebalance.cause,
                trigger=rebalance.trigger,
                took_ms=rebalance.took_ms,
                rebalance=rebalance.id,
            )
        )
    return tuple(columns)


@dataclass(slots=True)
class _Lane:
    member: journal.ClientIdentity
    assignments: list[AssignmentSpanFinding] = field(default_factory=list)
    marks: list[MarkFinding] = field(default_factory=list)
    silences: list[SilenceFinding] = field(default_factory=list)
    since_ms: int | None = None
    away_ms: int | None = None
    assignment: frozenset[Place] = frozenset()

    def finding(self, from_ms: int) -> LaneFinding:
        assignments = list(self.assignments)
        if self.since_ms is not None:
            assignments.append(_assignment_span(max(self.since_ms, from_ms), None, self.assignment))
        silences = list(self.silences)
        if self.away_ms is not None:
            silences.append(SilenceFinding(from_ms=max(self.away_ms, from_ms), until_ms=None, text=AWAY))
        return LaneFinding(
            member=member_ref(self.member),
            assignments=tuple(assignments),
            marks=tuple(self.marks),
            silences=tuple(silences),
        )

    def end_silence(self, since_ms: int | None, at_ms: int, text: str, from_ms: int) -> None:
        """Add a silence: no consumer read the member's partitions from its leave or last request to ``at_ms``."""
        if self.away_ms is not None:
            since_ms, text, self.away_ms = self.away_ms, AWAY, None
        if since_ms is not None and max(since_ms, from_ms) < at_ms:
            self.silences.append(SilenceFinding(from_ms=max(since_ms, from_ms), until_ms=at_ms, text=text))


def _assignment_span(from_ms: int, until_ms: int | None, places: Iterable[Place]) -> AssignmentSpanFinding:
    names = tuple(f"{topic}-{partition}" for topic, partition in sorted(places))
    return AssignmentSpanFinding(from_ms=from_ms, until_ms=until_ms, partitions=names)


class _Lanes:
    def __init__(self, from_ms: int, entries: Sequence[journal.JournalEntry]) -> None:
        self.lanes: dict[str, _Lane] = {}
        self.first_ms: int | None = None
        self._from_ms = from_ms
        self._group = JournaledGroup()
        self._disconnected = {
            entry.member.member_id: entry for entry in entries if isinstance(entry, MemberDisconnected)
        }
        self._seen = observed_exits(entries)

    def take(self, entry: journal.JournalEntry) -> None:
        if isinstance(entry, journal.RequestFenced):
            self._mark(entry.member, entry.at_ms, "fenced", f"{entry.api}: {entry.error}")
            return
        before = self._group.members
        self._group.take(entry)
        if isinstance(entry, journal.GenerationSeen):
            self._group.members = {
                seen.member.member_id: JournaledMember(seen.member, assignment=_places(seen.partitions))
                for seen in entry.members
            }
            for member in before.values():
                if member.member.member_id not in self._group.members:
                    self._mark_exit(member.member, entry.at_ms, self._seen.get((member.member.member_id, entry.at_ms)))
        elif isinstance(entry, journal.GroupDeleted):
            self._group.members = {}
        elif isinstance(entry, journal.MemberRemoved):
            self._group.members.pop(entry.member.member_id, None)
            if _key(entry.member) in self.lanes:
                disconnected = self._disconnected.get(entry.member.member_id)
                self._mark_exit(entry.member, entry.at_ms, exit_of_removed(entry, disconnected))
        elif isinstance(entry, journal.EpochRaised) and entry.cause.event in DEPARTURE_EVENTS:
            for identity in filter(None, (entry.cause.member, *entry.cause.others)):
                default = exit_of_raised(entry.cause, identity, entry.at_ms, self._disconnected.get(identity.member_id))
                self._mark_exit(identity, entry.at_ms, self._seen.get((identity.member_id, entry.at_ms), default))
        else:
            self._take_static_member(entry)
        assignments: LaneAssignments = {
            _key(m.member): (m.member, frozenset(m.owned)) for m in self._group.members.values()
        }
        self._compare(assignments, entry.at_ms)

    def _take_static_member(self, entry: journal.JournalEntry) -> None:
        if isinstance(entry, journal.StaticReplaced):
            self._mark(entry.member, entry.at_ms, "replaced", "returned under a new id")
        if isinstance(entry, journal.StaticReplaced | journal.MemberReconciled) and (
            lane := self.lanes.get(_key(entry.member))
        ):
            lane.end_silence(None, entry.at_ms, AWAY, self._from_ms)
        if isinstance(entry, journal.StaticAway) and (lane := self.lanes.get(_key(entry.member))):
            lane.away_ms = entry.at_ms
            self._mark(entry.member, entry.at_ms, "away", AWAY)

    def _mark_exit(self, member: journal.ClientIdentity, at_ms: int, exit_: MemberExit | None) -> None:
        if exit_ is None:
            return
        self._mark(member, at_ms, "left" if exit_.is_voluntary else "removed", exit_.text, exit_.kind)
        lane = self.lanes.get(_key(member))
        if lane is not None:
            lane.end_silence(exit_.silent_since_ms, at_ms, exit_.text, self._from_ms)

    def _compare(self, assignments: LaneAssignments, at_ms: int) -> None:
        if assignments and self.first_ms is None:
            self.first_ms = at_ms
        for key, lane in self.lanes.items():
            if lane.since_ms is not None and (key not in assignments or assignments[key][1] != lane.assignment):
                if at_ms >= self._from_ms and at_ms > lane.since_ms:
                    lane.assignments.append(_assignment_span(max(lane.since_ms, self._from_ms), at_ms, lane.assignment))
                lane.since_ms = None
        for key, (member, has) in assignments.items():
            lane = self.lanes.setdefault(key, _Lane(member))
            lane.member = member
            if lane.since_ms is None:
                lane.since_ms, lane.assignment = at_ms, has

    def _mark(self, member: journal.ClientIdentity, at_ms: int, kind: str, text: str, how: str | None = None) -> None:
        if at_ms >= self._from_ms:
            lane = self.lanes.setdefault(_key(member), _Lane(member))
            lane.marks.append(MarkFinding(at_ms=at_ms, kind=kind, text=text, how=how))


def _key(member: journal.ClientIdentity) -> str:
    return f"static {member.instance_id}" if member.instance_id is not None else member.member_id


def _places(by_topic: dict[str, tuple[int, ...]] | None) -> set[Place]:
    return {(topic, partition) for topic, of in (by_topic or {}).items() for partition in of}
