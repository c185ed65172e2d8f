"""The prediction: a scenario applied to a snapshot, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kohort.errors import UsageError
from kohort.insight.findings.model import MoveFinding
from kohort.insight.findings.what_if import MemberLoadFinding, WhatIfFinding
from kohort.insight.snapshot import GroupSnapshot
from kohort.insight.what_if.dealing import ReadTopics, SettledGroup, classic_assignor, settle_classic, settle_modern
from kohort.insight.what_if.notes import notes_of, words_of
from kohort.insight.what_if.pausing import (
    PauseRange,
    pause_of_absence,
    pause_of_loss,
    pause_of_step,
    told_assumptions,
)
from kohort.insight.what_if.scenario import Assumptions, Scenario, WhatIfMember
from kohort.insight.what_if.steps import MembersChange, present_members, steps_of
from kohort.model import TopicPartition


@dataclass(slots=True)
class _Course:
    members: list[WhatIfMember]
    rounds: int = 0
    moves_in_all: int = 0
    pause: PauseRange = field(default_factory=PauseRange)


def what_if(snapshot: GroupSnapshot, scenario: Scenario, assume: Assumptions | None = None) -> WhatIfFinding:
    """Return what the group would do. Nothing is executed.

    Raises UsageError for members, topics or assignors that are not there, and for a group without members.
    """
    assume = assume or Assumptions()
    before = present_members(snapshot)
    if not before:
        raise UsageError(f"group {snapshot.group!r} has no members: nothing is assigned, so nothing can change")
    modern = scenario.to_consumer or snapshot.protocol == "consumer"
    assignor = _assignor(snapshot, scenario, modern=modern)
    manner = "consumer" if modern else "cooperative" if classic_assignor(assignor).cooperative else "eager"
    topics = ReadTopics(_counts(snapshot, scenario), snapshot.topic_ids)
    course = _Course(before)
    if scenario.rolling_restart == "static":
        course.pause = pause_of_absence(sum(len(m.owned) for m in before), assume)
    else:
        for step in steps_of(scenario, before, modern=modern):
            owned = sum(len(m.owned) for m in course.members)
            _take(course, step, topics, (assignor, manner), assume)
            if scenario.rolling_restart and not course.members:  # nobody takes over from the only member
                course.pause = course.pause.plus(pause_of_absence(owned, assume))
        course.pause = course.pause.plus(_losses(scenario, before, assume))
    lags = _lags(snapshot, topics)
    return WhatIfFinding(
        group=snapshot.group,
        scenario=words_of(scenario),
        protocol="consumer" if modern else "classic",
        assignor=assignor,
        members_before=len(before),
        members_after=len(course.members),
        partitions=_read_partitions(course.members, topics),
        rounds=course.rounds,
        moves=_moves(_owners(before), _owners(course.members)),
        moves_in_all=course.moves_in_all,
        pause_from_s=course.pause.least / 1000,
        pause_to_s=course.pause.most / 1000,
        loads=_loads(before, course.members, lags),
        idle=tuple(m.member_id for m in course.members if not m.owned),
        notes=notes_of(snapshot, scenario, len(course.members), _read_partitions(course.members, topics)),
        assumptions=(*told_assumptions(manner, assume), *_further(snapshot, scenario, assume, modern=modern)),
    )


def _assignor(snapshot: GroupSnapshot, scenario: Scenario, *, modern: bool) -> str:
    if scenario.assignor is not None:
        return scenario.assignor
    if scenario.to_consumer and snapshot.protocol == "classic":
        return "uniform"
    if not snapshot.assignor:
        if modern:
            return "uniform"
        raise UsageError(f"the assignor of group {snapshot.group!r} is not known: name one")
    return snapshot.assignor


def _counts(snapshot: GroupSnapshot, scenario: Scenario) -> dict[str, int]:
    counts = dict(snapshot.partition_counts)
    for topic, count in scenario.partitions.items():
        if topic not in counts:
            raise UsageError(f"group {snapshot.group!r} does not read topic {topic!r}")
        if count < counts[topic]:
            raise UsageError(f"topic {topic!r} has {counts[topic]} partitions; Kafka cannot take any away")
        counts[topic] = count
    return counts


def _take(course: _Course, step: MembersChange, topics: ReadTopics, way: tuple[str, str], assume: Assumptions) -> None:
    """Let the group settle after one step, and add up what that costs."""
    assignor, manner = way
    was = _owners(course.members)
    stay = [m for m in course.members if m.member_id not in step.gone] + list(step.come)
    settled = SettledGroup([], 0)
    if stay:
        deal_modern = manner == "consumer"
        settled = (
            settle_modern(stay, assignor, topics)
            if deal_modern
            else settle_classic(stay, classic_assignor(assignor), topics)
        )
    has = _owners(settled.members)
    moved = sum(1 for tp, owner in was.items() if has.get(tp) != owner)
    course.members = settled.members
    course.rounds += settled.rounds
    course.moves_in_all += moved
    course.pause = course.pause.plus(pause_of_step(manner, len(was), moved, assume))


def _losses(scenario: Scenario, before: Iterable[WhatIfMember], assume: Assumptions) -> PauseRange:
    by_id = {m.member_id: m for m in before}
    pause = PauseRange()
    for member_id, how in scenario.kill:
        member = by_id[member_id]
        static = member.instance_id is not None
        pause = pause.plus(pause_of_loss(how, len(member.owned), assume, static=static))
    return pause


def _further(snapshot: GroupSnapshot, scenario: Scenario, assume: Assumptions, *, modern: bool) -> list[str]:
    told = []
    if scenario.kill:
        told.append(
            f"session.timeout.ms is {assume.session_timeout_ms}, max.poll.interval.ms is {assume.max_poll_interval_ms}"
        )
    if scenario.newcomers:
        told.append(
            "newcomers read what most members read; their ids are made up, and who has one more can depend on them"
        )
        told.append("newcomers come one after the other" if modern else "newcomers come together, in one rebalance")
    if scenario.rolling_restart == "static":
        told.append(
            f"each process is away for {assume.restart_from_ms / 1000:g} to {assume.restart_to_ms / 1000:g} s, "
            "and all have a group.instance.id"
        )
    if scenario.rolling_restart == "dynamic":
        told.append(
            "each member closes, and is back after the others have settled; an only member is away for "
            f"{assume.restart_from_ms / 1000:g} to {assume.restart_to_ms / 1000:g} s"
        )
    if scenario.assignor is not None or scenario.to_consumer:
        told.append("members keep their ids and what they own, as if the change took no restarts")
    if modern and not set(snapshot.partition_counts) <= set(snapshot.topic_ids):
        told.append("the ids of topics are not known; who has one more can depend on them")
    return told


def _owners(members: Iterable[WhatIfMember]) -> dict[TopicPartition, str]:
    return {tp: member.member_id for member in members for tp in member.owned}


def _moves(before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]) -> tuple[MoveFinding, ...]:
    return tuple(
        MoveFinding(topic=tp.topic, partition=tp.partition, before=before.get(tp), after=after.get(tp))
        for tp in sorted({*before, *after})
        if before.get(tp) != after.get(tp)
    )


def _lags(snapshot: GroupSnapshot, topics: ReadTopics) -> dict[TopicPartition, int | None]:
    """Return the lag of each partition; of those that are not there yet it is 0."""
    new = {
        TopicPartition(topic, n): 0
        for topic, count in topics.counts.items()
        for n in range(snapshot.partition_counts.get(topic, count), count)
    }
    known = {
        p.partition: None if p.committed is None or p.log_end is None else max(0, p.log_end - p.committed)
        for p in snapshot.partitions
    }
    return {**new, **known}


def _loads(
    before: Iterable[WhatIfMember], after: Iterable[WhatIfMember], lags: Mapping[TopicPartition, int | None]
) -> tuple[MemberLoadFinding, ...]:
    was, has = {m.member_id: m for m in before}, {m.member_id: m for m in after}
    found = []
    for member_id in {**was, **has}:
        old, new = was.get(member_id), has.get(member_id)
        about = old or has[member_id]
        found.append(
            MemberLoadFinding(
                member_id=member_id,
                client_id=about.client_id,
                instance_id=about.instance_id,
                partitions_before=None if old is None else len(old.owned),
                partitions_after=None if new is None else len(new.owned),
                lag_before=None if old is None else _lag_of(old, lags),
                lag_after=None if new is None else _lag_of(new, lags),
            )
        )
    return tuple(found)


def _lag_of(member: WhatIfMember, lags: Mapping[TopicPartition, int | None]) -> int | None:
    total = 0
    for tp in member.owned:
        lag = lags.get(tp)
        if lag is None:
            return None
        total += lag
    return total


def _read_partitions(members: Iterable[WhatIfMember], topics: ReadTopics) -> int:
    return sum(topics.counts.get(topic, 0) for topic in {topic for m in members for topic in m.topics})
