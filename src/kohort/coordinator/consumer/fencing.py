"""How members are taken out of a consumer group: by a leave, a timer, or a group that is converted.

The rules: protocol/consumer-groups.md#timers, protocol/consumer-groups.md#group-epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.group_epoch import hash_without
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.sessions import forget_timers_of, vitals_of
from kohort.coordinator.consumer_records import (
    CurrentWritten,
    EpochWritten,
    MemberWritten,
    RegexResolved,
    TargetEpochWritten,
    TargetWritten,
)
from kohort.coordinator.context import Context
from kohort.coordinator.journal import EpochCause, EpochEvent, EpochRaised
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.records import Record
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)


def tombstones_of_member(group_id: str, member_id: str) -> list[Record]:
    """Return what is written when a member is gone, in Kafka's order: what it has, its target, what it said."""
    return [
        CurrentWritten(group_id, member_id, None),
        TargetWritten(group_id, member_id, None),
        MemberWritten(group_id, member_id, None),
    ]


def remove_members(
    group: ModernGroup, gone: Sequence[ConsumerMember], cause: EpochCause, ctx: Context, out: Outcome
) -> None:
    """Take ``gone`` out of the group, all with one epoch; what they have may be given to others from then on.

    It goes for whatever removes members: LeaveGroup of several, a timer, a conversion. ``cause`` is the journal's.
    """
    group_id = group.group_id
    for member in gone:
        out.records += tombstones_of_member(group_id, member.member_id)
        out.timers += forget_timers_of(group_id, member.member_id)
    said = [member.said for member in gone]
    users = group.regex_users.copy()
    users.subtract(value.subscribed_topic_regex for value in said if value.subscribed_topic_regex)
    for regex in dict.fromkeys(value.subscribed_topic_regex for value in said):
        if regex and not users[regex] and regex in group.regexes:
            out.records.append(RegexResolved(group_id, regex, None))
    left = len(group.members) - len(gone)
    epoch = group.epoch + 1
    metadata_hash = hash_without(group, said, ctx)
    out.records.append(EpochWritten(group_id, ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)))
    if not left:
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
        out.records.append(TargetEpochWritten(group_id, value))
    group.soft.epoch_raised_ms = ctx.now_ms
    for member in gone:
        group.soft.note_released(member.current.held(), ctx.now_ms)
        group.soft.revoking_since_ms.pop(member.member_id, None)
    if not left:
        group.soft.released_ms.clear()
        group.soft.topics = None
    out.journal.append(EpochRaised(at_ms=ctx.now_ms, group=group_id, epoch=epoch, cause=cause, members=left))


def remove_member(group: ModernGroup, member: ConsumerMember, event: EpochEvent, ctx: Context, out: Outcome) -> None:
    """Take one member out, with its signs of life as evidence."""
    remove_members(
        group, [member], EpochCause(event=event, who=member.who, vitals=vitals_of(group, member, ctx)), ctx, out
    )
