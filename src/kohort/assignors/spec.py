"""What an assignor is given, and what it returns (protocol/assignors.md#common-rules).

An assignor is a pure function: the members of a group and the partitions of their topics in, the partitions of each
member out. The leader of a classic group runs one; so can anyone who wants to know what an assignment would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kohort.model import TopicPartition, java_string_hash

NO_GENERATION: Final = -1

Assignment = dict[str, list[TopicPartition]]
"""The partitions of each member, by member id; every member has an entry."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """One member as its Subscription shows it.

    ``generation`` is None where the Subscription carries none (versions 0 and 1); ``rack`` is empty where unknown.
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
    """How many partitions each topic has and, where known, the racks that hold a replica of each."""

    counts: Mapping[str, int]
    racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic; none for an unknown one."""
        return [TopicPartition(topic, p) for p in range(self.counts.get(topic, 0))]

    def racks_of(self, partition: TopicPartition) -> frozenset[str]:
        """Return the racks that hold a replica of ``partition``; none where they are not known."""
        return self.racks.get(partition, frozenset())


@dataclass(frozen=True, slots=True)
class Assignor:
    """A strategy by its name on the wire. ``cooperative``: members may keep what they own while they rejoin."""

    name: str
    assign: Callable[[SubscribedTopics, Sequence[MemberSubscription]], Assignment]
    user_data: Callable[[Iterable[TopicPartition], int], bytes | None]
    cooperative: bool = False


def no_user_data(owned: Iterable[TopicPartition], generation: int) -> None:
    """Return no user data: for strategies that remember nothing between rebalances."""


def java_order(text: str) -> bytes:
    """Return a sort key that orders strings as Java's compareTo does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def in_order(members: Iterable[MemberSubscription]) -> list[MemberSubscription]:
    """Static members by instance id, then dynamic ones by member id."""
    return sorted(
        members,
        key=lambda m: (m.instance_id is None, java_order(m.member_id if m.instance_id is None else m.instance_id)),
    )


def table_size(entries: int) -> int:
    """Return how many buckets Java's HashMap has when it holds so many: 16, doubled while it is over three quarters
    full."""
    size = 16
    while entries > size * 3 // 4:
        size *= 2
    return size


def java_bucket(code: int, size: int) -> int:
    """Return the bucket of a hash code in a HashMap of ``size`` buckets; it is iterated in the order of the buckets."""
    code &= 0xFFFFFFFF
    return (code ^ code >> 16) & (size - 1)


def in_hash_order(members: Sequence[MemberSubscription]) -> list[MemberSubscription]:
    """Sort as the Java client's HashMap of members does, which lets its sticky assignors decide who keeps one more.

    Within a bucket Java's order is that of insertion, here that of the ids: the order given never matters.
    """
    size = table_size(len(members))
    return sorted(members, key=lambda m: (java_bucket(java_string_hash(m.member_id), size), java_order(m.member_id)))


def known_topics(topics: SubscribedTopics, members: Iterable[MemberSubscription]) -> list[str]:
    """Return the topics that somebody subscribes to and that have partitions, by name."""
    wanted = {topic for topics_of in {member.topics for member in members} for topic in topics_of}
    return sorted((t for t in wanted if topics.counts.get(t, 0) > 0), key=java_order)


def racks_matter(
    topics: SubscribedTopics, partitions: Iterable[TopicPartition], members: Iterable[MemberSubscription]
) -> bool:
    """Tell whether placing by rack can help: racks are shared with the members, and not every rack has every
    partition."""
    of_members = {member.rack for member in members if member.rack}
    if not of_members or not topics.racks:
        return False
    per_partition = [topics.racks_of(p) for p in partitions]
    of_partitions: frozenset[str] = frozenset().union(*per_partition)
    return not of_members.isdisjoint(of_partitions) and any(racks != of_partitions for racks in per_partition)
