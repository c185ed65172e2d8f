"""LeaveGroup to a modern group: members of either protocol, by member id or by instance id, go with one epoch."""

from __future__ import annotations

from kohort.coordinator.consumer.arrival import check_static
from kohort.coordinator.consumer.fencing import remove_members
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.sessions import vitals_of
from kohort.coordinator.context import Context
from kohort.coordinator.journal import EpochCause
from kohort.coordinator.outcome import GroupRequest, Outcome, Reply
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_classic import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

FIRST_WITH_BATCH = 3


def leave_modern(group: ModernGroup, request: GroupRequest, ctx: Context) -> Outcome:
    """Answer every entry for itself, and take out whom they name."""
    message = request.message
    assert isinstance(message, LeaveGroupRequest)
    batch = request.api_version >= FIRST_WITH_BATCH
    entries = message.members if batch else [MemberIdentity(member_id=message.member_id)]
    out = Outcome(round_changed=False)
    gone: dict[str, ConsumerMember] = {}
    results = []
    for entry in entries:
        code = ErrorCode.NONE
        try:
            member = _named(group, entry)
            gone[member.member_id] = member
        except ApiError as error:
            code = error.code
        results.append(
            MemberResponse(member_id=entry.member_id, group_instance_id=entry.group_instance_id, error_code=code)
        )
    if gone:
        remove_members(group, list(gone.values()), _cause(group, list(gone.values()), entries, request, ctx), ctx, out)
    answer = LeaveGroupResponse(members=results) if batch else LeaveGroupResponse(error_code=results[0].error_code)
    out.replies.append(Reply(request, answer))
    return out


def _named(group: ModernGroup, entry: MemberIdentity) -> ConsumerMember:
    """Return whom an entry names. An administrator names an instance id alone. Raises UNKNOWN_MEMBER_ID or
    FENCED_INSTANCE_ID."""
    instance_id = entry.group_instance_id
    if instance_id is None:
        return group.check_member(entry.member_id)
    return check_static(group, instance_id, entry.member_id or group.instances.get(instance_id, ""))


def _cause(
    group: ModernGroup,
    gone: list[ConsumerMember],
    entries: list[MemberIdentity],
    request: GroupRequest,
    ctx: Context,
) -> EpochCause:
    first = gone[0]
    by_itself = any(entry.member_id for entry in entries) and request.client_id == first.said.client_id
    if by_itself:
        ctx.remembered.leavers.add(request.connection, group.group_id, first.who, ctx.now_ms)
    reason = next((entry.reason for entry in entries if entry.reason), None)
    return EpochCause(
        event="member_left",
        who=first.who,
        others=tuple(member.who for member in gone[1:]),
        vitals=vitals_of(group, first, ctx),
        reason=reason,
        by=None if by_itself else request.sender,
    )
