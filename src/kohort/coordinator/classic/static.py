"""A static member comes back with an empty member id (KIP-345, KIP-814): it takes its old place.

The rules: protocol/groups.md#static-members.

In a stable group whose protocol stays the same nothing else happens: the new id is written and the member goes on with
its assignment. Up to v8 the leader that comes back is told its old id as leader's, so that it does not compute an
assignment that no member waits for.
"""

from __future__ import annotations

from typing import NamedTuple

from kohort.coordinator.classic.change import change_of
from kohort.coordinator.classic.group import ClassicGroup, generation_of
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.parked_requests import refuse_join, refuse_sync
from kohort.coordinator.classic.protocols import protocols_of, update_member
from kohort.coordinator.classic.rebalance import (
    keep_session,
    maybe_close_round,
    members_for_leader,
    note_arrival,
    open_round,
)
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.classic.timers import session_timer
from kohort.coordinator.context import Context
from kohort.coordinator.journal import StaticReplaced, Trigger
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply
from kohort.coordinator.records import GroupWritten
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import JoinGroupRequest, JoinGroupResponse

FIRST_WITH_SKIPPED_ASSIGNMENT = 9


class PlaceBefore(NamedTuple):
    """The id under which a member had its place, and the group's leader then."""

    member_id: str
    leader: str


def replace_static_member(
    group: ClassicGroup, request: GroupRequest, old_id: str, member_id: str, ctx: Context, out: Outcome
) -> None:
    """Give the place of ``old_id`` to ``member_id``; whatever the old id has parked is fenced."""
    message = request.message
    assert isinstance(message, JoinGroupRequest)
    this = group.round
    old_leader = this.leader
    member = this.members[old_id]
    _fence_parked(group, member, out)
    protocols = protocols_of(message.protocols)
    change = change_of(this, member, protocols, ctx)
    out.timers.append(CancelTimer(session_timer(group.group_id, old_id)))
    this.rename(member, member_id)
    update_member(this, member, request, protocols)
    member.client_id, member.client_host = request.client_id, request.client_host
    member.saw(request.connection, ctx.now_ms)
    keep_session(group, member, ctx, out)

    if this.state is GroupState.STABLE and this.vote() == this.protocol_name:
        _go_on(group, member, PlaceBefore(old_id, old_leader or ""), request, ctx, out)
        return
    this.park_join(member, request)
    if this.state is GroupState.PREPARING_REBALANCE:
        note_arrival(group, ctx, out, member)
        maybe_close_round(group, ctx, out)
    else:
        trigger = Trigger(
            event="static_replaced",
            who=member.who,
            reason=message.reason,
            api_version=request.api_version,
            change=change,
        )
        open_round(group, ctx, out, trigger, arrived=member)


def _fence_parked(group: ClassicGroup, member: Member, out: Outcome) -> None:
    joining, syncing, member.sync = group.round.take_join(member), member.sync, None
    if joining is not None:
        out.replies.append(refuse_join(joining, ErrorCode.FENCED_INSTANCE_ID, member.member_id))
    if syncing is not None:
        out.replies.append(refuse_sync(syncing, ErrorCode.FENCED_INSTANCE_ID))


def _go_on(
    group: ClassicGroup,
    member: Member,
    before: PlaceBefore,
    request: GroupRequest,
    ctx: Context,
    out: Outcome,
) -> None:
    """Change nothing but the member's id, which is written before the member is told of it."""
    this = group.round
    skips = request.api_version >= FIRST_WITH_SKIPPED_ASSIGNMENT
    leads = skips and this.leader == member.member_id
    out.records.append(GroupWritten(group.group_id, generation_of(this)))
    out.journal.append(
        StaticReplaced(
            at_ms=ctx.now_ms,
            group=group.group_id,
            who=member.who,
            old_member_id=before.member_id,
            software=request.software,
        )
    )
    response = JoinGroupResponse(
        generation_id=this.generation_id,
        protocol_type=this.protocol_type,
        protocol_name=this.protocol_name,
        leader=(this.leader or "") if skips else before.leader,
        skip_assignment=leads,
        member_id=member.member_id,
        members=members_for_leader(this) if leads else [],
    )
    out.replies.append(Reply(request, response))
