"""Heartbeat (12) v0-4 of classic groups, and the timers that expire silent members.

The rules: protocol/groups.md#heartbeat, protocol/groups.md#sessions.
"""

from __future__ import annotations

from typing import Literal

from kohort.coordinator.classic.group import ClassicGroup, ClassicGroups
from kohort.coordinator.classic.rebalance import after_removal, maybe_close_round, remove_member
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.context import Context
from kohort.coordinator.journal import ClientIdentity, MemberRemoved, Trigger
from kohort.coordinator.outcome import GroupRequest, Outcome, Reply, SetTimer, TimerKey
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import HeartbeatRequest, HeartbeatResponse


def decide_heartbeat(groups: ClassicGroups, request: GroupRequest, ctx: Context) -> Outcome:
    message = request.message_as(HeartbeatRequest)
    group = groups.check_group(message.group_id)
    member = group.check_member(message.member_id, message.group_instance_id)
    group.check_generation(message.generation_id)
    member.note_request(request.connection, ctx.now_ms)
    member.renew_session(ctx.now_ms)
    preparing = group.round.state is GroupState.PREPARING_REBALANCE
    code = ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE
    return Outcome(replies=[Reply(request, HeartbeatResponse(error_code=code))])


def refuse_heartbeat(request: GroupRequest, code: ErrorCode) -> Reply:
    """Refuse a Heartbeat with ``code``.

    While the group is being loaded, report success: the member stays in the group.
    """
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.NONE
    return Reply(request, HeartbeatResponse(error_code=code))


def on_session_timer(group: ClassicGroup, member_id: str, ctx: Context) -> Outcome:
    out = Outcome()
    member = group.round.members.get(member_id)
    if member is None or member.is_excused:
        return out
    if member.expires_at_ms > ctx.now_ms:
        out.timers.append(SetTimer(TimerKey("session", group.group_id, member_id), member.expires_at_ms))
        return out
    why: Literal["new_member_expired", "session_expired"] = "new_member_expired" if member.is_new else "session_expired"
    vitals = member.vitals(ctx)
    remove_member(group, ctx, out, member_id, why)
    after_removal(group, ctx, out, Trigger(event=why, member=member.identity, vitals=vitals))
    return out


def on_pending_timer(group: ClassicGroup, member_id: str, ctx: Context) -> Outcome:
    """Drop a pending member id: no client joined with it in time.

    The rebalance stops waiting for it.
    """
    out = Outcome()
    if group.round.pending_join.pop(member_id, None) is not None:
        who = ClientIdentity(member_id)
        out.journal.append(MemberRemoved(at_ms=ctx.now_ms, group=group.group_id, member=who, why="pending_expired"))
        maybe_close_round(group, ctx, out, cut_delay=True)
    return out
