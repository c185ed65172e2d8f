"""ConsumerGroupHeartbeat (68) v0-1: who is there, what it says, the group's epoch, the target, the member's next step.

The rules: protocol/consumer-groups.md#heartbeats. Each step is computed on values, from what the one before has made;
the group changes when the records are replayed, and not before.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import msgspec

from kohort.coordinator.consumer.evidence import note_reconciled
from kohort.coordinator.consumer.fencing import tombstones_of_member
from kohort.coordinator.consumer.group import ComputedTarget, ConsumerGroups, ModernGroup
from kohort.coordinator.consumer.group_epoch import RaisedEpoch, Said, raised_epoch, settings_of
from kohort.coordinator.consumer.member import ConsumerMember, new_member_id, who_says
from kohort.coordinator.consumer.reconcile import (
    NEW_MEMBER,
    Current,
    Goal,
    Held,
    Owned,
    ReconciliationState,
    Target,
    reconciled,
    target_value_of,
    value_of,
)
from kohort.coordinator.consumer.resolving import refresh_timers
from kohort.coordinator.consumer.sessions import (
    awaits_revocation,
    begin_revocation,
    begin_sessions_of,
    forget_timers_of,
    rejoin_timer,
    renew_session,
    resync_timer,
    revocation_timer,
)
from kohort.coordinator.consumer.subscription import check_regex, is_full, said_after
from kohort.coordinator.consumer.target import (
    Newcomer,
    begin_in_steps,
    compute_target,
    is_target_due,
    note_target,
    own_target,
)
from kohort.coordinator.context import Context
from kohort.coordinator.journal import EpochRaised, StaticReplaced, Who
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply, SetTimer
from kohort.coordinator.records import (
    CurrentWritten,
    EpochWritten,
    MemberWritten,
    RegexResolved,
    TargetWritten,
)
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue
from kohort.wire.messages.group_consumer import (
    JOINING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)


class Arrival(NamedTuple):
    """Who is there, as written; what it says now comes after."""

    member_id: str
    said: ConsumerGroupMemberMetadataValue | None
    """None: a new member."""
    current: Current
    target: Target | None
    """What it is to have; None where nothing is written of that."""
    replaces: ConsumerMember | None = None
    """The static member whose place it takes, maybe under the same id."""
    software: str | None = None
    """What its client says it is, for the journal."""


def arrive(group: ModernGroup, message: ConsumerGroupHeartbeatRequest, owned: Owned | None, ctx: Context) -> Arrival:
    """Return who sends a heartbeat that is not a leave.

    Raises GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID.
    """
    check_room(group, message.member_id, message.instance_id, ctx)
    if message.member_epoch != JOINING_EPOCH:
        return arrival_of(group, _check_heartbeat(group, message, owned))
    member_id = message.member_id or new_member_id(ctx.rng)
    holder = group.holder(message.instance_id)
    if holder is not None:
        _check_released(holder, member_id)
        return replacement_of(group, holder, member_id)
    member = group.members.get(member_id)
    return Arrival(member_id, None, NEW_MEMBER, None) if member is None else arrival_of(group, member)


def with_software(arrival: Arrival, said: ConsumerGroupMemberMetadataValue, software: str | None) -> Arrival:
    """Return who is there with what its client says it is, where it says anything else that the journal may tell."""
    if software is None or (said is arrival.said and arrival.replaces is None):
        return arrival
    return arrival._replace(software=software)


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is the member's, or the one before where its answer may be lost."""
    if epoch == member.epoch:
        return
    if epoch < member.epoch and epoch == member.current.previous_epoch and _is_among(owned, member.current.assigned):
        return
    kind = "greater" if epoch > member.epoch else "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {kind} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def arrival_of(group: ModernGroup, member: ConsumerMember) -> Arrival:
    """Return a member that is there as who arrives."""
    return Arrival(member.member_id, member.said, member.current, group.targets.get(member.member_id))


def _check_heartbeat(group: ModernGroup, message: ConsumerGroupHeartbeatRequest, owned: Owned | None) -> ConsumerMember:
    if message.instance_id is None:
        member = group.check_member(message.member_id)
    else:
        member = group.check_static(message.instance_id, message.member_id)
    check_epoch(member, message.member_epoch, owned)
    return member


def check_room(group: ModernGroup, member_id: str, instance_id: str | None, ctx: Context) -> None:
    """Raise GROUP_MAX_SIZE_REACHED for who would be one too many: neither a member, nor in a static member's place."""
    most = ctx.config.group_consumer_max_size
    if len(group.members) >= most and not (member_id in group.members or instance_id in group.instances):
        problem = f"The consumer group has reached its maximum capacity of {most} members."
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, problem)


def replacement_of(group: ModernGroup, holder: ConsumerMember, member_id: str) -> Arrival:
    """Return who takes the place of ``holder`` under a new id."""
    current = holder.current._replace(epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    return Arrival(member_id, holder.said, current, group.target(holder.member_id), holder)


def _check_released(holder: ConsumerMember, member_id: str) -> None:
    if holder.epoch != LEAVING_FOR_A_WHILE_EPOCH and not holder.speaks_classic:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {holder.instance_id} cannot join the group because the "
            f"instance id is owned by {holder.member_id} member.",
        )


def _is_among(owned: Owned | None, assigned: Held) -> bool:
    if owned is None:
        return False
    return all(topic in assigned and assigned[topic].keys() >= set(of) for topic, of in owned.items())


def advance(
    group: ModernGroup, arrival: Arrival, said: Said, owned: Owned | None, ctx: Context, out: Outcome
) -> Current:
    """Return how far the member is after what it said and owns, and put the records of that into ``out``."""
    if arrival.replaces is not None:
        _take_place(group, arrival, arrival.replaces, ctx, out)
    who = who_says(arrival.member_id, said)
    raised = _say(group, arrival, said, who, ctx, out)
    computed = _compute_target(group, arrival, said, raised, ctx, out)
    return _reconcile(group, arrival, said, (computed, owned, who), ctx, out)


def advance_without_target(
    group: ModernGroup, arrival: Arrival, said: Said, owned: Owned | None, ctx: Context, out: Outcome
) -> Current:
    """Do as ``advance`` in a group that becomes a classic one: no target is computed, and the member stays where it is
    if one would be due."""
    if arrival.replaces is not None:
        _take_place(group, arrival, arrival.replaces, ctx, out)
    who = Who(arrival.member_id, said.client_id, said.client_host, said.instance_id)
    raised = _say(group, arrival, said, who, ctx, out)
    if raised is not None or group.epoch > group.target_epoch:
        return arrival.current
    return _reconcile(group, arrival, said, (None, owned, who), ctx, out)


def _take_place(group: ModernGroup, arrival: Arrival, old: ConsumerMember, ctx: Context, out: Outcome) -> None:
    """Write a static member anew under the id that it has now, with all that it had."""
    assert arrival.said is not None
    group_id, member_id = group.group_id, arrival.member_id
    out.timers += forget_timers_of(group_id, old.member_id)
    out.records += tombstones_of_member(group_id, old.member_id)
    out.records += [
        MemberWritten(group_id, member_id, arrival.said),
        TargetWritten(group_id, member_id, target_value_of(group.target(old.member_id))),
        CurrentWritten(group_id, member_id, value_of(arrival.current)),
    ]
    who = who_says(member_id, old.said)
    out.journal.append(
        StaticReplaced(
            at_ms=ctx.now_ms, group=group_id, who=who, old_member_id=old.member_id, software=arrival.software
        )
    )


def _say(group: ModernGroup, arrival: Arrival, said: Said, who: Who, ctx: Context, out: Outcome) -> RaisedEpoch | None:
    """Write what the member says that is new, and the epoch of the group that this, or a change of topics, makes."""
    before = arrival.said
    if said is not before:
        out.records.append(MemberWritten(group.group_id, arrival.member_id, said))
        if before is not None:
            out.records += _unused_regex(group, before, said)
            if before.classic_member_metadata is not None:
                timers = (rejoin_timer, resync_timer)
                out.timers += [CancelTimer(timer(group.group_id, arrival.member_id)) for timer in timers]
    raised = raised_epoch(group, before, said, who, ctx, is_new=before is None)
    if raised is not None:
        value = ConsumerGroupMetadataValue(epoch=raised.epoch, metadata_hash=raised.metadata_hash)
        out.records.append(EpochWritten(group.group_id, value))
        group.soft.epoch_raised_ms = ctx.now_ms
        members = len(group.members) + (before is None)
        cause = raised.cause
        if cause.who is not None and arrival.software is not None:
            cause = msgspec.structs.replace(cause, software=arrival.software)
        out.journal.append(
            EpochRaised(at_ms=ctx.now_ms, group=group.group_id, epoch=raised.epoch, cause=cause, members=members)
        )
    return raised


def _unused_regex(group: ModernGroup, before: Said, said: Said) -> list[RegexResolved]:
    """Returns the tombstone of an expression that this member was the last to use."""
    regex = before.subscribed_topic_regex
    if not regex or regex == said.subscribed_topic_regex or group.regex_users[regex] > 1 or regex not in group.regexes:
        return []
    return [RegexResolved(group.group_id, regex, None)]


def _compute_target(
    group: ModernGroup, arrival: Arrival, said: Said, raised: RaisedEpoch | None, ctx: Context, out: Outcome
) -> ComputedTarget | None:
    """Write a new target, if one is due."""
    epoch = group.epoch if raised is None else raised.epoch
    if not is_target_due(group, epoch, ctx):
        return None
    pending = group.soft.pending_target
    if pending is not None:
        if pending.error is not None:
            group.soft.pending_target = None
            raise pending.error
        return None
    replaces = None if arrival.replaces is None else arrival.replaces.member_id
    newcomer = Newcomer(arrival.member_id, said, own_target(None, arrival.member_id, arrival.target), replaces)
    computed = compute_target(group, epoch, newcomer, ctx)
    if computed is None:
        begin_in_steps(group, ctx, out)
        return None
    for member_id in computed.changed:
        value = target_value_of(computed.targets[member_id])
        out.records.append(TargetWritten(group.group_id, member_id, value))
    note_target(group, computed, ctx, out)
    return computed


def _reconcile(
    group: ModernGroup,
    arrival: Arrival,
    said: Said,
    known: tuple[ComputedTarget | None, Owned | None, Who],
    ctx: Context,
    out: Outcome,
) -> Current:
    """Write how much nearer the member is to what it is to have, and wait for it where it must give something up."""
    computed, owned, who = known
    target_epoch = group.target_epoch if computed is None else computed.epoch
    before = arrival.current
    changed = arrival.said is None or _subscribes_otherwise(arrival.said, said)
    if before.state is ReconciliationState.STABLE and before.epoch == target_epoch and not changed:
        return before
    target = own_target(computed, arrival.member_id, arrival.target)
    names = group.topics_of(said)
    goal = Goal(target_epoch, target, _topic_ids(names, ctx), changed, names_none=not names)
    after = reconciled(before, goal, owned, lambda topic, partition: (topic, partition) not in group.owners)
    if after is before:
        return before
    out.records.append(CurrentWritten(group.group_id, arrival.member_id, value_of(after)))
    out.timers.append(_revocation(group.group_id, ConsumerMember(arrival.member_id, said, after), ctx))
    out.journal.append(note_reconciled(group, who, before, after, (target_epoch, target), ctx))
    return after


def _subscribes_otherwise(before: Said, said: Said) -> bool:
    if before is said:
        return False
    return before.subscribed_topic_names != said.subscribed_topic_names or (
        (before.subscribed_topic_regex or "") != (said.subscribed_topic_regex or "")
    )


def _topic_ids(names: Iterable[str], ctx: Context) -> frozenset[bytes]:
    ids = (ctx.topics.topic_id(name) for name in names)
    return frozenset(topic_id for topic_id in ids if topic_id is not None)


def _revocation(group_id: str, member: ConsumerMember, ctx: Context) -> SetTimer | CancelTimer:
    if awaits_revocation(member):
        return begin_revocation(group_id, member.member_id, member.said.rebalance_timeout_ms, ctx)
    return CancelTimer(revocation_timer(group_id, member.member_id))


def decide_consumer_heartbeat(
    groups: ConsumerGroups, group: ModernGroup, request: GroupRequest, ctx: Context
) -> Outcome:
    """Take a member in, or a step further. ``group`` may be one that is there only once the records are replayed.

    Raises ApiError with Kafka's words.
    """
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    out = Outcome(round_changed=False)
    owned = _owned(message)
    arrival = arrive(group, message, owned, ctx)
    said = said_after(arrival.said, request)
    check_regex(group, arrival.said, said)
    current = advance(group, with_software(arrival, said, request.software), said, owned, ctx, out)
    if arrival.said is None or arrival.replaces is not None:
        out.then = partial(_settle_in, groups, arrival.member_id, request, ctx)
    else:
        now = ConsumerMember(arrival.member_id, said, current)
        out.timers += renew_session(group, now, request.connection, ctx)
        out.timers += refresh_timers(group, said, request, ctx)
    tells_all = message.member_epoch == JOINING_EPOCH or is_full(message)
    told = current.assigned if tells_all or not _same_places(arrival.current.assigned, current.assigned) else None
    interval_ms = settings_of(group.group_id, ctx).heartbeat_interval_ms
    out.replies.append(Reply(request, _answer(arrival.member_id, current.epoch, interval_ms, told)))
    return out


def _settle_in(groups: ConsumerGroups, member_id: str, request: GroupRequest, ctx: Context) -> Outcome:
    """Begin the session of a member that is written by now, and the search for what its expression matches."""
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    out = begin_sessions_of(groups, message.group_id, member_id, request.connection, ctx)
    group = groups.consumer[message.group_id]
    out.timers += refresh_timers(group, group.members[member_id].said, request, ctx)
    return out


def refuse_consumer_heartbeat(asked: GroupRequest, code: ErrorCode) -> Reply:
    """Answer a ConsumerGroupHeartbeat with ``code``: with no member id, epoch or interval."""
    return Reply(asked, ConsumerGroupHeartbeatResponse(error_code=code))


def explain_refusal(reply: Reply, words: str) -> Reply:
    """Put Kafka's words into a refusal."""
    message = reply.message
    assert isinstance(message, ConsumerGroupHeartbeatResponse)
    return Reply(reply.asked, ConsumerGroupHeartbeatResponse(error_code=message.error_code, error_message=words))


def _owned(message: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if message.topic_partitions is None:
        return None
    owned = {topic.topic_id: topic.partitions for topic in message.topic_partitions}
    if len(owned) == len(message.topic_partitions):
        return owned
    merged: dict[bytes, list[int]] = {}
    for topic in message.topic_partitions:
        merged.setdefault(topic.topic_id, []).extend(topic.partitions)
    return merged


def _same_places(one: Held, other: Held) -> bool:
    """Tells whether both hold the same partitions, be it since when it may."""
    return one is other or (
        one.keys() == other.keys() and all(one[topic].keys() == other[topic].keys() for topic in one)
    )


def _answer(member_id: str, epoch: int, interval_ms: int, told: Held | None) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if told is not None:
        assignment = ConsumerGroupHeartbeatResponseAssignment(
            topic_partitions=[
                ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in told.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms, assignment=assignment
    )
