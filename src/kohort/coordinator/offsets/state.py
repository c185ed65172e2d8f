"""What a group has committed: the latest offset of each partition. Changed by replay alone."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.wire.messages.group_records import OffsetCommitValue


class GroupOffsets:
    """Offsets by topic and partition, as their records have them."""

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, OffsetCommitValue]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.by_topic.values()))

    def __iter__(self) -> Iterator[tuple[str, int, OffsetCommitValue]]:
        for topic, partitions in self.by_topic.items():
            for partition, value in partitions.items():
                yield topic, partition, value

    def get(self, topic: str, partition: int) -> OffsetCommitValue | None:
        partitions = self.by_topic.get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, topic: str, partition: int, value: OffsetCommitValue) -> None:
        self.by_topic.setdefault(topic, {})[partition] = value

    def remove(self, topic: str, partition: int) -> None:
        """Forget an offset; nothing happens if there is none."""
        partitions = self.by_topic.get(topic)
        if partitions is not None and partitions.pop(partition, None) is not None and not partitions:
            del self.by_topic[topic]
