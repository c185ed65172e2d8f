"""Removal of consumer group members that leave or expire. Static members may also leave temporarily.

The rules: protocol/consumer-groups.md#members-and-epochs, protocol/consumer-groups.md#timers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kohort.coordinator.consumer.group import ConsumerGroups, ModernGroup, check_consumer_group
from kohort.coordinator.consumer.group_epoch import epoch_record, hash_without, note_epoch
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.reconcile import NO_PARTITIONS, value_of
from kohort.coordinator.consumer.sessions import cancel_member_timers, vitals_of
from kohort.coordinator.context import Context
from kohort.coordinator.journal import EpochCause, EpochEvent, StaticAway
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply, TimerKey
from kohort.coordinator.records import (
    ConsumerGroupRecord,
    CurrentWritten,
    EpochWritten,
    MemberWritten,
    OldMetadataRemoved,
    Record,
    RegexResolved,
    TargetEpochWritten,
    TargetWritten,
)
from kohort.wire.messages.consumer_group_records import ConsumerGroupTargetAssignmentMetadataValue
from kohort.wire.messages.group_consumer import (
    JOINING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def group_tombstones(group: ModernGroup, member_ids: Collection[str] | None = None) -> list[ConsumerGroupRecord]:
    """Return the tombstones of a group's records, except its offset records. The tombstone of the group epoch is last.

    ``member_ids``: members that have records in the log; None: all members of the group.
    """
    group_id = group.group_id
    written = group.members if member_ids is None else member_ids
    records: list[ConsumerGroupRecord] = [CurrentWritten(group_id, member_id, None) for member_id in written]
    records += [TargetWritten(group_id, member_id, None) for member_id in written]
    records.append(TargetEpochWritten(group_id, None))
    records += [MemberWritten(group_id, member_id, None) for member_id in written]
    records += [RegexResolved(group_id, regex, None) for regex in group.regexes]
    return [*records, OldMetadataRemoved(group_id), EpochWritten(group_id, None)]


def tombstones_of_member(group_id: str, member_id: str) -> list[Record]:
    """Return the tombstones of a member in Kafka's order: current assignment, target assignment, metadata."""
    return [
        CurrentWritten(group_id, member_id, None),
        TargetWritten(group_id, member_id, None),
        MemberWritten(group_id, member_id, None),
    ]


def remove_members(
    group: ModernGroup, removed: Sequence[ConsumerMember], cause: EpochCause, ctx: Context, out: Outcome
) -> None:
    """Remove members from a consumer group and raise the group epoch by 1; the members' partitions become unowned."""
    group_id = group.group_id
    for member in removed:
        out.records += tombstones_of_member(group_id, member.member_id)
        out.timers += cancel_member_timers(group_id, member.member_id)
    metadata = [member.metadata for member in removed]
    users = group.regex_users.copy()
    users.subtract(value.subscribed_topic_regex for value in metadata if value.subscribed_topic_regex)
    for regex in dict.fromkeys(value.subscribed_topic_regex for value in metadata):
        if regex and not users[regex] and regex in group.regexes:
            out.records.append(RegexResolved(group_id, regex, None))
    left = len(group.members) - len(removed)
    epoch = group.epoch + 1
    out.records.append(epoch_record(group_id, epoch, hash_without(group, metadata, ctx)))
    if not left:
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
        out.records.append(TargetEpochWritten(group_id, value))
    for member in removed:
        group.volatile.note_released(member.current.partitions(), ctx.now_ms)
        group.volatile.revoking_since_ms.pop(member.member_id, None)
    if not left:
        group.volatile.released_ms.clear()
        group.volatile.topics = None
    note_epoch(group, epoch, cause, left, ctx, out)


def remove_member(group: ModernGroup, member: ConsumerMember, event: EpochEvent, ctx: Context, out: Outcome) -> None:
    cause = EpochCause(event=event, member=member.identity, vitals=vitals_of(group, member, ctx))
    remove_members(group, [member], cause, ctx, out)


def decide_departure(groups: ConsumerGroups, request: GroupRequest, ctx: Context) -> Outcome:
    """Remove a member that leaves the group. Raises GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    message = request.message_as(ConsumerGroupHeartbeatRequest)
    group = check_consumer_group(groups, message.group_id)
    member = group.check_member(message.member_id, message.instance_id)
    out = Outcome(round_changed=False)
    if message.member_epoch == LEAVING_FOR_A_WHILE_EPOCH:
        _keep_place(group, member, ctx, out)
    else:
        remove_member(group, member, "member_left", ctx, out)
        ctx.evidence.departed.add(request.connection, group.group_id, member.identity, ctx.now_ms)
    response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=message.member_epoch)
    out.replies.append(Reply(request, response))
    return out


def _keep_place(group: ModernGroup, member: ConsumerMember, ctx: Context, out: Outcome) -> None:
    """Keep a static member that left temporarily (epoch -2). Partitions that it still had to revoke become unowned."""
    current = member.current
    assigned = {topic: dict.fromkeys(partitions, JOINING_EPOCH) for topic, partitions in current.assigned.items()}
    away = current._replace(epoch=LEAVING_FOR_A_WHILE_EPOCH, assigned=assigned, pending=NO_PARTITIONS)
    out.records.append(CurrentWritten(group.group_id, member.member_id, value_of(away)))
    out.timers.append(CancelTimer(TimerKey("revocation", group.group_id, member.member_id)))
    let_go = ((topic, p, epoch) for topic, of in current.pending.items() for p, epoch in of.items())
    group.volatile.note_released(let_go, ctx.now_ms)
    out.journal.append(StaticAway(at_ms=ctx.now_ms, group=group.group_id, member=member.identity))
