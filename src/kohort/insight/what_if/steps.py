"""Steps of a scenario, each with one rebalance; the simulation of the steps gives assignments and pauses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from kohort.assignors.server.iteration import in_group_order
from kohort.errors import UsageError
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot
from kohort.insight.what_if.assigning import AssignorChoice, ReadTopics, is_cooperative, settle
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
RESTARTED: Final = " (again)"
"""Suffix of the member id of a restarted member, if its new id is unknown."""


class GroupStep(NamedTuple):
    """One rebalance: leaving and joining members, and the assignor.

    ``away``: static member that keeps its partitions during its restart; ``restarts``: True if the leaving members
    return in the next step; ``reassigns``: False if no assignment changes.
    """

    choice: AssignorChoice
    leaving: frozenset[str] = frozenset()
    joining: tuple[WhatIfMember, ...] = ()
    away: str | None = None
    reassigns: bool = True
    restarts: bool = False


class AssignorChange(NamedTuple):
    """Assignor before and after a scenario."""

    now: AssignorChoice
    then: AssignorChoice

    @property
    def converts(self) -> bool:
        return self.then.server_side and not self.now.server_side


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


def steps_of(scenario: Scenario, members: list[WhatIfMember], change: AssignorChange) -> list[GroupStep]:
    """Split a scenario into rebalances: one for a classic group, otherwise one for each joining or leaving member.

    Raises UsageError if a member to remove is not in the group, or if a member to add is already in the group.
    """
    if scenario.rolling_restart:
        return list(_rolling(scenario, members, change))
    leaving = [*scenario.remove, *(member_id for member_id, _ in scenario.kill)]
    known = {member.member_id for member in members}
    for member_id in leaving:
        if member_id not in known:
            raise UsageError(f"member {member_id!r} is not in the group")
    joining = _newcomers(scenario, members)
    choice = change.then
    if not choice.server_side:
        return [GroupStep(choice, frozenset(leaving), tuple(joining))]
    one_by_one = [GroupStep(choice, leaving=frozenset({m})) for m in leaving] + [
        GroupStep(choice, joining=(m,)) for m in joining
    ]
    if scenario.partitions or scenario.assignor is not None or change.converts or not one_by_one:
        one_by_one.insert(0, GroupStep(choice))
    return one_by_one


def _rolling(scenario: Scenario, members: Sequence[WhatIfMember], change: AssignorChange) -> Iterator[GroupStep]:
    """Yield the rebalances of a rolling restart, member by member.

    A dynamic member leaves, and rejoins after the other members have got their new assignment. A static member keeps
    its partitions, and the group rebalances only if the returning member changes the assignor.
    """
    if scenario.partitions:
        yield GroupStep(change.now)
    eager = change.now != change.then and not change.then.server_side
    eager = eager and not (is_cooperative(change.now) and is_cooperative(change.then))
    before = change.now
    for number, member in enumerate(members):
        back = replace(
            member,
            member_id=scenario.new_ids.get(member.member_id, f"{member.member_id}{RESTARTED}"),
            eager=eager,
            is_new=True,
        )
        without, after = _assignor_change(change, number, len(members))
        leaving = frozenset({member.member_id})
        if member.instance_id is not None:
            # a restarted process reports no owned partitions, even if its member is static
            forgot = after != before and not after.server_side
            yield GroupStep(
                after, leaving, (replace(back, is_new=forgot),), away=member.member_id, reassigns=after != before
            )
        else:
            yield GroupStep(without, leaving, restarts=True)
            yield GroupStep(after, joining=(replace(back, owned=()),))
        before = after


def _assignor_change(change: AssignorChange, number: int, count: int) -> tuple[AssignorChoice, AssignorChoice]:
    """Return the assignor while a restarting member is absent, and the assignor after its return.

    ``number``: members that have restarted already; ``count``: all members. A classic group uses an assignor that all
    members offer: the new assignor as soon as every member offers it. The first member of the consumer protocol
    converts the group (KIP-848). A consumer group uses the server-side assignor that most members name.
    """
    if change.converts:
        return (change.then if number else change.now), change.then
    last = number == count - 1
    if not change.then.server_side:
        return (change.then if last and count > 1 else change.now), (change.then if last else change.now)
    # a member without a configured server-side assignor names none in its heartbeats
    if change.now.assignor == DEFAULT_SERVER_ASSIGNOR:
        return (change.then if number else change.now), change.then
    rest = count - 1 - number
    return _most_named(change, number, rest), _most_named(change, number + 1, rest)


def _most_named(change: AssignorChange, then: int, now: int) -> AssignorChoice:
    """Return the server-side assignor that most members name; in a tie, the first of them in Kafka's order."""
    if then == now:
        first, _ = in_group_order((change.now.assignor, change.then.assignor))
        return change.now if first == change.now.assignor else change.then
    return change.then if then > now else change.now


def _newcomers(scenario: Scenario, members: list[WhatIfMember]) -> list[WhatIfMember]:
    if not scenario.newcomers:
        return []
    if not members:
        raise UsageError("cannot add members: the group has no members, so the topics of the new members are unknown")
    taken = {m.member_id for m in members} | {m.instance_id for m in members if m.instance_id is not None}
    (topics, names, regex), _ = Counter((m.topics, m.names, m.regex) for m in members).most_common(1)[0]
    found = []
    for member_id, instance_id in scenario.newcomers:
        if member_id in taken or instance_id in taken:
            raise UsageError(f"cannot add member {instance_id or member_id!r}: it is already in the group")
        found.append(
            WhatIfMember(
                member_id=member_id, instance_id=instance_id, topics=topics, names=names, regex=regex, is_new=True
            )
        )
    return found


@dataclass(slots=True)
class GroupSimulation:
    """Group during a scenario: members, moves so far, and pauses of partitions."""

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
                (back,) = step.joining
                self.members = [replace(back, owned=away.owned) if m is away else m for m in self.members]
            if step.reassigns:
                self._reassign(step)
            # no other member takes over the partitions: they are not read until the restarted member returns
            if step.restarts and not self.members:
                self.pause(owned, pause_of_absence(self.assume))

    def pause(self, partitions: Iterable[TopicPartition], by: PauseRange) -> None:
        for tp in partitions:
            self.pauses[tp] = self.pauses.get(tp, PauseRange()).plus(by)

    def _reassign(self, step: GroupStep) -> None:
        was = owners_among(self.members)
        members = self.members
        if step.away is None:
            members = [m for m in self.members if m.member_id not in step.leaving] + list(step.joining)
        settled = settle(members, step.choice, self.topics)
        has = owners_among(settled.members)
        moved = [tp for tp, owner in was.items() if has.get(tp) != owner]
        self.members = settled.members
        self.rounds += settled.rounds
        self.moves_in_all += len(moved)
        mode = "consumer" if step.choice.server_side else "cooperative" if is_cooperative(step.choice) else "eager"
        if mode == "cooperative" and any(member.eager for member in members):
            mode = "eager"
        self.pause(was if mode == "eager" else moved, pause_of_step(mode, self.assume))


def owners_among(members: Sequence[WhatIfMember]) -> dict[TopicPartition, str]:
    return {tp: member.member_id for member in members for tp in member.owned}
