"""In which order Kafka's coordinator comes across members, topics and partitions: that of Java's hash tables.

Some results depend on it: who gets one more, which topic is dealt first, which partitions a member keeps. Tables have
the sizes that Java 17 gives them; Java 19 and later make sets of 12, 24, 48, ... elements half as large. A bucket of
eight or more becomes a tree in Java, in an order of its own, which is not followed here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kohort.assignors.spec import java_bucket, table_size
from kohort.model import java_string_hash
from kohort.steps import Pace, Steps, at_once

HASH_US: Final = 2
SORT_US: Final = 0.5
"""Estimated cost of one member: for its hash, and for its place in the order."""

_FIBONACCI: Final = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio: spreads hash codes over the slots of Kafka's own tables."""


def in_group_order(member_ids: Collection[str], most: int = 0) -> list[str]:
    """Sort members, given in the order in which they joined, as the table iterates that a group keeps them in.

    Kafka's timeline tables begin with 2 slots and double while they are filled over four thirds; a slot is read
    backwards. A table that was larger once stays larger: ``most`` is how many members there have been at a time.
    """
    return at_once(group_order(member_ids, most, Pace()))


def group_order(member_ids: Collection[str], most: int, pace: Pace) -> Steps[list[str]]:
    """Sort as ``in_group_order`` does, in steps."""
    slots = 2
    while (max(len(member_ids), most) + 1) * 3 > slots * 4:
        slots *= 2
    shift = 64 - (slots.bit_length() - 1)
    kept = list(member_ids)[::-1]
    hashes = yield from _hashes(kept, pace)
    return _sorted_by(kept, [(code * _FIBONACCI & 0xFFFFFFFFFFFFFFFF) >> shift for code in hashes])


def in_member_order(member_ids: Collection[str]) -> list[str]:
    """Sort as a HashMap of members does; those of one bucket stay in the order given."""
    return at_once(member_order(member_ids, Pace()))


def member_order(member_ids: Collection[str], pace: Pace) -> Steps[list[str]]:
    """Sort as ``in_member_order`` does, in steps."""
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
    """Sort names of topics as the HashSet of a member's subscription does, which was read from sorted names. Where
    ``names`` are some of the subscription alone, ``subscribed`` is its size."""
    size = _set_size(max(len(names), subscribed))
    return sorted(sorted(names), key=lambda name: java_bucket(java_string_hash(name), size))


def in_topic_order(topics: Collection[bytes]) -> list[bytes]:
    """Sort as a HashSet made of topic ids does; those of one bucket stay in the order given, in Kafka's case that of
    their names (``in_name_order``)."""
    size = _set_size(len(topics))
    return sorted(topics, key=lambda topic: java_bucket(_uuid_hash(topic), size))


def in_owned_order(topics: Collection[bytes]) -> list[bytes]:
    """Sort as the HashMap of a member's target does; the topics of one bucket stay in the order given."""
    if len(topics) < 2:
        return list(topics)
    size = table_size(len(topics))
    return sorted(topics, key=lambda topic: java_bucket(_uuid_hash(topic), size))


def in_partition_order(partitions: Collection[int]) -> list[int]:
    """Sort as a HashSet made of a list of numbers does: not by number where they are larger than the table.

    Within a bucket Kafka's order is that in which the member got them; here it is that of the numbers.
    """
    size = _set_size(len(partitions))
    return sorted(partitions, key=lambda partition: (java_bucket(partition, size), partition))


def topic_rank(topic: bytes) -> tuple[int, int]:
    """Return a sort key that orders topic ids as Java's Uuid.compareTo does: by two signed numbers."""
    return int.from_bytes(topic[:8], signed=True), int.from_bytes(topic[8:], signed=True)


def _set_size(entries: int) -> int:
    """Returns how many buckets ``new HashSet<>(collection)`` has."""
    size = 16
    while size < entries * 4 // 3 + 1:
        size *= 2
    return size


def _uuid_hash(topic: bytes) -> int:
    """Java's Uuid.hashCode: the four words of the id, exclusive-or."""
    both = int.from_bytes(topic[:8]) ^ int.from_bytes(topic[8:])
    return (both >> 32) ^ (both & 0xFFFFFFFF)
