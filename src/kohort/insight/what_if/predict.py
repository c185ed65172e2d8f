"""Prediction of a what-if: the steps of a scenario are applied to a snapshot. Also: assumptions and risks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kohort.errors import UsageError
from kohort.insight.findings.model import MoveFinding
from kohort.insight.findings.what_if import MemberLoadFinding, WhatIfFinding
from kohort.insight.snapshot import GroupSnapshot
from kohort.insight.what_if.assigning import AssignorChoice, ReadTopics, check_assignor, is_cooperative
from kohort.insight.what_if.draining import FlowRates, drain_of
from kohort.insight.what_if.scenario import Assumptions, Scenario, WhatIfMember, pause_assumptions, pause_of_loss
from kohort.insight.what_if.steps import (
    DEFAULT_SERVER_ASSIGNOR,
    RESTARTED,
    AssignorChange,
    GroupSimulation,
    owners_among,
    present_members,
    steps_of,
)
from kohort.model import TopicPartition

Racks = Mapping[TopicPartition, frozenset[str]]


class ClusterFacts(NamedTuple):
    """Racks of replicas, and produce and consume rates."""

    racks: Racks = {}
    rates: Callable[[Mapping[str, int]], FlowRates | None] | None = None


def what_if(
    snapshot: GroupSnapshot,
    scenario: Scenario,
    assume: Assumptions | None = None,
    cluster: ClusterFacts = ClusterFacts(),  # noqa: B008 - it cannot be changed
) -> WhatIfFinding:
    """Predict assignments, pauses and lag of a group after a scenario; the group itself is not changed.

    Raises UsageError for missing members, topics or assignors, and for a group without members.
    """
    assume = assume or Assumptions()
    before = present_members(snapshot, all_static=scenario.all_static)
    if not before:
        raise UsageError(f"group {snapshot.group!r} has no members: no assignment can change")
    change = _assignor_change(snapshot, scenario)
    mode = "consumer" if change.then.server_side else "cooperative" if is_cooperative(change.then) else "eager"
    topics = ReadTopics(_counts(snapshot, scenario), snapshot.topic_ids, cluster.racks)
    course = GroupSimulation(before, topics, assume)
    course.run(steps_of(scenario, before, change))
    by_id = {m.member_id: m for m in before}
    for member_id, how in scenario.kill:
        static = by_id[member_id].instance_id is not None
        course.pause(by_id[member_id].owned, pause_of_loss(how, assume, static=static))
    least, most = (sum(column) for column in zip(*course.pauses.values(), strict=True)) if course.pauses else (0, 0)
    after = _by_first_ids(course.members, scenario)
    lags = _lags(snapshot, topics)
    rates = cluster.rates(topics.counts) if cluster.rates is not None else None
    assumed = _assumptions_of(
        snapshot, scenario, assume, change=change, static=[m.instance_id is not None for m in before]
    )
    found = WhatIfFinding(
        group=snapshot.group,
        scenario=words_of(scenario),
        protocol="consumer" if change.then.server_side else "classic",
        assignor=change.then.assignor,
        members_before=len(before),
        members_after=len(after),
        partitions=sum(topics.counts.get(topic, 0) for topic in {topic for m in after for topic in m.topics}),
        rounds=course.rounds,
        moves=_moves(owners_among(before), owners_among(after)),
        moves_in_all=course.moves_in_all,
        pause_from_s=least / 1000,
        pause_to_s=most / 1000,
        loads=_loads(before, after, lags),
        idle=tuple(m.member_id for m in after if not m.owned),
        assumptions=(*pause_assumptions(mode, assume), *assumed, *([] if rates is None else [rates.words])),
        drain=None if rates is None else drain_of(after, lags, course.pauses, rates),
        notes=(),
    )
    return replace(found, notes=notes_of(snapshot, scenario, found, assume))


def _assignor_change(snapshot: GroupSnapshot, scenario: Scenario) -> AssignorChange:
    is_consumer = snapshot.protocol == "consumer"
    becomes_consumer = is_consumer or scenario.to_consumer
    now = snapshot.assignor or (DEFAULT_SERVER_ASSIGNOR if is_consumer else None)
    then = scenario.assignor or (DEFAULT_SERVER_ASSIGNOR if becomes_consumer and not is_consumer else now)
    if then is None:
        raise UsageError(f"the assignor of group {snapshot.group!r} is unknown: set it with --assignor")
    change = AssignorChange(AssignorChoice(now or then, is_consumer), AssignorChoice(then, becomes_consumer))
    check_assignor(change.then)
    if now is not None:
        check_assignor(change.now)
    elif change.converts:  # the group's present assignor is unknown: assume the assignor after the scenario
        change = AssignorChange(change.then, change.then)
    return change


def _by_first_ids(members: Iterable[WhatIfMember], scenario: Scenario) -> list[WhatIfMember]:
    first = {new_ids: member_id for member_id, new_ids in scenario.new_ids.items()}
    mark = RESTARTED if scenario.rolling_restart else ""
    return [replace(m, member_id=first.get(m.member_id, m.member_id.removesuffix(mark))) for m in members]


def _counts(snapshot: GroupSnapshot, scenario: Scenario) -> dict[str, int]:
    counts = dict(snapshot.partition_counts)
    for topic, count in scenario.partitions.items():
        if topic not in counts:
            raise UsageError(f"group {snapshot.group!r} does not read topic {topic!r}")
        if count < counts[topic]:
            raise UsageError(f"topic {topic!r} has {counts[topic]} partitions: Kafka cannot reduce the number")
        counts[topic] = count
    return counts


def _assumptions_of(
    snapshot: GroupSnapshot, scenario: Scenario, assume: Assumptions, *, change: AssignorChange, static: list[bool]
) -> list[str]:
    further = []
    if scenario.kill:
        further.append(
            f"session.timeout.ms is {assume.session_timeout_ms}, max.poll.interval.ms is {assume.max_poll_interval_ms}"
        )
    if scenario.newcomers:
        further.append(
            "new members read the same topics as most members; their ids are invented, and affect the assignment"
        )
        together = "new members join in one rebalance"
        further.append("new members join one after the other" if change.then.server_side else together)
    if scenario.rolling_restart:
        further += _assumptions_of_restart(assume, change, static)
    elif scenario.assignor is not None or change.converts:
        further.append("members keep their ids and partitions, although the change needs restarts")
    if change.then.server_side and not set(snapshot.partition_counts) <= set(snapshot.topic_ids):
        further.append("topic ids, which affect the assignment, are unknown")
    return further


def _assumptions_of_restart(assume: Assumptions, change: AssignorChange, static: list[bool]) -> list[str]:
    away = f"{assume.restart_from_ms / 1000:g} to {assume.restart_to_ms / 1000:g} s"
    further = []
    if any(static):
        further.append(f"each process with a group.instance.id is away for {away}, and keeps its partitions")
    if not all(static):
        further.append(
            f"each other member closes, and rejoins after the group has settled; a single member is away for {away}"
        )
    if change.converts:
        further.append("the first member that rejoins with the consumer protocol converts the group")
    elif change.now != change.then and change.then.server_side:
        further.append("each member rejoins with the new assignor; the group uses the assignor of most members")
    elif change.now != change.then:
        further.append(
            "each member rejoins with both assignors; the group uses the new one as soon as all members offer it"
        )
    return further


def _moves(before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]) -> tuple[MoveFinding, ...]:
    return tuple(
        MoveFinding(topic=tp.topic, partition=tp.partition, before=before.get(tp), after=after.get(tp))
        for tp in sorted({*before, *after})
        if before.get(tp) != after.get(tp)
    )


def _lags(snapshot: GroupSnapshot, topics: ReadTopics) -> dict[TopicPartition, int | None]:
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


def words_of(scenario: Scenario) -> str:
    words = []
    if scenario.newcomers:
        words.append(f"add {len(scenario.newcomers)}")
    words += [f"remove {member_id}" for member_id in scenario.remove]
    words += [f"kill {member_id} ({how})" for member_id, how in scenario.kill]
    if scenario.to_consumer:
        words.append("to the consumer protocol")
    if scenario.assignor is not None:
        words.append(f"assignor {scenario.assignor}")
    words += [f"{topic} with {count} partitions" for topic, count in scenario.partitions.items()]
    if scenario.rolling_restart:
        words.append("rolling restart, all static" if scenario.all_static else "rolling restart")
    return ", ".join(words) or "another rebalance"


def notes_of(snapshot: GroupSnapshot, scenario: Scenario, found: WhatIfFinding, assume: Assumptions) -> tuple[str, ...]:
    """Return the risks of a scenario: idle members, values missing in the snapshot, side effects."""
    notes = []
    if found.members_after > found.partitions:
        notes.append(f"the group uses at most {found.partitions} members: it has {found.partitions} partitions")
    if not found.members_after:
        notes.append("no member would remain")
    if snapshot.state != "Stable":
        notes.append(f"the group is {snapshot.state}: its assignment may change before the scenario")
    if scenario.partitions:
        notes.append("with more partitions, record keys map to other partitions")
    static = {m.member_id for m in snapshot.members if m.instance_id is not None}
    if scenario.rolling_restart:
        notes += _notes_of_restart(snapshot, scenario, found, assume, static)
    if any(how == "close" and member_id in static for member_id, how in scenario.kill):
        notes.append(
            "a static member that closes does not leave: its partitions have no consumer until the session timeout"
        )
    if any(m.regex and m.matched is None for m in snapshot.members):
        notes.append("the topics of a member's subscription pattern are unknown")
    return tuple(notes)


def _notes_of_restart(
    snapshot: GroupSnapshot, scenario: Scenario, found: WhatIfFinding, assume: Assumptions, static: set[str]
) -> list[str]:
    notes = []
    dynamic = len(snapshot.members) - len(static)
    if scenario.all_static and dynamic:
        notes.append(f"only {len(static)} of {len(snapshot.members)} members have a group.instance.id now")
    elif dynamic and found.moves_in_all:
        notes.append(
            "to avoid moves, give each member a group.instance.id, and restart within the session timeout (--static)"
        )
    if (static or scenario.all_static) and assume.restart_to_ms >= assume.session_timeout_ms:
        notes.append("a member that is away for longer than the session timeout expires, and its partitions move")
    return notes
