"""ConsumerGroupHeartbeat (68) v0-1: decides on the member's metadata, the group epoch and the next assignment.

The rules: protocol/consumer-groups.md#heartbeats, protocol/consumer-groups.md#group-epoch. A decision only computes
values; the replay of its records changes the group. ``evidence.py`` builds the journal entries.
"""

from __future__ import annotations

from functools import partial

from kohort.clock import random_uuid
from kohort.coordinator.consumer.evidence import note_member, note_reconciled, target_computed
from kohort.coordinator.consumer.fencing import tombstones_of_member
from kohort.coordinator.consumer.group import ComputedTarget, ConsumerGroups, ModernGroup
from kohort.coordinator.consumer.group_epoch import RaisedEpoch, epoch_record, raised_epoch, settings_of
from kohort.coordinator.consumer.member import Arrival, Beat, ConsumerMember, beat_of
from kohort.coordinator.consumer.reconcile import (
    NEW_MEMBER,
    NO_TARGET,
    AssignedPartitions,
    CurrentAssignment,
    OwnedPartitions,
    ReconciliationState,
    ReconciliationTarget,
    Target,
    reconciled,
    target_value_of,
    value_of,
)
from kohort.coordinator.consumer.resolving import refresh_timers
from kohort.coordinator.consumer.sessions import (
    await_revocation,
    begin_sessions_of,
    cancel_member_timers,
    renew_session,
)
from kohort.coordinator.consumer.subscription import check_regex, is_full, updated_metadata
from kohort.coordinator.consumer.target import (
    HeartbeatSender,
    begin_in_steps,
    compute_target,
    is_target_due,
    target_epoch_record,
)
from kohort.coordinator.context import Context
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply, TimerKey, TimerKind
from kohort.coordinator.records import CurrentWritten, MemberWritten, RegexResolved, TargetWritten
from kohort.errors import ApiError, ErrorCode
from kohort.model import uuid_to_text
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata
from kohort.wire.messages.group_consumer import (
    JOINING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)


def decide_consumer_heartbeat(
    groups: ConsumerGroups, group: ModernGroup, request: GroupRequest, ctx: Context
) -> Outcome:
    """Answer a heartbeat: add its sender to the group, or reconcile the sender's assignment.

    Raises ApiError with Kafka's message.
    """
    message = request.message_as(ConsumerGroupHeartbeatRequest)
    out = Outcome(round_changed=False)
    owned = _owned_partitions(message)
    arrival = find_sender(group, message, owned, ctx)
    metadata = updated_metadata(arrival.metadata, request)
    check_regex(group, arrival.metadata, metadata)
    current = advance(group, beat_of(arrival, metadata, owned, request), ctx, out)
    if arrival.metadata is None or arrival.replaces is not None:
        out.then = partial(_begin_session, groups, arrival.member_id, request, ctx)
    else:
        now = ConsumerMember(arrival.member_id, metadata, current)
        out.timers += renew_session(group, now, request.connection, ctx)
        out.timers += refresh_timers(group, metadata, request, ctx)
    is_complete = message.member_epoch == JOINING_EPOCH or is_full(message)
    should_journal = is_complete or not _same_places(arrival.current.assigned, current.assigned)
    interval_ms = settings_of(group.group_id, ctx).heartbeat_interval_ms
    assigned = current.assigned if should_journal else None
    out.replies.append(Reply(request, _answer(arrival.member_id, current.epoch, interval_ms, assigned)))
    return out


def _begin_session(groups: ConsumerGroups, member_id: str, request: GroupRequest, ctx: Context) -> Outcome:
    message = request.message_as(ConsumerGroupHeartbeatRequest)
    out = begin_sessions_of(groups, message.group_id, member_id, request.connection, ctx)
    group = groups.consumer[message.group_id]
    out.timers += refresh_timers(group, group.members[member_id].metadata, request, ctx)
    return out


def find_sender(
    group: ModernGroup, message: ConsumerGroupHeartbeatRequest, owned: OwnedPartitions | None, ctx: Context
) -> Arrival:
    """Return the sender of a ConsumerGroupHeartbeat, with its persisted state. The epoch is 0 or more.

    Raises GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID.
    """
    check_room(group, message.member_id, message.instance_id, ctx)
    if message.member_epoch != JOINING_EPOCH:
        member = group.check_member(message.member_id, message.instance_id)
        check_epoch(member, message.member_epoch, owned)
        return arrival_of(group, member)
    member_id = message.member_id or uuid_to_text(random_uuid(ctx.rng))
    static_member = group.static_member(message.instance_id)
    if static_member is not None:
        _check_released(static_member, member_id)
    return joining(group, member_id, static_member)


def arrival_of(group: ModernGroup, member: ConsumerMember) -> Arrival:
    return Arrival(member.member_id, member.metadata, member.current, group.targets.get(member.member_id))


def joining(group: ModernGroup, member_id: str, static_member: ConsumerMember | None) -> Arrival:
    """Return the sender of a join, with its persisted state if it is already a member.

    A client that replaces a static member gets the state of that member.
    """
    if static_member is not None:
        current = static_member.current._replace(epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
        return Arrival(member_id, static_member.metadata, current, group.target(static_member.member_id), static_member)
    member = group.members.get(member_id)
    return Arrival(member_id, None, NEW_MEMBER, None) if member is None else arrival_of(group, member)


def check_room(group: ModernGroup, member_id: str, instance_id: str | None, ctx: Context) -> None:
    """Raise GROUP_MAX_SIZE_REACHED if the group is full and the joining client is not one of its members."""
    most = ctx.config.group_consumer_max_size
    if len(group.members) >= most and not (member_id in group.members or instance_id in group.instances):
        problem = f"The consumer group has reached its maximum capacity of {most} members."
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, problem)


def check_epoch(member: ConsumerMember, epoch: int, owned: OwnedPartitions | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the member may send this epoch.

    A member may send its current epoch. If the response with this epoch was lost, it may send its previous epoch.
    """
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


def _is_among(owned: OwnedPartitions | None, assigned: AssignedPartitions) -> bool:
    if owned is None:
        return False
    return all(topic in assigned and assigned[topic].keys() >= set(of) for topic, of in owned.items())


def _check_released(static_member: ConsumerMember, member_id: str) -> None:
    if static_member.epoch != LEAVING_FOR_A_WHILE_EPOCH and not static_member.is_classic:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {static_member.instance_id} cannot join the group because the "
            f"instance id is owned by {static_member.member_id} member.",
        )


def advance(
    group: ModernGroup, beat: Beat, ctx: Context, out: Outcome, *, becomes_classic: bool = False
) -> CurrentAssignment:
    """Update metadata, group epoch and target assignment after a heartbeat; return the member's next assignment.

    ``becomes_classic``: compute no target assignment. If one is due, the member keeps its current assignment.
    """
    if beat.arrival.replaces is not None:
        _take_place(group, beat.arrival, beat.arrival.replaces, out)
    raised = _update_subscription(group, beat, ctx, out)
    computed, current, reconciliation = None, beat.arrival.current, None
    is_behind = raised is not None or group.epoch > group.target_epoch
    if not becomes_classic:
        computed = _compute_target(group, beat, group.epoch if raised is None else raised.epoch, ctx, out)
    if not (becomes_classic and is_behind):
        reconciliation = _reconciliation(group, beat, computed, ctx)
        current = _reconcile(group, beat, reconciliation, ctx, out)
    note_member(group, beat, raised, ctx, out)
    if computed is not None:
        out.journal.append(target_computed(group, computed, ctx))
    before = beat.arrival.current
    if reconciliation is not None and current is not before:
        out.journal.append(note_reconciled(group, beat.member, before, current, reconciliation, ctx))
    return current


def _take_place(group: ModernGroup, arrival: Arrival, old: ConsumerMember, out: Outcome) -> None:
    assert arrival.metadata is not None
    group_id, member_id = group.group_id, arrival.member_id
    out.timers += cancel_member_timers(group_id, old.member_id)
    out.records += tombstones_of_member(group_id, old.member_id)
    out.records += [
        MemberWritten(group_id, member_id, arrival.metadata),
        TargetWritten(group_id, member_id, target_value_of(group.target(old.member_id))),
        CurrentWritten(group_id, member_id, value_of(arrival.current)),
    ]


def _update_subscription(group: ModernGroup, beat: Beat, ctx: Context, out: Outcome) -> RaisedEpoch | None:
    before, metadata, member_id = beat.arrival.metadata, beat.metadata, beat.arrival.member_id
    if metadata is not before:
        out.records.append(MemberWritten(group.group_id, member_id, metadata))
        if before is not None:
            out.records += _unused_regex(group, before, metadata)
            if before.classic_member_metadata is not None:
                kinds: tuple[TimerKind, ...] = ("rejoin", "resync")
                out.timers += [CancelTimer(TimerKey(kind, group.group_id, member_id)) for kind in kinds]
    raised = raised_epoch(group, before, metadata, beat.member, ctx)
    if raised is not None:
        out.records.append(epoch_record(group.group_id, raised.epoch, raised.metadata_hash))
    return raised


def _unused_regex(group: ModernGroup, before: ConsumerMetadata, metadata: ConsumerMetadata) -> list[RegexResolved]:
    regex = before.subscribed_topic_regex or ""
    is_last_user = regex != metadata.subscribed_topic_regex and group.regex_users[regex] <= 1
    return [RegexResolved(group.group_id, regex, None)] if is_last_user and regex in group.regexes else []


def _compute_target(group: ModernGroup, beat: Beat, epoch: int, ctx: Context, out: Outcome) -> ComputedTarget | None:
    if not is_target_due(group, epoch, ctx):
        return None
    pending = group.volatile.pending_target
    if pending is not None:
        if pending.error is not None:
            group.volatile.pending_target = None
            raise pending.error
        return None
    arrival = beat.arrival
    replaces = None if arrival.replaces is None else arrival.replaces.member_id
    sender = HeartbeatSender(arrival.member_id, beat.metadata, arrival.target or NO_TARGET, replaces)
    computed = compute_target(group, epoch, sender, ctx)
    if computed is None:
        begin_in_steps(group, ctx, out)
        return None
    for member_id in computed.changed:
        value = target_value_of(computed.targets[member_id])
        out.records.append(TargetWritten(group.group_id, member_id, value))
    out.records.append(target_epoch_record(group, computed, ctx))
    return computed


def _reconciliation(
    group: ModernGroup, beat: Beat, computed: ComputedTarget | None, ctx: Context
) -> ReconciliationTarget | None:
    """Return the target of the member's reconciliation.

    Return None if the member has reached its target, and its subscription is unchanged.
    """
    arrival, current = beat.arrival, beat.arrival.current
    epoch = group.target_epoch if computed is None else computed.epoch
    was = arrival.metadata
    changed = was is not beat.metadata and (was is None or _subscription(was) != _subscription(beat.metadata))
    if current.state is ReconciliationState.STABLE and current.epoch == epoch and not changed:
        return None
    target: Target = arrival.target or NO_TARGET
    if computed is not None:
        target = computed.targets[arrival.member_id]
    names = group.topics_of(beat.metadata)
    ids = (ctx.topics.topic_id(name) for name in names)
    topics = frozenset(topic_id for topic_id in ids if topic_id is not None)
    return ReconciliationTarget(epoch, target, topics, changed, subscribes_to_nothing=not names)


def _reconcile(
    group: ModernGroup, beat: Beat, reconciliation: ReconciliationTarget | None, ctx: Context, out: Outcome
) -> CurrentAssignment:
    before, member_id = beat.arrival.current, beat.arrival.member_id
    if reconciliation is None:
        return before
    after = reconciled(before, reconciliation, beat.owned, lambda topic, p: (topic, p) not in group.owners)
    if after is not before:
        out.records.append(CurrentWritten(group.group_id, member_id, value_of(after)))
        out.timers.append(await_revocation(group.group_id, ConsumerMember(member_id, beat.metadata, after), ctx))
    return after


def _subscription(metadata: ConsumerMetadata) -> tuple[list[str], str]:
    return metadata.subscribed_topic_names, metadata.subscribed_topic_regex or ""


def refuse_consumer_heartbeat(request: GroupRequest, code: ErrorCode) -> Reply:
    return Reply(request, ConsumerGroupHeartbeatResponse(error_code=code))


def explain_refusal(reply: Reply, words: str) -> Reply:
    message = reply.message
    assert isinstance(message, ConsumerGroupHeartbeatResponse)
    return Reply(reply.request, ConsumerGroupHeartbeatResponse(error_code=message.error_code, error_message=words))


def _owned_partitions(message: ConsumerGroupHeartbeatRequest) -> OwnedPartitions | None:
    if message.topic_partitions is None:
        return None
    owned = {topic.topic_id: topic.partitions for topic in message.topic_partitions}
    if len(owned) == len(message.topic_partitions):
        return owned
    merged: dict[bytes, list[int]] = {}
    for topic in message.topic_partitions:
        merged.setdefault(topic.topic_id, []).extend(topic.partitions)
    return merged


def _same_places(one: AssignedPartitions, other: AssignedPartitions) -> bool:
    if one is other:
        return True
    return one.keys() == other.keys() and all(one[topic].keys() == other[topic].keys() for topic in one)


def _answer(
    member_id: str, epoch: int, interval_ms: int, assigned: AssignedPartitions | None
) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if assigned is not None:
        assignment = ConsumerGroupHeartbeatResponseAssignment(
            topic_partitions=[
                ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in assigned.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms, assignment=assignment
    )
