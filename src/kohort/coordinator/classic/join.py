"""JoinGroup (11) v0-9: KIP-62, KIP-345, KIP-394, KIP-559, KIP-800, KIP-814.

The order of the checks: protocol/groups.md#joingroup.

Deviations from Kafka: if a member sends a second JoinGroup while the first one awaits its response, the first one gets
REBALANCE_IN_PROGRESS; in Kafka it gets no response. A rejoining static member counts as a member of a full group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kohort.clock import uuid_text
from kohort.config import BrokerConfig
from kohort.coordinator.classic.evidence import change_of, note_fenced
from kohort.coordinator.classic.group import ClassicGroup, ClassicGroups, generation_of
from kohort.coordinator.classic.member import NEW_MEMBER_TIMEOUT_MS, Member, Protocols
from kohort.coordinator.classic.rebalance import (
    RemovalRequest,
    joined,
    keep_session,
    maybe_close_round,
    members_for_leader,
    note_arrival,
    open_round,
    remove_member,
)
from kohort.coordinator.classic.round import Round, refuse_join, refuse_sync
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.context import Context
from kohort.coordinator.journal import Change, StaticReplaced, Trigger, TriggerEvent
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply, SetTimer, TimerKey
from kohort.coordinator.records import GroupWritten
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_classic import JoinGroupRequest, JoinGroupResponse

FIRST_WITH_SKIPPED_ASSIGNMENT = 9
FIRST_WITH_REQUIRED_ID = 4
"""First JoinGroup version in which a new dynamic member must join again with an assigned member id (KIP-394)."""
PROTOCOLS_MAX = 10_000
"""Maximum number of protocols in a JoinGroup. It limits the time for one request; Kafka has no such limit."""
LATE_MS = 500
"""Minimum time in ms from the start of a rebalance to a late JoinGroup. Its journal entry has session data."""
METADATA_MAX_BYTES = 16 << 20
"""Maximum bytes of a member's metadata or of the leader's assignments. A larger ``message.max.bytes`` replaces it."""


class NamedMetadata(Protocol):
    """Protocol name and metadata of a member, in a JoinGroup or in a GroupMetadata record."""

    @property
    def name(self) -> str: ...

    @property
    def metadata(self) -> bytes: ...


def protocols_of(offered: Iterable[NamedMetadata]) -> Protocols:
    """Return a member's protocols in its order of preference. If a name is repeated, keep its first metadata.

    Else one member would count as two supporters of this name, and the vote could select a protocol that not all
    members support.
    """
    by_name: dict[str, bytes] = {}
    for protocol in offered:
        by_name.setdefault(protocol.name, bytes(protocol.metadata))  # the codec may return a bytearray
    return tuple(by_name.items())


def rebalance_timeout_of(request: GroupRequest, message: JoinGroupRequest) -> int:
    """Return the rebalance timeout of a JoinGroup in ms. JoinGroup v0 lacks it: return the session timeout."""
    return message.rebalance_timeout_ms if request.api_version >= 1 else message.session_timeout_ms


def update_member(rebalance: Round, member: Member, request: GroupRequest, protocols: Protocols) -> None:
    message = request.message_as(JoinGroupRequest)
    rebalance.set_protocols(member, protocols)
    member.session_timeout_ms = message.session_timeout_ms
    member.rebalance_timeout_ms = rebalance_timeout_of(request, message)


def replace_static_member(
    group: ClassicGroup, request: GroupRequest, old_id: str, member_id: str, ctx: Context, out: Outcome
) -> None:
    """Give a rejoining static member a new member id. Refuse waiting requests with its old id (FENCED_INSTANCE_ID)."""
    message = request.message_as(JoinGroupRequest)
    rebalance = group.round
    member = rebalance.members[old_id]
    _fence_parked(group, member, out)
    protocols = protocols_of(message.protocols)
    change = change_of(rebalance, member, protocols, ctx)
    out.timers.append(CancelTimer(TimerKey("session", group.group_id, old_id)))
    rebalance.rename(member, member_id)
    update_member(rebalance, member, request, protocols)
    member.client_id, member.client_host = request.client_id, request.client_host
    member.note_request(request.connection, ctx.now_ms)
    keep_session(group, member, ctx, out)

    if rebalance.state is GroupState.STABLE and rebalance.vote() == rebalance.protocol_name:
        _keep_generation(group, member, old_id, request, ctx, out)
        return
    rebalance.park_join(member, request)
    if rebalance.state is GroupState.PREPARING_REBALANCE:
        note_arrival(group, ctx, out, member)
        maybe_close_round(group, ctx, out)
    else:
        open_round(group, ctx, out, join_trigger("static_replaced", member, request, change), arrived=member)


def _fence_parked(group: ClassicGroup, member: Member, out: Outcome) -> None:
    joining, syncing, member.sync = group.round.take_join(member), member.sync, None
    if joining is not None:
        out.replies.append(refuse_join(joining, ErrorCode.FENCED_INSTANCE_ID, member.member_id))
    if syncing is not None:
        out.replies.append(refuse_sync(syncing, ErrorCode.FENCED_INSTANCE_ID))


def _keep_generation(
    group: ClassicGroup, member: Member, old_id: str, request: GroupRequest, ctx: Context, out: Outcome
) -> None:
    """Answer a rejoining static member whose JoinGroup does not change the generation; persist its new member id."""
    rebalance = group.round
    skips = request.api_version >= FIRST_WITH_SKIPPED_ASSIGNMENT
    leads = rebalance.leader == member.member_id
    out.records.append(GroupWritten(group.group_id, generation_of(rebalance)))
    replaced = StaticReplaced(
        at_ms=ctx.now_ms, group=group.group_id, member=member.identity, old_member_id=old_id, software=request.software
    )
    out.journal.append(replaced)
    response = JoinGroupResponse(
        generation_id=rebalance.generation_id,
        protocol_type=rebalance.protocol_type,
        protocol_name=rebalance.protocol_name,
        # A static leader that rejoins must not compute an assignment. v9 has skip_assignment for this; before v9, the
        # response names the leader's previous member id, so the member takes itself for a follower.
        leader=old_id if leads and not skips else rebalance.leader or "",
        skip_assignment=leads and skips,
        member_id=member.member_id,
        members=members_for_leader(rebalance) if leads and skips else [],
    )
    out.replies.append(Reply(request, response))


def check_join_request(request: GroupRequest, config: BrokerConfig) -> None:
    message = request.message_as(JoinGroupRequest)
    if not message.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    if len(message.protocols) > PROTOCOLS_MAX:
        problem = f"the member offers {len(message.protocols)} protocols: expected at most {PROTOCOLS_MAX}"
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, problem)
    most_bytes = max(config.message_max_bytes, METADATA_MAX_BYTES)
    if sum(len(protocol.metadata) for protocol in message.protocols) > most_bytes:
        problem = f"member metadata exceeds the largest record ({most_bytes} bytes)"
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, problem)
    low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not low <= message.session_timeout_ms <= high:
        problem = f"session timeout {message.session_timeout_ms} ms is not between {low} and {high}"
        raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT, problem)


def decide_join(groups: ClassicGroups, request: GroupRequest, ctx: Context) -> Outcome:
    """Answer a JoinGroup at once, or hold it until the join phase ends.

    A JoinGroup without a member id creates the group if it does not exist. As in Kafka, the new empty group remains
    even if the JoinGroup is refused.
    """
    message = request.message_as(JoinGroupRequest)
    created = message.group_id not in groups.by_id and not message.member_id
    group = groups.ensure(message.group_id, ctx.now_ms) if created else groups.check_group(message.group_id)
    out = Outcome()
    if created:
        out.records.append(GroupWritten(group.group_id, generation_of(group.round)))
    if not _has_room(group, message, ctx.config.group_max_size):
        _refuse_full_group(group, request, message, ctx, out)
        return out
    if not group.round.supports(message.protocol_type, (p.name for p in message.protocols)):
        if not created:
            problem = "the client offers no protocol that all members support"
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, problem)
        out.replies.append(refuse_join(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    elif message.member_id:
        _existing_member(group, request, message, ctx, out)
    else:
        _new_member(group, request, message, ctx, out)
    return out


def _has_room(group: ClassicGroup, message: JoinGroupRequest, max_size: int) -> bool:
    rebalance = group.round
    if rebalance.state is GroupState.EMPTY:
        return True
    member = rebalance.members.get(message.member_id or rebalance.instances.get(message.group_instance_id or "", ""))
    if rebalance.state is GroupState.PREPARING_REBALANCE:
        return (member is not None and member.join is not None) or rebalance.awaiting_join < max_size
    return member is not None or len(rebalance.members) < max_size


def _refuse_full_group(
    group: ClassicGroup, request: GroupRequest, message: JoinGroupRequest, ctx: Context, out: Outcome
) -> None:
    """Refuse a JoinGroup because the group is full. If the sender is a member, also remove it from the group."""
    out.replies.append(refuse_join(request, ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
    note_fenced(group, request, ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED), ctx, out)
    if message.member_id in group.round.members:
        remove_member(group, ctx, out, message.member_id, "group_full", RemovalRequest(None, request.api_version))
        maybe_close_round(group, ctx, out)


def _new_member(
    group: ClassicGroup, request: GroupRequest, message: JoinGroupRequest, ctx: Context, out: Outcome
) -> None:
    instance_id = message.group_instance_id
    member_id = f"{request.client_id if instance_id is None else instance_id}-{uuid_text(ctx.rng)}"
    if instance_id is not None:
        old_id = group.round.instances.get(instance_id)
        if old_id is None:
            _add_member(group, request, message, member_id, ctx, out)
        else:
            replace_static_member(group, request, old_id, member_id, ctx, out)
    elif request.api_version >= FIRST_WITH_REQUIRED_ID:
        group.round.pending_join[member_id] = ctx.now_ms
        timer = TimerKey("pending", group.group_id, member_id)
        out.timers.append(SetTimer(timer, ctx.now_ms + message.session_timeout_ms))
        out.replies.append(refuse_join(request, ErrorCode.MEMBER_ID_REQUIRED, member_id))
    else:
        _add_member(group, request, message, member_id, ctx, out)


def _existing_member(
    group: ClassicGroup, request: GroupRequest, message: JoinGroupRequest, ctx: Context, out: Outcome
) -> None:
    rebalance = group.round
    if message.member_id in rebalance.pending_join:
        if message.group_instance_id is not None:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "a static member must join without a member id, not with a pending one"
            )
        _add_member(group, request, message, message.member_id, ctx, out)
        return
    member = group.check_member(message.member_id, message.group_instance_id)
    protocols = protocols_of(message.protocols)
    preparing = rebalance.state is GroupState.PREPARING_REBALANCE
    is_late = preparing and ctx.now_ms - rebalance.opened_at_ms >= LATE_MS
    vitals = member.vitals(ctx) if is_late else None
    member.note_request(request.connection, ctx.now_ms)
    unchanged = protocols == member.protocols
    if preparing:
        update_member(rebalance, member, request, protocols)
        _park(group, member, request, out)
        note_arrival(group, ctx, out, member, vitals)
        maybe_close_round(group, ctx, out)
    elif unchanged and (rebalance.state is GroupState.COMPLETING_REBALANCE or rebalance.leader != member.member_id):
        out.replies.append(Reply(request, joined(rebalance, member)))
    else:
        change = change_of(rebalance, member, protocols, ctx)
        update_member(rebalance, member, request, protocols)
        _park(group, member, request, out)
        open_round(group, ctx, out, join_trigger("member_rejoined", member, request, change), arrived=member)


def _add_member(
    group: ClassicGroup, request: GroupRequest, message: JoinGroupRequest, member_id: str, ctx: Context, out: Outcome
) -> None:
    """Add a new member. Its session timeout is five minutes until the next generation begins."""
    rebalance = group.round
    if member_id in rebalance.pending_join:
        del rebalance.pending_join[member_id]
        out.timers.append(CancelTimer(TimerKey("pending", group.group_id, member_id)))
    member = Member(
        member_id=member_id,
        instance_id=message.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_of(request, message),
        protocols=protocols_of(message.protocols),
        expires_at_ms=ctx.now_ms + NEW_MEMBER_TIMEOUT_MS,
        last_seen_ms=ctx.now_ms,
        is_new=True,
        connection=request.connection,
    )
    if not rebalance.members:
        rebalance.protocol_type = message.protocol_type
    rebalance.add(member)
    rebalance.park_join(member, request)
    out.timers.append(SetTimer(TimerKey("session", group.group_id, member_id), member.expires_at_ms))
    if rebalance.state is GroupState.PREPARING_REBALANCE:
        rebalance.new_member_added |= rebalance.initial
        note_arrival(group, ctx, out, member)
        maybe_close_round(group, ctx, out)
    else:
        open_round(group, ctx, out, join_trigger("member_joined", member, request), arrived=member)


def _park(group: ClassicGroup, member: Member, request: GroupRequest, out: Outcome) -> None:
    older = group.round.park_join(member, request)
    if older is not None:
        out.replies.append(refuse_join(older, ErrorCode.REBALANCE_IN_PROGRESS))


def join_trigger(event: TriggerEvent, member: Member, request: GroupRequest, change: Change | None = None) -> Trigger:
    reason = request.message_as(JoinGroupRequest).reason
    return Trigger(event=event, member=member.identity, reason=reason, api_version=request.api_version, change=change)
