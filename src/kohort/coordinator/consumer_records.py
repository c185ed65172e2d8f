"""The records of ``__consumer_offsets`` that consumer groups write, and their bytes.

The rules: protocol/consumer-groups.md#records. What each holds is in the message of its value; without a value it is a
tombstone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kohort.wire.codec import decode, encode_bytes
from kohort.wire.messages import consumer_group_records as declared
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kohort.wire.schema import Message

_INT16 = struct.Struct(">h")
_VERSION_0 = _INT16.pack(0)


class EpochWritten(NamedTuple):
    """Type 3: the epoch of a group; its tombstone is the end of the group."""

    group_id: str
    value: ConsumerGroupMetadataValue | None


class OldMetadataRemoved(NamedTuple):
    """Type 4: what brokers before 4.1 knew of topics. The value is never read; what is written is its tombstone."""

    group_id: str
    value: None = None


class MemberWritten(NamedTuple):
    """Type 5: what a member said of itself."""

    group_id: str
    member_id: str
    value: ConsumerGroupMemberMetadataValue | None


class TargetEpochWritten(NamedTuple):
    """Type 6: for which epoch the target is."""

    group_id: str
    value: ConsumerGroupTargetAssignmentMetadataValue | None


class TargetWritten(NamedTuple):
    """Type 7: a member's share of the target."""

    group_id: str
    member_id: str
    value: ConsumerGroupTargetAssignmentMemberValue | None


class CurrentWritten(NamedTuple):
    """Type 8: what a member has."""

    group_id: str
    member_id: str
    value: ConsumerGroupCurrentMemberAssignmentValue | None


class RegexResolved(NamedTuple):
    """Type 16: the topics that an expression matched."""

    group_id: str
    regex: str
    value: ConsumerGroupRegularExpressionValue | None


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
    """A class of messages."""
    fields: tuple[str, ...]
    """The key's fields, in the order of the record's."""
    value: type[Message] | None


_KINDS: Final[dict[Callable[..., ConsumerGroupRecord], _Kind]] = {
    EpochWritten: _Kind(3, declared.ConsumerGroupMetadataKey, ("group_id",), ConsumerGroupMetadataValue),
    OldMetadataRemoved: _Kind(4, declared.ConsumerGroupPartitionMetadataKey, ("group_id",), None),
    MemberWritten: _Kind(
        5, declared.ConsumerGroupMemberMetadataKey, ("group_id", "member_id"), ConsumerGroupMemberMetadataValue
    ),
    TargetEpochWritten: _Kind(
        6,
        declared.ConsumerGroupTargetAssignmentMetadataKey,
        ("group_id",),
        ConsumerGroupTargetAssignmentMetadataValue,
    ),
    TargetWritten: _Kind(
        7,
        declared.ConsumerGroupTargetAssignmentMemberKey,
        ("group_id", "member_id"),
        ConsumerGroupTargetAssignmentMemberValue,
    ),
    CurrentWritten: _Kind(
        8,
        declared.ConsumerGroupCurrentMemberAssignmentKey,
        ("group_id", "member_id"),
        ConsumerGroupCurrentMemberAssignmentValue,
    ),
    RegexResolved: _Kind(
        16,
        declared.ConsumerGroupRegularExpressionKey,
        ("group_id", "regular_expression"),
        ConsumerGroupRegularExpressionValue,
    ),
}
_BY_NUMBER: Final = {kind.number: (record, kind) for record, kind in _KINDS.items()}


def is_consumer_group_record(number: int) -> bool:
    """Tell whether records of this type are those of consumer groups."""
    return number in _BY_NUMBER


def build_consumer_group_record(record: ConsumerGroupRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value of ``record`` as bytes."""
    kind = _KINDS[type(record)]
    *names, value = record
    key = _INT16.pack(kind.number) + encode_bytes(kind.key(**dict(zip(kind.fields, names, strict=True))), 0)
    return key, None if value is None else _VERSION_0 + encode_bytes(value, 0)


def parse_consumer_group_record(number: int, key: bytes, value: bytes | None) -> ConsumerGroupRecord | None:
    """Return what a record of type ``number`` says, or None where its value is of no interest (type 4).

    Raises ProtocolError or ``struct.error`` for bytes that are no such record, or of a version yet unknown.
    """
    record, kind = _BY_NUMBER[number]
    named: Any = decode(kind.key, 0, key, 2)[0]
    names = [getattr(named, field) for field in kind.fields]
    if value is None:
        return record(*names, None)
    if kind.value is None:
        return None
    return record(*names, decode(kind.value, _INT16.unpack_from(value)[0], value, 2)[0])
