"""Who had which partitions when: a lane for each member, cut into columns by the group's rebalances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

import msgspec

from kohort.coordinator.journal import (
    EpochRaised,
    GenerationSeen,
    GroupDeleted,
    JournalEntry,
    MemberRemoved,
    RequestFenced,
    StaticReplaced,
    Who,
)
from kohort.insight.findings.model import MemberRef, RebalanceFinding, member_ref
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.holdings import GONE, JournaledGroup, JournaledMember, Place

LEFT: Final = ("left", "pending_left")
Holding = dict[str, tuple[Who, frozenset[Place]]]
"""What each member has, by the key of its lane."""


class SpellFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which a member had the same partitions, as ``topic-3``; ``until_ms`` is null while it lasts."""

    from_ms: int
    until_ms: int | None
    partitions: tuple[str, ...]


class MarkFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a member: ``removed`` (put out), ``left``, ``fenced`` (a request was refused)."""

    at_ms: int
    kind: str
    text: str


class LaneFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A member; a static one that came back under a new member id goes on in its lane."""

    who: MemberRef
    spells: tuple[SpellFinding, ...]
    marks: tuple[MarkFinding, ...] = ()


class ColumnFinding(msgspec.Struct, frozen=True, kw_only=True):
    """The time from the beginning of one rebalance to that of the next; the first may have none."""

    from_ms: int
    until_ms: int | None
    generation: int | None
    protocol: str | None = None
    cause: str | None = None
    trigger: MemberRef | None = None
    took_ms: int | None = None
    rebalance: str | None = None
    """Its id."""


class TimelineFinding(msgspec.Struct, frozen=True, kw_only=True):
    """The lanes of a group between two times."""

    group: str
    from_ms: int
    until_ms: int
    columns: tuple[ColumnFinding, ...]
    lanes: tuple[LaneFinding, ...]


def find_timeline(entries: Sequence[JournalEntry], *, group: str, from_ms: int, until_ms: int) -> TimelineFinding:
    """Return who had what from ``from_ms`` to ``until_ms``, by the entries of one group in the order of the journal."""
    drawing = _Lanes(from_ms)
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
        lanes=tuple(lane for lane in lanes if lane.spells or lane.marks),
    )


def _columns(rebalances: Sequence[RebalanceFinding], first_ms: int | None, from_ms: int) -> tuple[ColumnFinding, ...]:
    """Return the columns: what was before the first rebalance of the time, if anything was, and one for each."""
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
    for this, following in zip_longest(within, within[1:]):
        columns.append(
            ColumnFinding(
                from_ms=this.opened_at_ms,
                until_ms=None if following is None else following.opened_at_ms,
                generation=this.generation,
                protocol=this.protocol,
                cause=this.cause,
                trigger=this.trigger,
                took_ms=this.took_ms,
                rebalance=this.id,
            )
        )
    return tuple(columns)


@dataclass(slots=True)
class _Lane:
    who: Who
    spells: list[SpellFinding] = field(default_factory=list)
    marks: list[MarkFinding] = field(default_factory=list)
    begun_ms: int | None = None
    has: frozenset[Place] = frozenset()

    def finding(self, from_ms: int) -> LaneFinding:
        spells = list(self.spells)
        if self.begun_ms is not None:
            spells.append(_spell(max(self.begun_ms, from_ms), None, self.has))
        return LaneFinding(who=member_ref(self.who), spells=tuple(spells), marks=tuple(self.marks))


def _spell(from_ms: int, until_ms: int | None, places: Iterable[Place]) -> SpellFinding:
    names = tuple(f"{topic}-{partition}" for topic, partition in sorted(places))
    return SpellFinding(from_ms=from_ms, until_ms=until_ms, partitions=names)


class _Lanes:
    """The lanes while the journal is read."""

    def __init__(self, from_ms: int) -> None:
        self.lanes: dict[str, _Lane] = {}
        self.first_ms: int | None = None
        self._from_ms = from_ms
        self._group = JournaledGroup()

    def take(self, entry: JournalEntry) -> None:
        """Take the next entry."""
        if isinstance(entry, RequestFenced):
            self._mark(entry.who, entry.at_ms, "fenced", f"{entry.api}: {entry.error}")
            return
        self._group.take(entry)
        if isinstance(entry, GenerationSeen):
            self._group.members = {
                seen.who.member_id: JournaledMember(seen.who, has=_places(seen.partitions)) for seen in entry.members
            }
        elif isinstance(entry, GroupDeleted):
            self._group.members = {}
        elif isinstance(entry, MemberRemoved):
            self._group.members.pop(entry.who.member_id, None)
            if _key(entry.who) in self.lanes:
                self._mark(entry.who, entry.at_ms, "left" if entry.why in LEFT else "removed", entry.why)
        elif isinstance(entry, EpochRaised) and entry.cause.event in GONE:
            kind = "left" if entry.cause.event == "member_left" else "removed"
            for who in filter(None, (entry.cause.who, *entry.cause.others)):
                self._mark(who, entry.at_ms, kind, entry.cause.event)
        elif isinstance(entry, StaticReplaced):
            self._mark(entry.who, entry.at_ms, "replaced", "came back under a new id")
        holding: Holding = {
            _key(m.who): (m.who, frozenset(m.has | m.revoking.keys())) for m in self._group.members.values()
        }
        self._compare(holding, entry.at_ms)

    def _compare(self, holding: Holding, at_ms: int) -> None:
        """End the spells of those who have something else now, and begin others."""
        if holding and self.first_ms is None:
            self.first_ms = at_ms
        for key, lane in self.lanes.items():
            if lane.begun_ms is not None and (key not in holding or holding[key][1] != lane.has):
                if at_ms >= self._from_ms and at_ms > lane.begun_ms:
                    lane.spells.append(_spell(max(lane.begun_ms, self._from_ms), at_ms, lane.has))
                lane.begun_ms = None
        for key, (who, has) in holding.items():
            lane = self.lanes.setdefault(key, _Lane(who))
            lane.who = who
            if lane.begun_ms is None:
                lane.begun_ms, lane.has = at_ms, has

    def _mark(self, who: Who, at_ms: int, kind: str, text: str) -> None:
        if at_ms >= self._from_ms:
            lane = self.lanes.setdefault(_key(who), _Lane(who))
            lane.marks.append(MarkFinding(at_ms=at_ms, kind=kind, text=text))


def _key(who: Who) -> str:
    return f"static {who.instance_id}" if who.instance_id is not None else who.member_id


def _places(by_topic: dict[str, tuple[int, ...]] | None) -> set[Place]:
    return {(topic, partition) for topic, of in (by_topic or {}).items() for partition in of}
