"""SyncGroup and Heartbeat of members of the classic protocol in a modern group, from what is written of them.

The rules: protocol/consumer-groups.md#both-protocols-in-one-group.
"""

from __future__ import annotations

from kohort.coordinator.classic.parked_requests import refuse_sync
from kohort.coordinator.consumer.assignment import ReconciliationState
from kohort.coordinator.consumer.group import NO_OWNER, ModernGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.timers import rejoin_timer, resync_timer
from kohort.coordinator.context import Context
from kohort.coordinator.migration.embedded import assignment_for
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply, SetTimer
from kohort.errors import ApiError, ErrorCode
from kohort.wire.consumer_protocol import PROTOCOL_TYPE
from kohort.wire.messages.consumer_group_records import ClassicMemberMetadata
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


def sync_in_modern(group: ModernGroup, request: GroupRequest, ctx: Context) -> Outcome:
    """Answer a SyncGroup at once with what the member is assigned."""
    message = request.message
    assert isinstance(message, SyncGroupRequest)
    member, said = classic_member(group, message.member_id, message.group_instance_id)
    _check_generation(member, message.generation_id)
    type_differs = message.protocol_type is not None and message.protocol_type != PROTOCOL_TYPE
    if type_differs or message.protocol_name not in (None, said.supported_protocols[0].name):
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "not the protocol that the member was told when it joined"
        )
    out = Outcome(round_changed=False)
    # Whoever has something to revoke has joined again already; what else is to be done comes with its next join.
    unrevoked = member.current.state is ReconciliationState.UNREVOKED_PARTITIONS
    if group.target_epoch > member.epoch and not unrevoked:
        _await_rejoin(group, member, ctx, out)
        out.replies.append(refuse_sync(request, ErrorCode.REBALANCE_IN_PROGRESS))
        return out
    note_alive(group, member, request, ctx)
    out.timers.append(CancelTimer(resync_timer(group.group_id, member.member_id)))
    assignment = assignment_for(said, member.current.assigned, ctx.topics)
    answer = SyncGroupResponse(
        protocol_type=message.protocol_type, protocol_name=message.protocol_name, assignment=assignment
    )
    out.replies.append(Reply(request, answer))
    return out


def heartbeat_in_modern(group: ModernGroup, request: GroupRequest, ctx: Context) -> Outcome:
    """Renew the session, and tell the member whether it has to join again to come on."""
    message = request.message
    assert isinstance(message, HeartbeatRequest)
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
    """Return the member that a request of the classic protocol speaks for, and what it said in that protocol.

    Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID; for a member of the new protocol UNKNOWN_MEMBER_ID, too.
    """
    if instance_id is not None:
        owner = group.instances.get(instance_id)
        if owner is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id!r}")
        if owner != member_id:
            raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"{instance_id!r} is {owner} now")
    member = group.check_member(member_id)
    said = member.said.classic_member_metadata
    if said is None or not said.supported_protocols:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} does not speak the classic protocol")
    return member, said


def note_alive(group: ModernGroup, member: ConsumerMember, request: GroupRequest, ctx: Context) -> None:
    """Renew the session of a member of the classic protocol: it is as long as the member asked for."""
    presence, said = group.presence.get(member.member_id), member.said.classic_member_metadata
    if presence is not None and said is not None:
        presence.saw(request.connection, ctx.now_ms)
        presence.expires_at_ms = ctx.now_ms + said.session_timeout_ms


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if generation_id != member.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"{generation_id}; the member is at {member.epoch}")


def _must_rejoin(group: ModernGroup, member: ConsumerMember) -> bool:
    """Tell whether a member is behind, has something to give up, or can have what it waits for."""
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
    """Give the member its rebalance timeout to join again, from the first time that it was told to."""
    presence = group.presence.get(member.member_id)
    if presence is not None and presence.rejoin_by_ms is None:
        presence.rejoin_by_ms = ctx.now_ms + member.said.rebalance_timeout_ms
        out.timers.append(SetTimer(rejoin_timer(group.group_id, member.member_id), presence.rejoin_by_ms))
