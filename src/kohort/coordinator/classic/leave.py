"""LeaveGroup (13) v0-5. From v3 on, one request may remove several members by member id or instance id (KIP-345).

The rules: protocol/groups.md#leavegroup. The reason text in v5 is KIP-800.

Deviation from Kafka: if a member leaves while its SyncGroup awaits the response, the SyncGroup gets UNKNOWN_MEMBER_ID.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kohort.coordinator.classic.evidence import places_in
from kohort.coordinator.classic.group import ClassicGroup, ClassicGroups
from kohort.coordinator.classic.rebalance import RemovalRequest, after_removal, maybe_close_round, remove_member
from kohort.coordinator.context import Context
from kohort.coordinator.journal import ClientIdentity, MemberRemoved, Trigger, Vitals
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply, TimerKey
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_classic import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

FIRST_WITH_BATCH = 3


def leave_entries(request: GroupRequest) -> list[MemberIdentity]:
    message = request.message_as(LeaveGroupRequest)
    return message.members if request.api_version >= FIRST_WITH_BATCH else [MemberIdentity(member_id=message.member_id)]


def answer_leave(request: GroupRequest, remove: Callable[[MemberIdentity], None]) -> Reply:
    """Answer a LeaveGroup: call ``remove`` for each listed member. ``remove`` raises ApiError for an unknown member."""
    results = []
    for entry in leave_entries(request):
        code = ErrorCode.NONE
        try:
            remove(entry)
        except ApiError as error:
            code = error.code
        results.append(
            MemberResponse(member_id=entry.member_id, group_instance_id=entry.group_instance_id, error_code=code)
        )
    if request.api_version >= FIRST_WITH_BATCH:
        return Reply(request, LeaveGroupResponse(members=results))
    return Reply(request, LeaveGroupResponse(error_code=results[0].error_code))


def decide_leave(groups: ClassicGroups, request: GroupRequest, ctx: Context) -> Outcome:
    group = groups.by_id.get(request.message_as(LeaveGroupRequest).group_id)
    out = Outcome()
    removed: list[tuple[ClientIdentity, Vitals | None, str | None]] = []

    def remove(entry: MemberIdentity) -> None:
        removed.append((*_remove_named(group, entry, request, ctx, out), entry.reason))

    answer = answer_leave(request, remove)
    if group is not None and removed:
        who, vitals, reason = removed[0]
        others = tuple(other for other, _, _ in removed[1:])
        trigger = Trigger(
            event="member_left",
            member=who,
            reason=reason,
            api_version=request.api_version,
            vitals=vitals,
            others=others,
        )
        after_removal(group, ctx, out, trigger)
        if all(v is None for _, v, _ in removed):  # the LeaveGroup removed pending member ids only
            maybe_close_round(group, ctx, out, cut_delay=True)
    out.replies.append(answer)
    return out


def refuse_leave(request: GroupRequest, code: ErrorCode) -> Reply:
    return Reply(request, LeaveGroupResponse(error_code=code))


def _remove_named(
    group: ClassicGroup | None, entry: MemberIdentity, request: GroupRequest, ctx: Context, out: Outcome
) -> tuple[ClientIdentity, Vitals | None]:
    if group is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    rebalance = group.round
    if entry.member_id and entry.member_id in rebalance.pending_join:
        del rebalance.pending_join[entry.member_id]
        out.timers.append(CancelTimer(TimerKey("pending", group.group_id, entry.member_id)))
        who = ClientIdentity(entry.member_id, request.client_id, request.client_host)
        removed = MemberRemoved(
            at_ms=ctx.now_ms,
            group=group.group_id,
            member=who,
            why="pending_left",
            reason=entry.reason,
            api_version=request.api_version,
        )
        out.journal.append(removed)
        return who, None
    member_id = entry.member_id
    if not member_id and entry.group_instance_id is not None:
        member_id = rebalance.instances.get(entry.group_instance_id, "")
    member = group.check_member(member_id, entry.group_instance_id)
    by_itself = bool(entry.member_id) and request.client_id == member.client_id
    by = None if by_itself else request.sender
    if by_itself:
        ctx.evidence.departed.add(request.connection, group.group_id, member.identity, ctx.now_ms)
    vitals = replace(member.vitals(ctx), lag=ctx.lag_of(group.group_id, places_in(member.assignment)))
    remove_member(group, ctx, out, member_id, "left", RemovalRequest(entry.reason, request.api_version, by))
    return member.identity, vitals
