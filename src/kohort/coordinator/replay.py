"""Replay of ``__consumer_offsets`` records, after an append and while loading. Only replay changes persisted state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.coordinator.consumer.replaying import replay_consumer_group
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import GroupOffsets, Kept, PendingOffsets
from kohort.coordinator.records import (
    ConsumerGroupRecord,
    EpochWritten,
    GroupWritten,
    InTransaction,
    LogItem,
    OffsetCommitted,
    Record,
    TransactionEnded,
    is_plain_offset,
    moved_record,
    parse_record,
)
from kohort.errors import CorruptLog
from kohort.notes import Note, warning

SHOWN: Final = 3
"""Maximum number of unreadable records that the warning about them lists. It only counts the others."""
MESSAGE_MAX: Final = 200
NO_PRODUCER: Final = -1
SPECIAL: Final = (InTransaction, TransactionEnded)
KEY_BYTES_BESIDE_NAMES: Final = 10
"""Bytes in the key of an offset record besides group id and topic: record type, two string lengths, partition."""


class Skipped:
    """Unreadable records in one ``__consumer_offsets`` partition, which the replay skipped."""

    __slots__ = ("_first", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first: list[str] = []

    def add(self, what: object) -> None:
        self.count += 1
        if len(self._first) < SHOWN:
            self._first.append(str(what)[:MESSAGE_MAX])

    def notes(self, log: str) -> list[Note]:
        """Return a warning about the skipped records; an empty list if there are none."""
        if not self.count:
            return []
        more = f"; and {self.count - len(self._first)} more" if self.count > len(self._first) else ""
        return [warning(f"{log}: skipped {self.count} unreadable records: {'; '.join(self._first)}{more}")]


def replay(groups: Groups, record: Record, now_ms: int, producer_id: int = NO_PRODUCER) -> None:
    """Apply a record to the persisted state of its group or, with a ``producer_id``, to that producer's transaction."""
    if isinstance(record, OffsetCommitted):
        if producer_id != NO_PRODUCER and record.value is not None:
            groups.ensure_any(record.group_id, now_ms)
            offsets = groups.offsets.setdefault(record.group_id, GroupOffsets())
            offsets.pending = offsets.pending or PendingOffsets()
            offsets.pending.put(producer_id, record.topic, record.partition, record.value)
            groups.open.setdefault(producer_id, set()).add(record.group_id)
            return
        replay_offset(groups, record, now_ms)
    elif isinstance(record, GroupWritten):
        replay_group(groups, record, now_ms)
    else:
        replay_of_consumers(groups, record, now_ms)


def replay_end(groups: Groups, ended: TransactionEnded) -> list[str]:
    """Apply a transaction marker to pending offsets; return the ids of the groups to which these offsets belong."""
    had = sorted(groups.open.pop(ended.producer_id, ()))
    for group_id in had:
        offsets = groups.offsets.get(group_id)
        if offsets is None or offsets.pending is None:
            continue  # the group was deleted during the transaction
        for (topic, partition), (order, value) in offsets.pending.take(ended.producer_id).items():
            if ended.committed and value is not None:
                offsets.put(topic, partition, value, order)
        offsets.pending = offsets.pending or None
        if offsets.is_blank:
            del groups.offsets[group_id]
    return had


def replay_one(groups: Groups, item: LogItem, now_ms: int, skipped: Skipped, ahead_ms: int = 0) -> None:
    """Parse and replay one entry of a ``__consumer_offsets`` log; if it is unreadable, skip and count it."""
    key, value = item
    if isinstance(value, TransactionEnded):
        for group_id in replay_end(groups, value):
            groups.maybe_forget(group_id)
        return
    producer_id, records = value if isinstance(value, InTransaction) else (NO_PRODUCER, [(key, value)])
    for of, says in records:
        record = _parsed(of, says, skipped)
        if record is not None:
            replay(groups, moved_record(record, -ahead_ms), now_ms, producer_id)


def _parsed(key: bytes, value: bytes | None, skipped: Skipped) -> Record | None:
    try:
        record = parse_record(key, value)
    except CorruptLog as error:
        skipped.add(error)
        return None
    if record is None:
        skipped.add(f"unknown record type {int.from_bytes(key[:2], signed=True)}")
    return record


def replay_log(groups: Groups, log: Iterable[LogItem], now_ms: int, skipped: Skipped, ahead_ms: int = 0) -> None:
    """Parse and replay the entries of a ``__consumer_offsets`` log in order; skip and count unreadable ones.

    Most records are commits of few groups and topics. Only the first commit of a group to a topic is parsed; later ones
    are stored as bytes. If the wall clock was set forward by ``ahead_ms``, all records are parsed: their times change.
    While a transaction has pending offsets, all records are parsed: a commit may replace pending offsets.
    """
    places: dict[bytes, dict[int, Kept]] = {}
    for key, value in log:
        if not ahead_ms and type(value) is bytes and not groups.open and is_plain_offset(value):
            place = places.get(key[:-4])
            if place is not None:
                place[int.from_bytes(key[-4:], "big", signed=True)] = value
                continue
        elif isinstance(value, SPECIAL):
            replay_one(groups, (key, value), now_ms, skipped, ahead_ms)
            places.clear()  # drop cached offsets: the transaction may contain their tombstones
            continue
        record = _parsed(key, value, skipped)
        if record is None:
            continue
        replay(groups, moved_record(record, -ahead_ms), now_ms)
        if isinstance(record, OffsetCommitted) and record.value is not None:
            if len(key) == len(record.group_id.encode()) + len(record.topic.encode()) + KEY_BYTES_BESIDE_NAMES:
                places[key[:-4]] = groups.offsets[record.group_id].by_topic[record.topic]
        else:
            places.clear()  # drop cached offsets: the record may be their tombstone


def replay_offset(groups: Groups, record: OffsetCommitted, now_ms: int) -> None:
    """Set or remove a committed offset. If the group of a commit is unknown, create an empty group."""
    offsets = groups.offsets.get(record.group_id)
    if record.value is not None:
        groups.ensure_any(record.group_id, now_ms)
        if offsets is None:
            offsets = groups.offsets[record.group_id] = GroupOffsets()
        offsets.put(record.topic, record.partition, record.value)
    elif offsets is not None:
        offsets.remove(record.topic, record.partition)
        if offsets.is_blank:
            del groups.offsets[record.group_id]


def replay_group(groups: Groups, record: GroupWritten, now_ms: int) -> None:
    if record.value is not None:
        groups.ensure(record.group_id, now_ms).persisted = record.value
    elif record.group_id in groups.by_id:
        groups.by_id[record.group_id].persisted = None


def replay_of_consumers(groups: Groups, record: ConsumerGroupRecord, now_ms: int) -> None:
    """Apply a consumer group record. Tombstones create no group; the tombstone of the group epoch deletes the group."""
    group = groups.consumer.get(record.group_id)
    if group is None:
        if record.value is None:
            return
        group = groups.ensure_consumer(record.group_id)
    replay_consumer_group(group, record)
    if isinstance(record, EpochWritten) and record.value is None:
        groups.end_consumer(record.group_id, now_ms)
