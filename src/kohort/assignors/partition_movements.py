"""What moved from whom to whom while an assignment is balanced, so that no two moves of a topic undo each other."""

from __future__ import annotations

from typing import NamedTuple

from kohort.assignors.spec import java_bucket, table_size
from kohort.model import TopicPartition, java_string_hash


class _Pair(NamedTuple):
    source: str
    target: str


class _Moved:
    """Partitions that went one way. The first of them is the one that Java's HashSet would iterate first."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, None] = {}
        self._most = 0
        """A HashSet that grew does not shrink again."""

    def add(self, partition: TopicPartition) -> None:
        self.partitions[partition] = None
        self._most = max(self._most, len(self.partitions))

    def first(self) -> TopicPartition:
        size = table_size(self._most)
        return min(self.partitions, key=lambda p: java_bucket(_hash_code(p), size))


def _hash_code(partition: TopicPartition) -> int:
    """Java's TopicPartition.hashCode."""
    return 31 * (31 + partition.partition) + java_string_hash(partition.topic)


class PartitionMovements:
    """The net movement of each partition: a chain counts from its first source, a return cancels."""

    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, _Pair] = {}
        self._by_topic: dict[str, dict[_Pair, _Moved]] = {}

    def better(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move instead: one of the same topic that came the opposite way, if there is one."""
        if partition in self._by_partition:
            source = self._by_partition[partition].source
        opposite = self._by_topic.get(partition.topic, {}).get(_Pair(target, source))
        return opposite.first() if opposite else partition

    def record(self, partition: TopicPartition, source: str, target: str) -> None:
        earlier = self._by_partition.pop(partition, None)
        if earlier is not None:
            of_topic = self._by_topic[partition.topic]
            del of_topic[earlier].partitions[partition]
            if not of_topic[earlier].partitions:
                del of_topic[earlier]
            source = earlier.source
        if source == target:
            return
        pair = _Pair(source, target)
        self._by_partition[partition] = pair
        self._by_topic.setdefault(partition.topic, {}).setdefault(pair, _Moved()).add(partition)
