"""Conversion of a classic group to a consumer group. It is persisted, so it survives a failover.

The rules: protocol/consumer-groups.md#both-protocols-in-one-group.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kohort.assignors.server.iteration import in_group_order, in_member_order
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.rebalance import cancel_timers
from kohort.coordinator.classic.round import refuse_parked
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.consumer.fencing import decide_departure
from kohort.coordinator.consumer.group import ModernGroup, check_consumer_group
from kohort.coordinator.consumer.heartbeat import decide_consumer_heartbeat
from kohort.coordinator.consumer.member import ConsumerPresence, identity_of
from kohort.coordinator.consumer.reconcile import (
    CurrentAssignment,
    ReconciliationState,
    Target,
    target_value_of,
    value_of,
)
from kohort.coordinator.consumer.replaying import replay_consumer_group
from kohort.coordinator.consumer.subscribed_topics import hash_of_topics
from kohort.coordinator.consumer.subscription import SUBSCRIBED_NAMES_MAX
from kohort.coordinator.context import Context
from kohort.coordinator.journal import ClientIdentity, GroupConverted
from kohort.coordinator.migration.embedded import may_upgrade, partitions_by_id
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import GroupRequest, Outcome, SetTimer, TimerKey, TopicsView
from kohort.coordinator.records import (
    ConsumerGroupRecord,
    CurrentWritten,
    EpochWritten,
    GroupWritten,
    MemberWritten,
    TargetEpochWritten,
    TargetWritten,
)
from kohort.errors import ApiError, ErrorCode, ProtocolError
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, parse_assignment, parse_subscription, topics_field
from kohort.wire.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata
from kohort.wire.messages.group_consumer import JOINING_EPOCH, ConsumerGroupHeartbeatRequest


def upgrade(group: ClassicGroup, request: GroupRequest, ctx: Context, out: Outcome) -> ModernGroup:
    """Convert a classic group with members to a consumer group; add the records of the conversion to ``out``.

    Members keep their partitions. ``group`` itself does not change. Raises GROUP_ID_NOT_FOUND with the reason.
    """
    _check(group, ctx)
    rebalance = group.round
    try:
        in_order = in_member_order(rebalance.members)
        protocol = rebalance.protocol_name
        members = [_Converted(rebalance.members[member_id], protocol, ctx.topics) for member_id in in_order]
    except ProtocolError as error:
        raise _refused(group, "the embedded consumer protocol is malformed.") from error
    if any(member.user_data for member in members):
        raise _refused(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    upgraded = ModernGroup(group.group_id)
    topics = {name for member in members for name in member.metadata.subscribed_topic_names}
    metadata_hash = hash_of_topics(topics, ctx.topics)
    for record in _records_of(group.group_id, rebalance.generation_id, members, metadata_hash):
        replay_consumer_group(upgraded, record)
    upgraded.volatile.converted_amid_rebalance = rebalance.state is not GroupState.STABLE
    by_id = {member.member_id: member for member in members}
    kept = [by_id[member_id] for member_id in in_group_order(in_order)]
    out.records.append(GroupWritten(group.group_id, None))
    out.records += _records_of(group.group_id, rebalance.generation_id, kept, metadata_hash)
    for member in rebalance.members.values():
        expires_at_ms = ctx.now_ms + member.session_timeout_ms
        upgraded.presence[member.member_id] = ConsumerPresence(
            expires_at_ms=expires_at_ms,
            last_seen_ms=member.last_seen_ms,
            connection=member.connection,
            longest_gap_ms=member.longest_gap_ms,
            commits=member.commits,
            last_progress_ms=member.last_progress_ms,
        )
        out.timers.append(SetTimer(TimerKey("member_session", group.group_id, member.member_id), expires_at_ms))
    converted = GroupConverted(
        at_ms=ctx.now_ms,
        group=group.group_id,
        to="consumer",
        epoch=rebalance.generation_id,
        members=tuple(identity_of(member.member_id, member.metadata) for member in members),
        by=ClientIdentity(
            request.message_as(ConsumerGroupHeartbeatRequest).member_id, request.client_id, request.client_host
        ),
    )
    out.journal.append(converted)
    return upgraded


def _check(group: ClassicGroup, ctx: Context) -> None:
    if not may_upgrade(ctx.config):
        raise _refused(group, "online upgrade is disabled.")
    if group.round.protocol_type != PROTOCOL_TYPE:
        raise _refused(group, "the group does not use the consumer embedded protocol.")
    protocol = group.round.protocol_name
    most = max(topics_field(m.metadata_of(protocol) or m.protocols[0][1])[0] for m in group.round.members.values())
    if most > SUBSCRIBED_NAMES_MAX:
        raise _refused(group, f"a member subscribes to {most} topics; at most {SUBSCRIBED_NAMES_MAX} are accepted.")
    if len(group.round.members) > ctx.config.group_consumer_max_size:
        raise _refused(group, "the group size exceeds the consumer group maximum size.")


def _refused(group: ClassicGroup, why: str) -> ApiError:
    problem = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, problem)


class _Converted:
    """Classic member, converted to a member of a consumer group. Raises ProtocolError for unreadable metadata."""

    def __init__(self, member: Member, protocol: str | None, topics: TopicsView) -> None:
        subscription = parse_subscription(member.metadata_of(protocol) or member.protocols[0][1])
        assignment = parse_assignment(member.assignment)
        self.member_id = member.member_id
        self.user_data = bool(assignment.user_data)
        self.target: Target = partitions_by_id(assignment.partitions, topics)
        self.metadata = ConsumerMetadata(
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(set(subscription.topics)),
            subscribed_topic_regex="",
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=member.session_timeout_ms,
                supported_protocols=[ClassicProtocol(name=name, metadata=blob) for name, blob in member.protocols],
            ),
        )


def _records_of(group_id: str, epoch: int, members: list[_Converted], metadata_hash: int) -> list[ConsumerGroupRecord]:
    records: list[ConsumerGroupRecord] = [MemberWritten(group_id, m.member_id, m.metadata) for m in members]
    records.append(EpochWritten(group_id, ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)))
    records += [TargetWritten(group_id, m.member_id, target_value_of(m.target)) for m in members]
    records.append(TargetEpochWritten(group_id, ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)))
    for m in members:
        held = {topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in m.target.items()}
        current = CurrentAssignment(epoch, epoch, ReconciliationState.STABLE, held)
        records.append(CurrentWritten(group_id, m.member_id, value_of(current)))
    return records


def decide_heartbeat_or_upgrade(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Answer a ConsumerGroupHeartbeat; a join to a classic group first converts the group. Raises ApiError."""
    message = request.message_as(ConsumerGroupHeartbeatRequest)
    group_id = message.group_id
    if message.member_epoch < JOINING_EPOCH:
        return decide_departure(groups, request, ctx)
    group, classic = groups.consumer.get(group_id), groups.by_id.get(group_id)
    if group is not None:
        return decide_consumer_heartbeat(groups, group, request, ctx)
    if message.member_epoch != JOINING_EPOCH:
        if classic is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        check_consumer_group(groups, group_id)
    if classic is None:
        new_group = ModernGroup(group_id)
        decided = decide_consumer_heartbeat(groups, new_group, request, ctx)
        return replace(decided, then=partial(_restore_volatile, groups, new_group, decided))
    return _convert_and_decide(groups, classic, request, ctx)


def _convert_and_decide(groups: Groups, classic: ClassicGroup, request: GroupRequest, ctx: Context) -> Outcome:
    converted = Outcome(round_changed=False)
    if classic.round.members:
        group = upgrade(classic, request, ctx, converted)
    else:
        group = ModernGroup(classic.group_id)
        if classic.persisted is not None:
            converted.records.append(GroupWritten(classic.group_id, None))
    decided = decide_consumer_heartbeat(groups, group, request, ctx)
    # Now the conversion cannot fail: refuse the waiting JoinGroups and SyncGroups of the classic group.
    refuse_parked(classic.round.members.values(), ErrorCode.REBALANCE_IN_PROGRESS, converted)
    cancel_timers(classic, converted)
    classic.round.pending_join.clear()
    return Outcome(
        records=[*converted.records, *decided.records],
        replies=[*converted.replies, *decided.replies],
        timers=[*converted.timers, *decided.timers],
        journal=[*converted.journal, *decided.journal],
        then=partial(_restore_volatile, groups, group, decided),
    )


def _restore_volatile(groups: Groups, was: ModernGroup, decided: Outcome) -> Outcome:
    group = groups.consumer[was.group_id]
    group.presence.update((m, presence) for m, presence in was.presence.items() if m in group.members)
    group.volatile = was.volatile
    if group.volatile.topics is not None:
        # Check all topics again: the replaced static member may have been the last subscriber of a topic.
        group.volatile.topics.changed.update(group.subscribed_names(), group.volatile.topics.found)
    return Outcome(round_changed=False) if decided.then is None else decided.then()
