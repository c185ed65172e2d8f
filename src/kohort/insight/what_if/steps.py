"""Steps of a scenario, one rebalance each, and the course of a group through them: assignments and pauses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from kohort.assignors.server.iteration import in_group_order
from kohort.errors import UsageError
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot
from kohort.insight.what_if.dealing import DealingWay, ReadTopics, is_cooperative, settle
from kohort.insight.what_if.scenario import (
    Assumptions,
    PauseRange,
    Scenario,
    WhatIfMember,
    pause_of_absence,
    pause_of_step,
)
from kohort.model import TopicPartition

DEFAULT_SERVER_ASSIGNOR: Final = "uniform"
AGAIN: Final = " (again)"
"""Suffix of the id of a restarted member with unknown new id."""


class GroupStep(NamedTuple):
    """One rebalance: departing and joining members, and the assignor.

    ``away``: keeps its partitions during a restart; ``restarts``: departed members return with the next step;
    ``deals``: False without a new assignment.
    """

    way: DealingWay
    gone: frozenset[str] = frozenset()
    come: tuple[WhatIfMember, ...] = ()
    away: str | None = None
    deals: bool = True
    restarts: bool = False


class WayChange(NamedTuple):
    """The present and the future assignor."""

    now: DealingWay
    then: DealingWay

    @property
    def converts(self) -> bool:
        return self.then.modern and not self.now.modern


def present_members(snapshot: GroupSnapshot, *, all_static: bool = False) -> list[WhatIfMember]:
    members = [_member(member) for member in snapshot.members]
    if all_static:
        members = [replace(m, instance_id=m.instance_id or m.member_id) for m in members]
    return members


def _member(member: MemberSnapshot) -> WhatIfMember:
    owned = member.assignment if member.target is None else member.target
    read = {*member.topics, *(member.matched or ())}
    if member.matched is None and (member.regex or not member.topics):
        read |= {tp.topic for tp in owned}
    return WhatIfMember(
        member_id=member.member_id,
        client_id=member.client_id,
        instance_id=member.instance_id,
        topics=tuple(sorted(read)),
        names=member.topics if member.regex else tuple(sorted(read)),
        regex=member.regex or None,
        owned=owned,
        rack=member.rack,
    )


def steps_of(scenario: Scenario, members: list[WhatIfMember], change: WayChange) -> list[GroupStep]:
    """Return the steps: all at once in a classic group, one by one in a consumer group.

    Raises UsageError for members that are not in the group, and for newcomers that are.
    """
    if scenario.rolling_restart:
        return list(_rolling(scenario, members, change))
    gone = [*scenario.remove, *(member_id for member_id, _ in scenario.kill)]
    known = {member.member_id for member in members}
    for member_id in gone:
        if member_id not in known:
            raise UsageError(f"member {member_id!r} is not in the group")
    come = _newcomers(scenario, members)
    way = change.then
    if not way.modern:
        return [GroupStep(way, frozenset(gone), tuple(come))]
    one_by_one = [GroupStep(way, gone=frozenset({m})) for m in gone] + [GroupStep(way, come=(m,)) for m in come]
    if scenario.partitions or scenario.assignor is not None or change.converts or not one_by_one:
        one_by_one.insert(0, GroupStep(way))
    return one_by_one


def _rolling(scenario: Scenario, members: Sequence[WhatIfMember], change: WayChange) -> Iterator[GroupStep]:
    """Yield the restart of each member. A dynamic member leaves, and joins after the others have settled; a static
    one is away, and the group rebalances only if its return changes the assignor."""
    if scenario.partitions:
        yield GroupStep(change.now)
    eager = change.now != change.then and not change.then.modern
    eager = eager and not (is_cooperative(change.now) and is_cooperative(change.then))
    before = change.now
    for number, member in enumerate(members):
        back = replace(
            member,
            member_id=scenario.again.get(member.member_id, f"{member.member_id}{AGAIN}"),
            eager=eager,
            is_new=True,
        )
        without, after = _ways(change, number, len(members))
        gone = frozenset({member.member_id})
        if member.instance_id is not None:
            forgot = after != before and not after.modern  # its process is new, though its place is not
            yield GroupStep(after, gone, (replace(back, is_new=forgot),), away=member.member_id, deals=after != before)
        else:
            yield GroupStep(without, gone, restarts=True)
            yield GroupStep(after, come=(replace(back, owned=()),))
        before = after


def _ways(change: WayChange, number: int, count: int) -> tuple[DealingWay, DealingWay]:
    """Return the assignors while a member is away and after its return; earlier members have changed already.

    A classic group takes an assignor that all members offer: the new one once no member offers only the old. A consumer
    with the new protocol converts the group at once (KIP-848). Of server-side assignors, the most named one counts.
    """
    if change.converts:
        return (change.then if number else change.now), change.then
    last = number == count - 1
    if not change.then.modern:
        return (change.then if last and count > 1 else change.now), (change.then if last else change.now)
    if change.now.assignor == DEFAULT_SERVER_ASSIGNOR:  # nobody has named it, most likely
        return (change.then if number else change.now), change.then
    rest = count - 1 - number
    return _most_named(change, number, rest), _most_named(change, number + 1, rest)


def _most_named(change: WayChange, then: int, now: int) -> DealingWay:
    """Return the assignor that most members name; in a tie, the first in Kafka's table."""
    if then == now:
        first, _ = in_group_order((change.now.assignor, change.then.assignor))
        return change.now if first == change.now.assignor else change.then
    return change.then if then > now else change.now


def _newcomers(scenario: Scenario, members: list[WhatIfMember]) -> list[WhatIfMember]:
    if not scenario.newcomers:
        return []
    if not members:
        raise UsageError("the group has no members, so what newcomers would read is not known")
    taken = {m.member_id for m in members} | {m.instance_id for m in members if m.instance_id is not None}
    (topics, names, regex), _ = Counter((m.topics, m.names, m.regex) for m in members).most_common(1)[0]
    found = []
    for member_id, instance_id in scenario.newcomers:
        if member_id in taken or instance_id in taken:
            raise UsageError(f"newcomer {instance_id or member_id!r} is in the group already")
        found.append(
            WhatIfMember(
                member_id=member_id, instance_id=instance_id, topics=topics, names=names, regex=regex, is_new=True
            )
        )
    return found


@dataclass(slots=True)
class GroupCourse:
    """A group during a scenario: members, moves so far, and pauses of partitions."""

    members: list[WhatIfMember]
    topics: ReadTopics
    assume: Assumptions
    rounds: int = 0
    moves_in_all: int = 0
    pauses: dict[TopicPartition, PauseRange] = field(default_factory=dict)

    def run(self, steps: Iterable[GroupStep]) -> None:
        for step in steps:
            owned = owners_among(self.members)
            if step.away is not None:
                away = next(m for m in self.members if m.member_id == step.away)
                self.pause(away.owned, pause_of_absence(self.assume))
                self._replace(step)
            if step.deals:
                self._deal(step)
            if step.restarts and not self.members:  # no other member takes over
                self.pause(owned, pause_of_absence(self.assume))

    def pause(self, partitions: Iterable[TopicPartition], by: PauseRange) -> None:
        for tp in partitions:
            self.pauses[tp] = self.pauses.get(tp, PauseRange()).plus(by)

    def _replace(self, step: GroupStep) -> None:
        (back,) = step.come
        self.members = [_in_place_of(m, back) if m.member_id == step.away else m for m in self.members]

    def _deal(self, step: GroupStep) -> None:
        was = owners_among(self.members)
        stay = self.members
        if step.away is None:
            stay = [m for m in self.members if m.member_id not in step.gone] + list(step.come)
        settled = settle(stay, step.way, self.topics)
        has = owners_among(settled.members)
        moved = [tp for tp, owner in was.items() if has.get(tp) != owner]
        self.members = settled.members
        self.rounds += settled.rounds
        self.moves_in_all += len(moved)
        manner = "consumer" if step.way.modern else "cooperative" if is_cooperative(step.way) else "eager"
        if manner == "cooperative" and any(member.eager for member in stay):
            manner = "eager"
        self.pause(was if manner == "eager" else moved, pause_of_step(manner, self.assume))


def _in_place_of(before: WhatIfMember, back: WhatIfMember) -> WhatIfMember:
    return replace(back, owned=before.owned)


def owners_among(members: Sequence[WhatIfMember]) -> dict[TopicPartition, str]:
    return {tp: member.member_id for member in members for tp in member.owned}
