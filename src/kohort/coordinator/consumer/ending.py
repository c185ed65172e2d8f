"""The tombstones of a modern group and of its members, in Kafka's order (protocol/consumer-groups.md#records)."""

from __future__ import annotations

from collections.abc import Collection

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


def group_tombstones(group: ModernGroup, member_ids: Collection[str] | None = None) -> list[ConsumerGroupRecord]:
    """Return what takes everything of a group but its offsets from the log; the last one is the group's end.

    ``member_ids`` are those that are written by then; None: those that the group has.
    """
    group_id = group.group_id
    written = group.members if member_ids is None else member_ids
    records: list[ConsumerGroupRecord] = [CurrentWritten(group_id, member_id, None) for member_id in written]
    records += [TargetWritten(group_id, member_id, None) for member_id in written]
    records.append(TargetEpochWritten(group_id, None))
    records += [MemberWritten(group_id, member_id, None) for member_id in written]
    records += [RegexResolved(group_id, regex, None) for regex in group.regexes]
    return [*records, OldMetadataRemoved(group_id), EpochWritten(group_id, None)]
