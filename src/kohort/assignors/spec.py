"""Input and result of an assignor (protocol/assignors.md#common-rules).

An assignor is a pure function: from members and the partitions of their topics it computes each member's partitions.
The leader of a classic group runs it. Other code may run it to predict an assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kohort.model import TopicPartition, java_string_hash

NO_GENERATION: Final = -1

Assignment = dict[str, list[TopicPartition]]
"""Assigned partitions as a dict: member id -> partitions. A member without partitions has an empty list."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """Subscription of one member.

    ``generation`` is None for Subscription versions 0 and 1. ``rack`` is empty if unknown.
    """

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    rack: str = ""
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class SubscribedTopics:
    """Partition count of each topic and, if known, the racks of each partition's replicas."""

    counts: Mapping[str, int]
    racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic; an empty list if the topic is unknown."""
        return [TopicPartition(topic, p) for p in range(self.counts.get(topic, 0))]

    def racks_of(self, partition: TopicPartition) -> frozenset[str]:
        """Return the racks of the partition's replicas; an empty set if unknown."""
        return self.racks.get(partition, frozenset())


@dataclass(frozen=True, slots=True)
class Assignor:
    """Assignor. ``name``: name in JoinGroup. ``cooperative``: members may keep their partitions while they rejoin."""

    name: str
    assign: Callable[[SubscribedTopics, Sequence[MemberSubscription]], Assignment]
    user_data: Callable[[Iterable[TopicPartition], int], bytes | None]
    cooperative: bool = False


def no_user_data(owned: Iterable[TopicPartition], generation: int) -> None:
    """Return None, for assignors that need no user data from members."""


def java_order(text: str) -> bytes:
    """Return a sort key that orders strings like Java's String.compareTo: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def in_order(members: Iterable[MemberSubscription]) -> list[MemberSubscription]:
    """Sort members: first static members by instance id, then dynamic members by member id."""
    return sorted(
        members,
        key=lambda m: (m.instance_id is None, java_order(m.member_id if m.instance_id is None else m.instance_id)),
    )


def table_size(entries: int) -> int:
    """Return the bucket count of a Java HashMap with ``entries`` entries: 16, doubled until at most 75 % are used."""
    size = 16
    while entries > size * 3 // 4:
        size *= 2
    return size


def java_bucket(code: int, size: int) -> int:
    """Return the bucket index of a hash code in a Java HashMap of ``size`` buckets. Iteration is in index order."""
    code &= 0xFFFFFFFF
    return (code ^ code >> 16) & (size - 1)


def in_hash_order(members: Sequence[MemberSubscription]) -> list[MemberSubscription]:
    """Sort members into the order of the Java client's HashMap. The first members may keep one partition more.

    Within a hash bucket Java has the order of insertion. Here the members of a bucket are sorted by member id, so the
    result does not depend on the given order.
    """
    size = table_size(len(members))
    return sorted(members, key=lambda m: (java_bucket(java_string_hash(m.member_id), size), java_order(m.member_id)))


def known_topics(topics: SubscribedTopics, members: Iterable[MemberSubscription]) -> list[str]:
    """Return the subscribed topics that have partitions, sorted by name."""
    subscribed = {topic for topics_of in {member.topics for member in members} for topic in topics_of}
    return sorted((t for t in subscribed if topics.counts.get(t, 0) > 0), key=java_order)


def racks_matter(
    topics: SubscribedTopics, partitions: Iterable[TopicPartition], members: Iterable[MemberSubscription]
) -> bool:
    """Return True if racks can change the assignment.

    This is so if members and replicas have racks in common, but not all partitions have the same racks.
    """
    of_members = {member.rack for member in members if member.rack}
    if not of_members or not topics.racks:
        return False
    per_partition = [topics.racks_of(p) for p in partitions]
    of_partitions: frozenset[str] = frozenset().union(*per_partition)
    return not of_members.isdisjoint(of_partitions) and any(racks != of_partitions for racks in per_partition)
