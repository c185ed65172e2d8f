"""Order in which Kafka's coordinator iterates over members, topics and partitions: the order of Java's hash tables.

This order decides which member gets one partition more, which topic is assigned first, and which partitions a member
keeps. The bucket counts are those of Java 17; for sets of 12, 24, 48, ... elements Java 19 and later use half as many
buckets. Java sorts eight or more elements in one bucket as a tree; this module does not reproduce that order.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kohort.assignors.spec import java_bucket, table_size
from kohort.model import java_string_hash
from kohort.steps import Pace, Steps, at_once

HASH_US: Final = 2
SORT_US: Final = 0.5
"""Estimated cost in microseconds to hash and sort one member id."""

_FIBONACCI: Final = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio. Kafka's timeline hash tables multiply hash codes by this number."""


def in_group_order(member_ids: Collection[str], most: int = 0) -> list[str]:
    """Return member ids in the order in which Kafka iterates over the members of a group.

    ``member_ids``: in join order. Kafka keeps members in a timeline hash table, which starts with 2 slots. The number
    of slots doubles when it is less than three quarters of the number of members. Iteration goes from the last slot to
    the first. A table never shrinks: ``most`` is the largest number of members that the group ever had.
    """
    return at_once(group_order(member_ids, most, Pace()))


def group_order(member_ids: Collection[str], most: int, pace: Pace) -> Steps[list[str]]:
    """Sort member ids like ``in_group_order``. For a large group, yield after each step."""
    slots = 2
    while (max(len(member_ids), most) + 1) * 3 > slots * 4:
        slots *= 2
    shift = 64 - (slots.bit_length() - 1)
    kept = list(member_ids)[::-1]
    hashes = yield from _hashes(kept, pace)
    return _sorted_by(kept, [(code * _FIBONACCI & 0xFFFFFFFFFFFFFFFF) >> shift for code in hashes])


def in_member_order(member_ids: Collection[str]) -> list[str]:
    """Sort member ids into the order of a Java HashMap. Ids in the same hash bucket keep their given order."""
    return at_once(member_order(member_ids, Pace()))


def member_order(member_ids: Collection[str], pace: Pace) -> Steps[list[str]]:
    """Sort member ids like ``in_member_order``. For a large group, yield after each step."""
    size = table_size(len(member_ids))
    hashes = yield from _hashes(member_ids, pace)
    return _sorted_by(list(member_ids), [java_bucket(code, size) for code in hashes])


def _hashes(member_ids: Collection[str], pace: Pace) -> Steps[list[int]]:
    hashes = []
    for member_id in list(member_ids):
        hashes.append(java_string_hash(member_id))
        if pace.is_due(HASH_US):
            yield
    if pace.is_due(SORT_US * len(hashes)):
        yield
    return hashes


def _sorted_by(member_ids: list[str], keys: list[int]) -> list[str]:
    return [member_ids[place] for place in sorted(range(len(keys)), key=keys.__getitem__)]


def in_name_order(names: Collection[str], subscribed: int = 0) -> list[str]:
    """Sort topic names into the order of a Java HashSet. Names in the same hash bucket are in alphabetical order.

    ``subscribed``: number of topic names in the subscription, if ``names`` has only some of them.
    """
    size = _set_size(max(len(names), subscribed))
    return sorted(sorted(names), key=lambda name: java_bucket(java_string_hash(name), size))


def in_topic_order(topics: Collection[bytes]) -> list[bytes]:
    """Sort topic ids into the order of a Java HashSet. Ids in the same hash bucket keep their given order."""
    size = _set_size(len(topics))
    return sorted(topics, key=lambda topic: java_bucket(_uuid_hash(topic), size))


def in_owned_order(topics: Collection[bytes]) -> list[bytes]:
    """Sort the topic ids of a target assignment into the order of its Java HashMap.

    Ids in the same hash bucket keep their given order.
    """
    if len(topics) < 2:
        return list(topics)
    size = table_size(len(topics))
    return sorted(topics, key=lambda topic: java_bucket(_uuid_hash(topic), size))


def in_partition_order(partitions: Collection[int]) -> list[int]:
    """Sort partition numbers into the order of a Java HashSet: by number modulo the bucket count.

    Numbers in the same hash bucket are in ascending order; in Kafka they are in the order in which they were assigned.
    """
    size = _set_size(len(partitions))
    return sorted(partitions, key=lambda partition: (java_bucket(partition, size), partition))


def topic_rank(topic: bytes) -> tuple[int, int]:
    """Return the sort key of a topic id, equivalent to Kafka's Uuid.compareTo: two signed numbers."""
    return int.from_bytes(topic[:8], signed=True), int.from_bytes(topic[8:], signed=True)


def _set_size(entries: int) -> int:
    size = 16
    while size < entries * 4 // 3 + 1:
        size *= 2
    return size


def _uuid_hash(topic: bytes) -> int:
    both = int.from_bytes(topic[:8]) ^ int.from_bytes(topic[8:])
    return (both >> 32) ^ (both & 0xFFFFFFFF)
