"""What the coordinator has assigned to a member, by topic ids, and what of it can be taken: what is known by name.

Each target that differs from the one before has a number of its own, so that each is acknowledged, even one that says
what the member has already.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kohort.client.requests.metadata import Metadata
from kohort.model import TopicPartition
from kohort.wire.messages.group_consumer import (
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponseAssignment,
)

TopicIdPartition = tuple[bytes, int]
"""A topic's id, and the number of one of its partitions."""


class LocalAssignment(NamedTuple):
    """Partitions by topic id, and the number of the target that they come from."""

    number: int = -1
    partitions: frozenset[TopicIdPartition] = frozenset()

    @property
    def topic_ids(self) -> set[bytes]:
        return {topic_id for topic_id, _ in self.partitions}

    def updated(self, partitions: frozenset[TopicIdPartition]) -> LocalAssignment:
        """Return the next target; this one, if it says the same."""
        if self.number >= 0 and self.partitions == partitions:
            return self
        return LocalAssignment(self.number + 1, partitions)


NO_ASSIGNMENT: Final = LocalAssignment()


class Reconcilable(NamedTuple):
    """What a member can take of a target now."""

    local: LocalAssignment
    names: list[TopicPartition]


class TopicNames:
    """Names of assigned topics: as metadata has them, or as they were last known to be."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._known: dict[bytes, str] = {}

    def keep(self, topic_ids: Iterable[bytes]) -> None:
        """Remember the names of these topics, and of no others."""
        self._known = {topic_id: name for topic_id in topic_ids if (name := self.of(topic_id)) is not None}

    def of(self, topic_id: bytes) -> str | None:
        return self._metadata.topic_name(topic_id) or self._known.get(topic_id)

    def lacks(self, assignment: LocalAssignment) -> bool:
        """Tell whether a topic is not known by name."""
        return any(self.of(topic_id) is None for topic_id in assignment.topic_ids)

    def reconcilable(self, target: LocalAssignment) -> Reconcilable:
        """Return the part of ``target`` whose topics are known."""
        names = {topic_id: name for topic_id in target.topic_ids if (name := self.of(topic_id)) is not None}
        partitions = frozenset(p for p in target.partitions if p[0] in names)
        named = sorted(TopicPartition(names[topic_id], number) for topic_id, number in partitions)
        return Reconcilable(LocalAssignment(target.number, partitions), named)


def assigned_partitions(assignment: ConsumerGroupHeartbeatResponseAssignment) -> frozenset[TopicIdPartition]:
    """Read an assignment off an answer."""
    return frozenset((topic.topic_id, number) for topic in assignment.topic_partitions for number in topic.partitions)


def by_topic_id(partitions: Iterable[TopicIdPartition]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    """Write partitions for a request."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=t, partitions=ns) for t, ns in topics.items()]
