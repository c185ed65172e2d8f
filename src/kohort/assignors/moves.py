"""What moved from whom to whom while an assignment is balanced, so that no two moves of a topic undo each other."""

from __future__ import annotations

from typing import NamedTuple

from kohort.model import TopicPartition


class _Pair(NamedTuple):
    source: str
    target: str


class Moves:
    """The net movement of each partition: a chain counts from its first source, a return cancels."""

    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, _Pair] = {}
        self._by_topic: dict[str, dict[_Pair, dict[TopicPartition, None]]] = {}

    def better(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """The partition to move instead: one of the same topic that came the opposite way, if there is one."""
        if partition in self._by_partition:
            source = self._by_partition[partition].source
        opposite = self._by_topic.get(partition.topic, {}).get(_Pair(target, source))
        return next(iter(opposite)) if opposite else partition

    def record(self, partition: TopicPartition, source: str, target: str) -> None:
        earlier = self._by_partition.pop(partition, None)
        if earlier is not None:
            partitions = self._by_topic[partition.topic][earlier]
            del partitions[partition]
            source = earlier.source
        if source == target:
            return
        pair = _Pair(source, target)
        self._by_partition[partition] = pair
        self._by_topic.setdefault(partition.topic, {}).setdefault(pair, {})[partition] = None
