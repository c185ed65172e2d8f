"""The only code that changes written state: live after an append, and at recovery from the log, alike."""

from __future__ import annotations

from kohort.coordinator.groups import Groups
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.coordinator.records import GroupWritten, OffsetCommitted, Record


def replay(groups: Groups, record: Record, now_ms: int) -> None:
    """Make ``record`` part of what is written."""
    if isinstance(record, OffsetCommitted):
        replay_offset(groups, record, now_ms)
    else:
        replay_group(groups, record, now_ms)


def replay_offset(groups: Groups, record: OffsetCommitted, now_ms: int) -> None:
    """An offset makes a group where there is none: a simple one, that stores offsets and nothing else."""
    offsets = groups.offsets.get(record.group_id)
    if record.value is not None:
        groups.ensure(record.group_id, now_ms)
        if offsets is None:
            offsets = groups.offsets[record.group_id] = GroupOffsets()
        offsets.put(record.topic, record.partition, record.value)
    elif offsets is not None:
        offsets.remove(record.topic, record.partition)
        if not offsets.by_topic:
            del groups.offsets[record.group_id]


def replay_group(groups: Groups, record: GroupWritten, now_ms: int) -> None:
    """A generation replaces the one before it; a tombstone leaves none."""
    if record.value is not None:
        groups.ensure(record.group_id, now_ms).written = record.value
    elif record.group_id in groups.by_id:
        groups.by_id[record.group_id].written = None
