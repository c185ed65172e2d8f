"""Requests of the classic protocol to consumer groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

A consumer group answers classic members from its own state: the coordinator assigns partitions, no member is leader.
The rules: protocol/consumer-groups.md#both-protocols-in-one-group.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from kohort.clock import random_uuid
from kohort.coordinator.classic.heartbeat import decide_heartbeat
from kohort.coordinator.classic.join import FIRST_WITH_REQUIRED_ID, decide_join, protocols_of, rebalance_timeout_of
from kohort.coordinator.classic.leave import answer_leave, decide_leave, leave_entries
from kohort.coordinator.classic.round import refuse_join, refuse_sync
from kohort.coordinator.classic.sync import decide_sync
from kohort.coordinator.consumer.evidence import note_fenced_in_consumer_group
from kohort.coordinator.consumer.fencing import group_tombstones, remove_members
from kohort.coordinator.consumer.group import NO_OWNER, ModernGroup
from kohort.coordinator.consumer.heartbeat import advance, arrival_of, check_room, joining
from kohort.coordinator.consumer.member import Arrival, ConsumerMember, beat_of
from kohort.coordinator.consumer.reconcile import CurrentAssignment, ReconciliationState
from kohort.coordinator.consumer.resolving import refresh_timers
from kohort.coordinator.consumer.sessions import begin_sessions_of, renew_session, vitals_of
from kohort.coordinator.consumer.subscription import SUBSCRIBED_NAMES_MAX, UNCHANGED
from kohort.coordinator.context import Context
from kohort.coordinator.journal import EpochCause
from kohort.coordinator.migration.downgrade import downgraded_by, is_last_consumer_member
from kohort.coordinator.migration.embedded import assignment_for, may_mix, partitions_by_id
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply, SetTimer, TimerKey
from kohort.errors import ApiError, ErrorCode, ProtocolError
from kohort.model import uuid_to_text
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, Subscription, parse_subscription, topics_field
from kohort.wire.messages.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)


def decide_join_in_any_group(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Answer a JoinGroup to a group of either protocol. An empty consumer group becomes a classic group."""
    group = _consumer_group_of(groups, request)
    if group is None:
        return decide_join(groups, request, ctx)
    if group.members:
        try:
            return join_consumer_group(groups, group, request, ctx)
        except ApiError as error:
            # A consumer group omits the member id from the response to a refused JoinGroup; a classic group returns it.
            out = Outcome(replies=[refuse_join(request, error.code, "")], round_changed=False)
            note_fenced_in_consumer_group(group, request, error, ctx, out)
            return out
    out = decide_join(groups, request, ctx)
    out.records[:0] = group_tombstones(group)
    return out


def decide_sync_in_any_group(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    group = _consumer_group_of(groups, request)
    return decide_sync(groups, request, ctx) if group is None else sync_in_consumer_group(group, request, ctx)


def decide_heartbeat_in_any_group(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    group = _consumer_group_of(groups, request)
    return decide_heartbeat(groups, request, ctx) if group is None else heartbeat_in_consumer_group(group, request, ctx)


def decide_leave_in_any_group(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    group = _consumer_group_of(groups, request)
    return decide_leave(groups, request, ctx) if group is None else leave_consumer_group(group, request, ctx)


def _consumer_group_of(groups: Groups, request: GroupRequest) -> ModernGroup | None:
    return groups.consumer.get(request.message.group_id)  # type: ignore[attr-defined]  # each of these names a group


def sync_in_consumer_group(group: ModernGroup, request: GroupRequest, ctx: Context) -> Outcome:
    message = request.message_as(SyncGroupRequest)
    member, metadata = classic_member(group, message.member_id, message.group_instance_id)
    _check_generation(member, message.generation_id)
    type_differs = message.protocol_type is not None and message.protocol_type != PROTOCOL_TYPE
    if type_differs or message.protocol_name not in (None, metadata.supported_protocols[0].name):
        problem = "SyncGroup must name the protocol of the member's JoinGroup response"
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, problem)
    out = Outcome(round_changed=False)
    # A member that has partitions to revoke gets new partitions only after its next JoinGroup.
    unrevoked = member.current.state is ReconciliationState.UNREVOKED_PARTITIONS
    if group.target_epoch > member.epoch and not unrevoked:
        _await_rejoin(group, member, ctx, out)
        out.replies.append(refuse_sync(request, ErrorCode.REBALANCE_IN_PROGRESS))
        return out
    note_alive(group, member, request, ctx)
    out.timers.append(CancelTimer(TimerKey("resync", group.group_id, member.member_id)))
    assignment = assignment_for(metadata, member.current.assigned, ctx.topics)
    answer = SyncGroupResponse(
        protocol_type=message.protocol_type, protocol_name=message.protocol_name, assignment=assignment
    )
    out.replies.append(Reply(request, answer))
    return out


def heartbeat_in_consumer_group(group: ModernGroup, request: GroupRequest, ctx: Context) -> Outcome:
    """Renew the session of a classic member; return REBALANCE_IN_PROGRESS if it must rejoin."""
    message = request.message_as(HeartbeatRequest)
    member, _ = classic_member(group, message.member_id, message.group_instance_id)
    _check_generation(member, message.generation_id)
    note_alive(group, member, request, ctx)
    out = Outcome(round_changed=False)
    code = ErrorCode.NONE
    if _must_rejoin(group, member):
        code = ErrorCode.REBALANCE_IN_PROGRESS
        _await_rejoin(group, member, ctx, out)
    out.replies.append(Reply(request, HeartbeatResponse(error_code=code)))
    return out


def classic_member(
    group: ModernGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    """Return the classic member with this member id and instance id, and its classic metadata.

    Raises FENCED_INSTANCE_ID, or UNKNOWN_MEMBER_ID (also for a member that uses the consumer protocol).
    """
    member = group.check_member(member_id, instance_id)
    metadata = member.metadata.classic_member_metadata
    if metadata is None or not metadata.supported_protocols:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id!r} does not use the classic protocol")
    return member, metadata


def note_alive(group: ModernGroup, member: ConsumerMember, request: GroupRequest, ctx: Context) -> None:
    """Renew the session of a classic member, with the session timeout in its JoinGroup."""
    presence, metadata = group.presence.get(member.member_id), member.metadata.classic_member_metadata
    if presence is not None and metadata is not None:
        presence.note_request(request.connection, ctx.now_ms)
        presence.expires_at_ms = ctx.now_ms + metadata.session_timeout_ms


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if generation_id != member.epoch:
        problem = f"generation {generation_id} is not the member's generation {member.epoch}"
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, problem)


def _must_rejoin(group: ModernGroup, member: ConsumerMember) -> bool:
    """Return True if a classic member must rejoin.

    This is so if its epoch is old, if it has partitions to revoke, or if all partitions that it lacks are now unowned.
    """
    state = member.current.state
    if member.epoch < group.target_epoch or state is ReconciliationState.UNREVOKED_PARTITIONS:
        return True
    return state is ReconciliationState.UNRELEASED_PARTITIONS and not _is_awaiting_others(group, member)


def _is_awaiting_others(group: ModernGroup, member: ConsumerMember) -> bool:
    for topic_id, partitions in group.target(member.member_id).items():
        has = member.current.assigned.get(topic_id, {})
        if any(p not in has and group.owner_epoch(topic_id, p) != NO_OWNER for p in partitions):
            return True
    return False


def _await_rejoin(group: ModernGroup, member: ConsumerMember, ctx: Context, out: Outcome) -> None:
    presence = group.presence.get(member.member_id)
    if presence is not None and presence.rejoin_by_ms is None:
        presence.rejoin_by_ms = ctx.now_ms + member.metadata.rebalance_timeout_ms
        out.timers.append(SetTimer(TimerKey("rejoin", group.group_id, member.member_id), presence.rejoin_by_ms))


def join_consumer_group(groups: Groups, group: ModernGroup, request: GroupRequest, ctx: Context) -> Outcome:
    message = request.message_as(JoinGroupRequest)
    if not may_mix(ctx.config):
        problem = "members of both protocols in one group are disabled (group.consumer.migration.policy)"
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, problem)
    check_room(group, message.member_id, message.group_instance_id, ctx)
    _check_protocols(group, message)
    out = Outcome(round_changed=False)
    member_id = message.member_id or uuid_to_text(random_uuid(ctx.rng))
    is_dynamic = message.group_instance_id is None
    if is_dynamic and not message.member_id and request.api_version >= FIRST_WITH_REQUIRED_ID:
        out.replies.append(refuse_join(request, ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return out
    arrival = _find_sender(group, message, member_id)
    subscription = _subscription(message)
    metadata = _updated_metadata(arrival.metadata, request, message, subscription)
    beat = beat_of(arrival, metadata, partitions_by_id(subscription.owned_partitions, ctx.topics), request)
    static_member = group.static_member(message.group_instance_id)
    if static_member is not None and is_last_consumer_member(group, static_member, ctx):
        current = advance(
            group, beat._replace(member=replace(beat.member, classic=False)), ctx, out, becomes_classic=True
        )
        out.replies.append(_answer(request, message, member_id, current))
        return downgraded_by(groups, group, static_member, out, ctx)
    current = advance(group, beat, ctx, out)
    if arrival.metadata is None or arrival.replaces is not None:
        out.then = partial(begin_sessions_of, groups, group.group_id, member_id, request.connection, ctx)
    else:
        group.presence[member_id].rejoin_by_ms = None
        out.timers += renew_session(group, ConsumerMember(member_id, metadata, current), request.connection, ctx)
    out.timers += refresh_timers(group, metadata, request, ctx)
    out.timers.append(CancelTimer(TimerKey("rejoin", group.group_id, member_id)))
    sync_by_ms = ctx.now_ms + max(0, rebalance_timeout_of(request, message))
    out.timers.append(SetTimer(TimerKey("resync", group.group_id, member_id), sync_by_ms))
    out.replies.append(_answer(request, message, member_id, current))
    return out


def _answer(request: GroupRequest, message: JoinGroupRequest, member_id: str, current: CurrentAssignment) -> Reply:
    name = message.protocols[0].name
    answer = JoinGroupResponse(
        generation_id=current.epoch, protocol_type=PROTOCOL_TYPE, protocol_name=name, member_id=member_id
    )
    return Reply(request, answer)


def _check_protocols(group: ModernGroup, message: JoinGroupRequest) -> None:
    is_common = any(group.classic_protocols[p.name] == group.classic_members for p in message.protocols)
    if message.protocol_type != PROTOCOL_TYPE or not is_common:
        problem = "the client offers no protocol that all classic members support"
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, problem)


def _subscription(message: JoinGroupRequest) -> Subscription:
    metadata = bytes(message.protocols[0].metadata)
    count, _ = topics_field(metadata)
    if count > SUBSCRIBED_NAMES_MAX:
        problem = f"the member subscribes to {count} topics: expected at most {SUBSCRIBED_NAMES_MAX}"
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, problem)
    try:
        return parse_subscription(metadata)
    except ProtocolError as error:
        problem = f"malformed embedded consumer protocol: {error}"
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, problem) from error


def _find_sender(group: ModernGroup, message: JoinGroupRequest, member_id: str) -> Arrival:
    instance_id = message.group_instance_id
    if instance_id is not None and message.member_id:
        return arrival_of(group, group.check_member(member_id, instance_id))
    return joining(group, member_id, group.static_member(instance_id))


def _updated_metadata(
    before: ConsumerMetadata | None, request: GroupRequest, message: JoinGroupRequest, subscription: Subscription
) -> ConsumerMetadata:
    was, timeout_ms = before or ConsumerMetadata(), rebalance_timeout_of(request, message)
    protocols = [ClassicProtocol(name=name, metadata=blob) for name, blob in protocols_of(message.protocols)]
    metadata = ConsumerMetadata(
        instance_id=was.instance_id if message.group_instance_id is None else message.group_instance_id,
        rack_id=subscription.rack_id or was.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=sorted(set(subscription.topics)),
        subscribed_topic_regex="",
        rebalance_timeout_ms=was.rebalance_timeout_ms if timeout_ms == UNCHANGED else timeout_ms,
        server_assignor=was.server_assignor,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=message.session_timeout_ms, supported_protocols=protocols
        ),
    )
    return before if before is not None and metadata == before else metadata


def leave_consumer_group(group: ModernGroup, request: GroupRequest, ctx: Context) -> Outcome:
    out = Outcome(round_changed=False)
    removed: dict[str, ConsumerMember] = {}

    def remove(entry: MemberIdentity) -> None:
        instance_id = entry.group_instance_id
        member_id = entry.member_id or ("" if instance_id is None else group.instances.get(instance_id, ""))
        removed[member_id] = group.check_member(member_id, instance_id)

    answer = answer_leave(request, remove)
    if removed:
        members = list(removed.values())
        remove_members(group, members, _cause(group, members, request, ctx), ctx, out)
    out.replies.append(answer)
    return out


def _cause(group: ModernGroup, removed: list[ConsumerMember], request: GroupRequest, ctx: Context) -> EpochCause:
    first, entries = removed[0], leave_entries(request)
    by_itself = any(entry.member_id for entry in entries) and request.client_id == first.metadata.client_id
    if by_itself:
        ctx.evidence.departed.add(request.connection, group.group_id, first.identity, ctx.now_ms)
    return EpochCause(
        event="member_left",
        member=first.identity,
        others=tuple(member.identity for member in removed[1:]),
        vitals=vitals_of(group, first, ctx),
        reason=next((entry.reason for entry in entries if entry.reason), None),
        by=None if by_itself else request.sender,
    )
