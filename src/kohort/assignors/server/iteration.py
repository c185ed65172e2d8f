"""Iteration order of Kafka's coordinator over members, topics and partitions: that of Java's hash tables.

Some results depend on it: the member with one more partition, the first topic, the kept partitions. Table sizes are
those of Java 17; Java 19 and later halve sets of 12, 24, 48, ... elements. Buckets of eight or more become trees in
Java, in an order that is not reproduced here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kohort.assignors.spec import java_bucket, table_size
from kohort.model import java_string_hash
from kohort.steps import Pace, Steps, at_once

HASH_US: Final = 2
SORT_US: Final = 0.5
"""Estimated cost of one member: for its hash, and for sorting it."""

_FIBONACCI: Final = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio: spreads hash codes over the slots of Kafka's own tables."""


def in_group_order(member_ids: Collection[str], most: int = 0) -> list[str]:
    """Sort members in join order into the iteration order of a group's member table.

    Kafka's timeline tables begin with 2 slots and double beyond four thirds; slots are read backwards. Tables never
    shrink: ``most`` is the largest number of members at a time.
    """
    return at_once(group_order(member_ids, most, Pace()))


def group_order(member_ids: Collection[str], most: int, pace: Pace) -> Steps[list[str]]:
    """Sort as ``in_group_order``, in steps."""
    slots = 2
    while (max(len(member_ids), most) + 1) * 3 > slots * 4:
        slots *= 2
    shift = 64 - (slots.bit_length() - 1)
    kept = list(member_ids)[::-1]
    hashes = yield from _hashes(kept, pace)
    return _sorted_by(kept, [(code * _FIBONACCI & 0xFFFFFFFFFFFFFFFF) >> shift for code in hashes])


def in_member_order(member_ids: Collection[str]) -> list[str]:
    """Sort as a HashMap of members; one bucket keeps the given order."""
    return at_once(member_order(member_ids, Pace()))


def member_order(member_ids: Collection[str], pace: Pace) -> Steps[list[str]]:
    """Sort as ``in_member_order``, in steps."""
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
    """Sort topic names as the HashSet of a subscription, read from sorted names.

    ``subscribed``: size of the subscription, if ``names`` are a part of it.
    """
    size = _set_size(max(len(names), subscribed))
    return sorted(sorted(names), key=lambda name: java_bucket(java_string_hash(name), size))


def in_topic_order(topics: Collection[bytes]) -> list[bytes]:
    """Sort as a HashSet of topic ids; one bucket keeps the given order, in Kafka that of ``in_name_order``."""
    size = _set_size(len(topics))
    return sorted(topics, key=lambda topic: java_bucket(_uuid_hash(topic), size))


def in_owned_order(topics: Collection[bytes]) -> list[bytes]:
    """Sort as the HashMap of a member's target; one bucket keeps the given order."""
    if len(topics) < 2:
        return list(topics)
    size = table_size(len(topics))
    return sorted(topics, key=lambda topic: java_bucket(_uuid_hash(topic), size))


def in_partition_order(partitions: Collection[int]) -> list[int]:
    """Sort as a HashSet of partition numbers: not by number if they exceed the table size.

    Within a bucket Kafka keeps the order of assignment; kohort sorts by number.
    """
    size = _set_size(len(partitions))
    return sorted(partitions, key=lambda partition: (java_bucket(partition, size), partition))


def topic_rank(topic: bytes) -> tuple[int, int]:
    """Return a sort key as Java's Uuid.compareTo: two signed numbers."""
    return int.from_bytes(topic[:8], signed=True), int.from_bytes(topic[8:], signed=True)


def _set_size(entries: int) -> int:
    """Return the bucket count of ``new HashSet<>(collection)``."""
    size = 16
    while size < entries * 4 // 3 + 1:
        size *= 2
    return size


def _uuid_hash(topic: bytes) -> int:
    """Java's Uuid.hashCode: the four words of the id, exclusive-or."""
    both = int.from_bytes(topic[:8]) ^ int.from_bytes(topic[8:])
    return (both >> 32) ^ (both & 0xFFFFFFFF)
