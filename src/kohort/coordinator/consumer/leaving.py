"""Heartbeats of those who leave (-1), and of static members that will be back (-2).

The rules: protocol/consumer-groups.md#members-and-epochs.
"""

from __future__ import annotations

from kohort.coordinator.consumer.arrival import check_static
from kohort.coordinator.consumer.assignment import NOTHING, Current, Held, value_of
from kohort.coordinator.consumer.fencing import remove_member
from kohort.coordinator.consumer.finding import check_consumer_group
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.timers import revocation_timer
from kohort.coordinator.consumer_records import CurrentWritten
from kohort.coordinator.context import Context
from kohort.coordinator.journal import StaticAway
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply
from kohort.wire.messages.group_consumer import (
    JOINING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def decide_departure(groups: ConsumerGroups, request: GroupRequest, ctx: Context) -> Outcome:
    """Take a member out, or keep its place. Raises GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    group = check_consumer_group(groups, message.group_id)
    if message.instance_id is None:
        member = group.check_member(message.member_id)
    else:
        member = check_static(group, message.instance_id, message.member_id)
    out = Outcome(round_changed=False)
    if message.member_epoch == LEAVING_FOR_A_WHILE_EPOCH:
        _keep_place(group, member, ctx, out)
    else:
        remove_member(group, member, "member_left", ctx, out)
        ctx.remembered.leavers.add(request.connection, group.group_id, member.who, ctx.now_ms)
    response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=message.member_epoch)
    out.replies.append(Reply(request, response))
    return out


def _keep_place(group: ModernGroup, member: ConsumerMember, ctx: Context, out: Outcome) -> None:
    """Let a static member go for a while. What it was yet to revoke it has let go of, for it is gone; its session goes
    on."""
    current = member.current
    away = Current(
        LEAVING_FOR_A_WHILE_EPOCH, current.previous_epoch, current.state, _from_the_start(current.assigned), NOTHING
    )
    out.records.append(CurrentWritten(group.group_id, member.member_id, value_of(away)))
    out.timers.append(CancelTimer(revocation_timer(group.group_id, member.member_id)))
    let_go = ((topic, p, epoch) for topic, of in current.pending.items() for p, epoch in of.items())
    group.soft.note_released(let_go, ctx.now_ms)
    out.journal.append(StaticAway(at_ms=ctx.now_ms, group=group.group_id, who=member.who))


def _from_the_start(assigned: Held) -> Held:
    """Epochs of 0: whoever comes back has had them all along."""
    return {topic: dict.fromkeys(partitions, JOINING_EPOCH) for topic, partitions in assigned.items()}
