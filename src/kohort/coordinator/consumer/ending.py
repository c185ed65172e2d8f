"""The tombstones of a modern group and of its members, in Kafka's order (protocol/consumer-groups.md#records)."""

from __future__ import annotations

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer_records import (
    ConsumerGroupRecord,
    CurrentWritten,
    EpochWritten,
    MemberWritten,
    OldMetadataRemoved,
    RegexResolved,
    TargetEpochWritten,
    TargetWritten,
)


def group_tombstones(group: ModernGroup) -> list[ConsumerGroupRecord]:
    """Return what takes everything of a group but its offsets from the log; the last one is the group's end."""
    group_id = group.group_id
    records: list[ConsumerGroupRecord] = [CurrentWritten(group_id, member_id, None) for member_id in group.members]
    records += [TargetWritten(group_id, member_id, None) for member_id in group.members]
    records.append(TargetEpochWritten(group_id, None))
    records += [MemberWritten(group_id, member_id, None) for member_id in group.members]
    records += [RegexResolved(group_id, regex, None) for regex in group.regexes]
    return [*records, OldMetadataRemoved(group_id), EpochWritten(group_id, None)]
