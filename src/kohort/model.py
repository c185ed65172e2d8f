"""Shared value types: partitions, offsets, records, nodes, ids."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

NO_UUID: Final = bytes(16)
NO_EPOCH: Final = -1

Header = tuple[str, bytes | None]


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndMetadata(NamedTuple):
    """A committed offset of a partition.

    ``offset`` is the next offset to read, ``metadata`` any text (up to ``offset.metadata.max.bytes``), ``leader_epoch``
    that of the last read record, or -1 if unknown (KIP-320).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


class GroupMetadata(NamedTuple):
    """Identity of a member, which coordinators check when a transaction commits offsets (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression in RE2 syntax for ``subscribe`` with the group protocol consumer (KIP-848).

    The cluster matches it against whole topic names, and decides which patterns are valid.
    """

    pattern: str


class ProducerIdAndEpoch(NamedTuple):
    """Producer id and epoch of a batch; both are -1 without an id."""

    producer_id: int
    epoch: int


NO_PRODUCER_ID_AND_EPOCH: Final = ProducerIdAndEpoch(-1, -1)


class Node(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


# A struct is created in a quarter of the time of a dataclass (ADR 9). gc=False: a record cannot be part of a cycle.
class Record(msgspec.Struct, frozen=True, gc=False):
    """A consumed record, immutable. ``timestamp_ms``: -1 if unknown; ``headers``: pairs (name, bytes or None)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_type: int = 0
    leader_epoch: int = NO_EPOCH


def uuid_to_text(value: bytes) -> str:
    """Return Kafka's text form of a topic or cluster id: base64url without padding, 22 characters."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def uuid_from_text(text: str) -> bytes:
    """Return the 16 bytes of a topic id from Kafka's text form. Raises ValueError for another text."""
    try:
        value = base64.urlsafe_b64decode(text + "==")
    except ValueError:
        value = b""
    if len(value) != 16:
        raise ValueError(f"not a topic id: {text!r}")
    return value


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode: 32-bit wrapping sum over UTF-16 code units, as a signed int."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value >= 0x8000_0000 else value


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped
