"""Subscriptions and assignments inside JoinGroup and SyncGroup (protocol/members.md#subscription-and-assignment).

An int16 version precedes fields that are never flexible. A version above 3 is read as 3, and further bytes are ignored,
so that an older leader can read a newer member.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from kohort.errors import ProtocolError
from kohort.model import TopicPartition
from kohort.wire.codec import decode, encode_bytes
from kohort.wire.schema import Message, array, data, int32, string


class TopicPartitions(Message):
    topic: str = string()
    partitions: list[int] = array(int32())


class ConsumerProtocolSubscription(Message, versions="0-3", flexible="none"):
    topics: list[str] = array(string())
    user_data: bytes | None = data(nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = array(TopicPartitions, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3", flexible="none"):
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    user_data: bytes | None = data(nullable="0+", default=None)


M = TypeVar("M", bound=Message)

PROTOCOL_TYPE: Final = "consumer"
HIGHEST_VERSION: Final = 3
_version = struct.Struct(">h")
COUNT_BYTES: Final = 4
LENGTH_BYTES: Final = 2


@dataclass(slots=True)
class Subscription:
    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = field(default_factory=list)
    generation_id: int = -1
    rack_id: str | None = None


@dataclass(slots=True)
class Assignment:
    partitions: list[TopicPartition] = field(default_factory=list)
    user_data: bytes | None = None


def build_subscription(subscription: Subscription, version: int = HIGHEST_VERSION) -> bytes:
    """Encode a subscription with sorted topics and with owned partitions by topic, as Java does."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=_grouped(subscription.owned_partitions),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return _version.pack(version) + encode_bytes(message, version)


def parse_subscription(blob: bytes) -> Subscription:
    """Parse a member's metadata. Raises ProtocolError."""
    m = _parse(ConsumerProtocolSubscription, blob)
    return Subscription(m.topics, m.user_data, _flat(m.owned_partitions), m.generation_id, m.rack_id)


def parse_subscribed_topics(blob: bytes) -> list[str]:
    """Parse only the topics: a broker ignores newer fields."""
    message = _parse(ConsumerProtocolSubscription, blob, version=0)
    return message.topics


def topics_field(blob: bytes) -> tuple[int, int]:
    """Return the number of topics in a subscription, 0 if it is truncated, and the position of that number."""
    return int.from_bytes(blob[_version.size : _version.size + COUNT_BYTES], signed=True), _version.size


def build_assignment(assignment: Assignment, version: int = HIGHEST_VERSION) -> bytes:
    partitions = _grouped(assignment.partitions)
    message = ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=assignment.user_data)
    return _version.pack(version) + encode_bytes(message, version)


def parse_assignment(blob: bytes) -> Assignment:
    """Parse an assignment; no bytes mean an empty one. Raises ProtocolError."""
    if not blob:
        return Assignment()
    message = _parse(ConsumerProtocolAssignment, blob)
    return Assignment(partitions=_flat(message.assigned_partitions), user_data=message.user_data)


def parse_partitions_by_topic(blob: bytes) -> dict[str, list[int]]:
    """Parse only the partitions, by topic; no bytes mean none. Raises ProtocolError."""
    by_topic: dict[str, list[int]] = {}
    if blob:
        for assigned in _parse(ConsumerProtocolAssignment, blob).assigned_partitions:
            by_topic.setdefault(assigned.topic, []).extend(assigned.partitions)
    return by_topic


def _parse(message: type[M], blob: bytes, version: int = HIGHEST_VERSION) -> M:
    if len(blob) < _version.size:
        raise ProtocolError(f"{len(blob)} bytes, too short for a version", message.__name__)
    written = _version.unpack_from(blob)[0]
    if written < 0:
        raise ProtocolError(f"version {written}", message.__name__)
    return decode(message, min(written, version), blob, _version.size)[0]


def _grouped(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]


def _flat(groups: Sequence[TopicPartitions]) -> list[TopicPartition]:
    return [TopicPartition(group.topic, partition) for group in groups for partition in group.partitions]
