"""What a recorded course of rebalances would have moved with another assignor, or another protocol.

The journal tells who was in the group in each generation and what each had. The same comings and goings are given to
the assignors, one after the other; each begins from what it dealt itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from kohort.assignors.builtin import ASSIGNORS
from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.coordinator.journal import (
    AssignmentWritten,
    EpochRaised,
    GenerationSeen,
    GroupConverted,
    JournalEntry,
    RoundClosed,
    StaticReplaced,
    TargetComputed,
    Who,
)
from kohort.errors import UsageError
from kohort.insight.findings.what_if import ReplayedAssignor, ReplayFinding
from kohort.insight.names import count
from kohort.insight.what_if.course import GroupCourse
from kohort.insight.what_if.dealing import DealingWay, ReadTopics
from kohort.insight.what_if.scenario import Assumptions, WhatIfMember
from kohort.insight.what_if.steps import GroupStep
from kohort.model import TopicPartition

GOING = frozenset(
    {"member_left", "session_expired", "revocation_timeout", "rejoin_timeout", "resync_timeout", "member_gone"}
)
"""Events of a modern group with which members go."""


class RecordedGeneration(NamedTuple):
    """Who was in a group at a time, and what each had."""

    at_ms: int
    way: DealingWay
    members: Mapping[str, Who]
    """By member id."""
    owned: Mapping[str, tuple[TopicPartition, ...]]

    @property
    def processes(self) -> dict[str, str]:
        """Return member ids by who they are: a static member stays the same under another id."""
        return {who.instance_id or member_id: member_id for member_id, who in self.members.items()}


def recorded_generations(entries: Iterable[JournalEntry]) -> list[RecordedGeneration]:
    """Return the generations of one group that the journal tells whole, oldest first; of modern groups, its targets."""
    found: list[RecordedGeneration] = []
    closed: RoundClosed | None = None
    here: dict[str, Who] = {}
    owners: dict[TopicPartition, str] = {}
    for entry in entries:
        if isinstance(entry, RoundClosed):
            closed = entry
            here = {who.member_id: who for who in entry.members}
        elif isinstance(entry, AssignmentWritten) and closed is not None and entry.partitions is not None:
            owned = {m: _places(entry.partitions.get(m, {})) for m in here}
            owners = {tp: m for m, places in owned.items() for tp in places}
            found.append(RecordedGeneration(entry.at_ms, DealingWay(closed.protocol or "", False), here, owned))
        elif isinstance(entry, GenerationSeen) and entry.members:  # an empty one deals nothing out
            here = {seen.who.member_id: seen.who for seen in entry.members}
            owned = {seen.who.member_id: _places(seen.partitions or {}) for seen in entry.members}
            owners = {tp: m for m, places in owned.items() for tp in places}
            found.append(RecordedGeneration(entry.at_ms, DealingWay(entry.protocol or "", False), here, owned))
        elif isinstance(entry, GroupConverted):
            here = {who.member_id: who for who in entry.members}
        elif isinstance(entry, StaticReplaced):
            here = {**{m: who for m, who in here.items() if m != entry.old_member_id}, entry.who.member_id: entry.who}
            owners = {tp: entry.who.member_id if m == entry.old_member_id else m for tp, m in owners.items()}
        elif isinstance(entry, EpochRaised):
            here = _members_after(here, entry)
        elif isinstance(entry, TargetComputed):
            for move in entry.moves:
                owners.pop(TopicPartition(move.topic, move.partition), None)
                if move.after is not None:
                    owners[TopicPartition(move.topic, move.partition)] = move.after
            here = {**{m: Who(m, "", "") for m in owners.values()}, **here}
            owned = {m: tuple(sorted(tp for tp, owner in owners.items() if owner == m)) for m in here}
            found.append(RecordedGeneration(entry.at_ms, DealingWay(entry.assignor or "uniform", True), here, owned))
    return found


def _places(partitions: Mapping[str, Iterable[int]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(topic, n) for topic, numbers in partitions.items() for n in numbers))


def _members_after(here: Mapping[str, Who], entry: EpochRaised) -> dict[str, Who]:
    cause = entry.cause
    whom = [who for who in (cause.who, *cause.others) if who is not None]
    if cause.event in GOING:
        gone = {who.member_id for who in whom}
        return {member_id: who for member_id, who in here.items() if member_id not in gone}
    return {**here, **{who.member_id: who for who in whom}}


def replay(group: str, generations: Sequence[RecordedGeneration], assume: Assumptions | None = None) -> ReplayFinding:
    """Return what was moved, and what each assignor would have moved: from the first of these generations to the last.

    Raises UsageError where there are fewer than two.
    """
    if len(generations) < 2:
        raise UsageError(f"the journal has no two generations of group {group!r}: there is nothing to compare")
    first = generations[0].way
    ways = [DealingWay(name, False) for name in ASSIGNORS] + [DealingWay(name, True) for name in SERVER_ASSIGNORS]
    changes = [_change(*pair) for pair in _with_counts(generations)]
    begun = [c for c in changes if c is not None]
    replays = tuple(_replayed(generations[0], begun, way, assume or Assumptions()) for way in ways)
    moved = _moved(generations)
    own = next((r.moved for r, way in zip(replays, ways, strict=True) if way == first), None)
    return ReplayFinding(
        group=group,
        from_ms=generations[0].at_ms,
        until_ms=generations[-1].at_ms,
        generations=len(generations) - 1,
        changes=len(begun),
        protocol="consumer" if first.modern else "classic",
        assignor=first.assignor,
        moved=moved,
        replays=replays,
        sentence=_sentence(first, moved, len(begun), replays),
        notes=_notes(own, moved, generations),
    )


class _Change(NamedTuple):
    """From one generation to the next: who went, who came, who is the same under another id; how many partitions
    topics have by then."""

    gone: frozenset[str]
    come: tuple[str, ...]
    renamed: Mapping[str, str]
    counts: Mapping[str, int]
    members: Mapping[str, Who]


def _with_counts(
    generations: Sequence[RecordedGeneration],
) -> Iterable[tuple[RecordedGeneration, RecordedGeneration, dict[str, int], dict[str, int]]]:
    counts = _counts({}, generations[0])
    for before, after in pairwise(generations):
        grown = _counts(counts, after)
        yield before, after, counts, grown
        counts = grown


def _counts(known: Mapping[str, int], generation: RecordedGeneration) -> dict[str, int]:
    counts = dict(known)
    for tp in (tp for places in generation.owned.values() for tp in places):
        counts[tp.topic] = max(counts.get(tp.topic, 0), tp.partition + 1)
    return counts


def _change(
    before: RecordedGeneration, after: RecordedGeneration, counts: Mapping[str, int], grown: Mapping[str, int]
) -> _Change | None:
    was, has = before.processes, after.processes
    gone = frozenset(member_id for process, member_id in was.items() if process not in has)
    come = tuple(member_id for process, member_id in has.items() if process not in was)
    renamed = {was[p]: has[p] for p in was if p in has and was[p] != has[p]}
    if not (gone or come or renamed or counts != grown):
        return None
    return _Change(gone, come, renamed, grown, after.members)


def _replayed(
    start: RecordedGeneration, changes: Sequence[_Change], way: DealingWay, assume: Assumptions
) -> ReplayedAssignor:
    counts = _counts({}, start)
    members = [_member(who, tuple(counts), start.owned[member_id]) for member_id, who in start.members.items()]
    course = GroupCourse(members, ReadTopics(counts, {}), assume)
    for change in changes:
        topics = tuple(change.counts)
        course.members = [
            _member(change.members.get(new, Who(new, "", "")), topics, m.owned)
            for m in course.members
            for new in (change.renamed.get(m.member_id, m.member_id),)
        ]
        grew = dict(course.topics.counts) != dict(change.counts)
        course.topics = ReadTopics(change.counts, {})
        come = tuple(_member(change.members[member_id], topics, (), is_new=True) for member_id in change.come)
        if change.gone or come or grew:
            course.run(_steps(way, change.gone, come))
    least, most = (sum(column) for column in zip(*course.pauses.values(), strict=True)) if course.pauses else (0, 0)
    return ReplayedAssignor(
        protocol="consumer" if way.modern else "classic",
        assignor=way.assignor,
        rounds=course.rounds,
        moved=course.moves_in_all,
        pause_from_s=least / 1000,
        pause_to_s=most / 1000,
    )


def _steps(way: DealingWay, gone: frozenset[str], come: tuple[WhatIfMember, ...]) -> list[GroupStep]:
    if not way.modern:
        return [GroupStep(way, gone, come)]
    one_by_one = [GroupStep(way, gone=frozenset({m})) for m in sorted(gone)] + [GroupStep(way, come=(m,)) for m in come]
    return one_by_one or [GroupStep(way)]


def _member(
    who: Who, topics: tuple[str, ...], owned: tuple[TopicPartition, ...], *, is_new: bool = False
) -> WhatIfMember:
    return WhatIfMember(
        member_id=who.member_id,
        client_id=who.client_id,
        instance_id=who.instance_id,
        topics=topics,
        names=topics,
        owned=owned,
        is_new=is_new,
    )


def _moved(generations: Sequence[RecordedGeneration]) -> int:
    """Return how often a partition came to another process than the one that had it last."""
    last: dict[TopicPartition, str] = {}
    moved = 0
    for generation in generations:
        names = {member_id: process for process, member_id in generation.processes.items()}
        for member_id, places in generation.owned.items():
            for tp in places:
                process = names.get(member_id, member_id)
                moved += last.get(tp, process) != process
                last[tp] = process
    return moved


def _sentence(first: DealingWay, moved: int, changes: int, replays: Sequence[ReplayedAssignor]) -> str:
    told = f"{count(changes, 'change')} of the group moved {count(moved, 'partition')} with {first.assignor}"
    best = min(replays, key=lambda one: (one.moved, one.pause_to_s))
    how = f"{best.assignor} of the consumer protocol" if best.protocol == "consumer" else best.assignor
    if best.moved < moved:
        return f"{told}; {how} would have moved {best.moved or 'none'}"
    own = next((one for one in replays if (one.assignor, one.protocol == "consumer") == first), None)
    if own is not None and best.pause_to_s < own.pause_to_s:
        return f"{told}; none would have moved fewer, and {how} would have paused less"
    return f"{told}; no other assignor would have moved fewer"


def _notes(own: int | None, moved: int, generations: Sequence[RecordedGeneration]) -> tuple[str, ...]:
    notes = ["all members read all topics that the group was dealt, and offer each assignor"]
    if own is None:
        notes.append("the assignor of that time is none that kohort knows")
    elif own != moved:
        notes.append(f"with the assignor of that time the replay moves {own}, and {moved} were moved: take it roughly")
    if len({generation.way for generation in generations}) > 1:
        notes.append("the group changed its assignor or its protocol meanwhile")
    return tuple(notes)
