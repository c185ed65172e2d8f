"""Records of ``__consumer_offsets``: their types, bytes and times; the partition of a group.

The rules: protocol/groups.md#records-of-groups, protocol/consumer-groups.md#records, protocol/groups.md#coordinator.

A key consists of the record type (int16) and its fields, a value of its version (int16) and its fields. Kohort writes
the bytes of Kafka 4.4 and reads all older versions.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from kohort.coordinator.journal_events import JournalEntry
from kohort.errors import CorruptLog, ProtocolError
from kohort.model import NO_UUID, java_string_hash
from kohort.wire.codec import decode, encode_bytes
from kohort.wire.messages import consumer_group_records as declared
from kohort.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kohort.wire.schema import Message

INT_MIN = -(2**31)
CACHED_NAMES_MAX: Final = 16_384
NAME_MAX: Final = 300
"""Maximum letters of a group name or topic name in the cache. Clients may send names of 32,767 letters."""
_INT16 = struct.Struct(">h")
_VERSION_0 = _INT16.pack(0)
LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2
OFFSET_VALUE_VERSION: Final = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1
"""Offset record version with ``expire_timestamp``, written for an OffsetCommit v2 to v4 with a retention time."""
GROUP_VALUE_VERSION: Final = 3
_INT32 = struct.Struct(">i")
_PLAIN = struct.Struct(">hqiBq3s16s")
LONGEST_NAME: Final = 0x7FFF
_TOPIC_ID_ALONE = b"\x01\x00\x10"
"""Bytes before the topic id if it is the only tagged field of an offset record: field count 1, tag 0, size 16."""
KeyValue = tuple[bytes, bytes | None]
RECORD_TIMES: Final = (
    "commit_timestamp",
    "expire_timestamp",
    "current_state_timestamp",
    "assignment_timestamp",
    "timestamp",
)
UNSET: Final = (-1, 0)
ENTRY_TIMES: Final = frozenset(
    {
        "at_ms",
        "last_seen_ms",
        "connection_closed_at_ms",
        "last_progress_ms",
        "last_commit_ms",
        "stalled_at_ms",
        "failover_ms",
    }
)


def partition_of(group_id: str, partitions: int) -> int:
    """Return the ``__consumer_offsets`` partition of a group: ``abs(hash) mod partitions``, or 0 for hash -2**31."""
    find = _partition_of if len(group_id) <= NAME_MAX else _partition_of.__wrapped__
    return find(group_id, partitions)


@lru_cache(maxsize=CACHED_NAMES_MAX)
def _partition_of(group_id: str, partitions: int) -> int:
    h = java_string_hash(group_id)
    return 0 if h == INT_MIN else abs(h) % partitions


class EpochWritten(NamedTuple):
    """Record type 3: group epoch of a consumer group. Its tombstone deletes the group."""

    group_id: str
    value: declared.ConsumerGroupMetadataValue | None


class OldMetadataRemoved(NamedTuple):
    """Record type 4: topic metadata by brokers before 4.1. Its value is ignored; kohort writes only its tombstones."""

    group_id: str
    value: None = None


class MemberWritten(NamedTuple):
    """Record type 5: metadata of a consumer group member."""

    group_id: str
    member_id: str
    value: declared.ConsumerGroupMemberMetadataValue | None


class TargetEpochWritten(NamedTuple):
    """Record type 6: group epoch for which the target assignment was computed."""

    group_id: str
    value: declared.ConsumerGroupTargetAssignmentMetadataValue | None


class TargetWritten(NamedTuple):
    """Record type 7: target assignment of a member."""

    group_id: str
    member_id: str
    value: declared.ConsumerGroupTargetAssignmentMemberValue | None


class CurrentWritten(NamedTuple):
    """Record type 8: current assignment of a member."""

    group_id: str
    member_id: str
    value: declared.ConsumerGroupCurrentMemberAssignmentValue | None


class RegexResolved(NamedTuple):
    """Record type 16: topics that match one subscription pattern of a consumer group."""

    group_id: str
    regex: str
    value: declared.ConsumerGroupRegularExpressionValue | None


ConsumerGroupRecord = (
    EpochWritten
    | OldMetadataRemoved
    | MemberWritten
    | TargetEpochWritten
    | TargetWritten
    | CurrentWritten
    | RegexResolved
)


class _Kind(NamedTuple):
    number: int
    key: Any
    fields: tuple[str, ...]
    value: type[Message] | None


_GROUP, _MEMBER = ("group_id",), ("group_id", "member_id")
_KINDS: Final[dict[Callable[..., ConsumerGroupRecord], _Kind]] = {
    EpochWritten: _Kind(3, declared.ConsumerGroupMetadataKey, _GROUP, declared.ConsumerGroupMetadataValue),
    OldMetadataRemoved: _Kind(4, declared.ConsumerGroupPartitionMetadataKey, _GROUP, None),
    MemberWritten: _Kind(
        5, declared.ConsumerGroupMemberMetadataKey, _MEMBER, declared.ConsumerGroupMemberMetadataValue
    ),
    TargetEpochWritten: _Kind(
        6,
        declared.ConsumerGroupTargetAssignmentMetadataKey,
        _GROUP,
        declared.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    TargetWritten: _Kind(
        7, declared.ConsumerGroupTargetAssignmentMemberKey, _MEMBER, declared.ConsumerGroupTargetAssignmentMemberValue
    ),
    CurrentWritten: _Kind(
        8, declared.ConsumerGroupCurrentMemberAssignmentKey, _MEMBER, declared.ConsumerGroupCurrentMemberAssignmentValue
    ),
    RegexResolved: _Kind(
        16,
        declared.ConsumerGroupRegularExpressionKey,
        ("group_id", "regular_expression"),
        declared.ConsumerGroupRegularExpressionValue,
    ),
}
_BY_NUMBER: Final = {kind.number: (record, kind) for record, kind in _KINDS.items()}


def build_consumer_group_record(record: ConsumerGroupRecord) -> tuple[bytes, bytes | None]:
    kind = _KINDS[type(record)]
    *names, value = record
    key = _INT16.pack(kind.number) + encode_bytes(kind.key(**dict(zip(kind.fields, names, strict=True))), 0)
    return key, None if value is None else _VERSION_0 + encode_bytes(value, 0)


def parse_consumer_group_record(number: int, key: bytes, value: bytes | None) -> ConsumerGroupRecord | None:
    """Parse a consumer group record; return None for a type 4 record, unless it is a tombstone.

    Raises ProtocolError or ``struct.error``.
    """
    record, kind = _BY_NUMBER[number]
    named: Any = decode(kind.key, 0, key, 2)[0]
    names = [getattr(named, field) for field in kind.fields]
    if value is None:
        return record(*names, None)
    if kind.value is None:
        return None
    return record(*names, decode(kind.value, _INT16.unpack_from(value)[0], value, 2)[0])


_KEY_PREFIX = {kind: _INT16.pack(kind) for kind in (OFFSET_COMMIT, GROUP_METADATA)}


class OffsetCommitted(NamedTuple):
    """Committed offset of a group for one partition, or its tombstone."""

    group_id: str
    topic: str
    partition: int
    value: OffsetCommitValue | None


class GroupWritten(NamedTuple):
    """Generation of a classic group, with members and assignments, or its tombstone."""

    group_id: str
    value: GroupMetadataValue | None


Record = OffsetCommitted | GroupWritten | ConsumerGroupRecord


class InTransaction(NamedTuple):
    """Offset records in a producer's transaction. The commit marker of the transaction makes them valid."""

    producer_id: int
    records: list[KeyValue]


class TransactionEnded(NamedTuple):
    """Marker that commits or aborts a producer's transaction."""

    producer_id: int
    committed: bool


LogItem = tuple[bytes, bytes | InTransaction | TransactionEnded | None]
"""Entry of a ``__consumer_offsets`` log: key and value of a record.

If the key is empty, the value contains a transaction's records, or is the marker of a transaction.
"""


def build_record(record: Record) -> KeyValue:
    if isinstance(record, OffsetCommitted):
        return _offset_key(record.group_id, record.topic, record.partition), _offset_value(record.value)
    if not isinstance(record, GroupWritten):
        return build_consumer_group_record(record)
    key_bytes = _KEY_PREFIX[GROUP_METADATA] + encode_bytes(GroupMetadataKey(group=record.group_id), 0)
    if record.value is None:
        return key_bytes, None
    return key_bytes, _INT16.pack(GROUP_VALUE_VERSION) + encode_bytes(record.value, GROUP_VALUE_VERSION)


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Build the key of an offset record. Only a key with non-ASCII names needs the slow codec."""
    if group_id.isascii() and topic.isascii() and len(group_id) <= LONGEST_NAME and len(topic) <= LONGEST_NAME:
        group_bytes, topic_bytes = group_id.encode("ascii"), topic.encode("ascii")
        group_head, topic_head = _INT16.pack(len(group_bytes)), _INT16.pack(len(topic_bytes))
        parts = (_KEY_PREFIX[OFFSET_COMMIT], group_head, group_bytes, topic_head, topic_bytes, _INT32.pack(partition))
        return b"".join(parts)
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return _KEY_PREFIX[OFFSET_COMMIT] + encode_bytes(key, 0)


def _offset_value(value: OffsetCommitValue | None) -> bytes | None:
    if value is None:
        return None
    if value.expire_timestamp == -1 and value.metadata == "" and value.topic_id != NO_UUID:
        return _PLAIN.pack(
            OFFSET_VALUE_VERSION,
            value.offset,
            value.leader_epoch,
            1,
            value.commit_timestamp,
            _TOPIC_ID_ALONE,
            value.topic_id,
        )
    version = OFFSET_VALUE_VERSION if value.expire_timestamp == -1 else OFFSET_VALUE_VERSION_WITH_EXPIRY
    return _INT16.pack(version) + encode_bytes(value, version)


def parse_record(key: bytes, value: bytes | None) -> Record | None:
    """Parse a ``__consumer_offsets`` record; return None for an unknown record type.

    Raises CorruptLog for invalid bytes and for an unknown version of the value.
    """
    try:
        (kind,) = _INT16.unpack_from(key)
        if kind in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT):
            group_id, topic, partition = _offset_place(key)
            return OffsetCommitted(group_id, topic, partition, None if value is None else _offset(value))
        if kind == GROUP_METADATA:
            group, _ = decode(GroupMetadataKey, 0, key, 2)
            generation = (
                None if value is None else decode(GroupMetadataValue, _INT16.unpack_from(value)[0], value, 2)[0]
            )
            return GroupWritten(group.group, generation)
        if kind in _BY_NUMBER:
            return parse_consumer_group_record(kind, key, value)
    except (ProtocolError, struct.error) as error:
        raise CorruptLog(f"a record of __consumer_offsets with key {key[:80]!r} cannot be read: {error}") from error
    return None


def _offset(value: bytes) -> OffsetCommitValue:
    if is_plain_offset(value):
        return read_plain_offset(value)
    return decode(OffsetCommitValue, _INT16.unpack_from(value)[0], value, 2)[0]


def _offset_place(key: bytes) -> tuple[str, str, int]:
    """Parse the key of an offset record. Only a key with non-ASCII names needs the slow codec."""
    group_ends = 4 + _INT16.unpack_from(key, 2)[0]
    if 4 <= group_ends <= len(key) - 6:
        topic_ends = group_ends + 2 + _INT16.unpack_from(key, group_ends)[0]
        group_id, topic = key[4:group_ends], key[group_ends + 2 : topic_ends]
        if topic_ends + 4 == len(key) and group_id.isascii() and topic.isascii():
            return group_id.decode("ascii"), topic.decode("ascii"), _INT32.unpack_from(key, topic_ends)[0]
    commit, _ = decode(OffsetCommitKey, 0, key, 2)
    return commit.group, commit.topic, commit.partition


def is_plain_offset(value: bytes) -> bool:
    """Return True if the value of an offset record has version 4, a topic id and no commit metadata."""
    return len(value) == _PLAIN.size and value[14] == 1 and value[23:26] == _TOPIC_ID_ALONE and value[:2] == b"\x00\x04"


def read_plain_offset(value: bytes) -> OffsetCommitValue:
    """Parse the value of an offset record without the slow codec: a starting broker reads millions of them."""
    _, offset, leader_epoch, _, commit_timestamp, _, topic_id = _PLAIN.unpack(value)
    return OffsetCommitValue(
        offset=offset, leader_epoch=leader_epoch, commit_timestamp=commit_timestamp, topic_id=topic_id
    )


def moved_record(record: Record, by_ms: int) -> Record:
    """Return the record with all its times moved by ``by_ms``. An unset time stays unset."""
    given = record.value
    named = [name for name in RECORD_TIMES if getattr(given, name, -1) not in UNSET] if by_ms else []
    if not named:
        return record
    value: Any = copy.copy(given)
    for name in named:
        setattr(value, name, getattr(value, name) + by_ms)
    return record._replace(value=value)


def moved_entry(entry: JournalEntry, by_ms: int) -> JournalEntry:
    """Return the journal entry with all its times moved by ``by_ms``."""
    moved: JournalEntry = _moved(entry, by_ms) if by_ms else entry
    return moved


def _moved(value: Any, by_ms: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_moved(one, by_ms) for one in value) if type(value) is tuple else value
    if not isinstance(value, msgspec.Struct):
        return value
    changes: dict[str, Any] = {}
    for name in value.__struct_fields__:
        held = getattr(value, name)
        if name in ENTRY_TIMES and held is not None:
            changes[name] = held + by_ms
        elif (moved := _moved(held, by_ms)) is not held:
            changes[name] = moved
    return msgspec.structs.replace(value, **changes) if changes else value
