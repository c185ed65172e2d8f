"""What a group has committed: the latest offset of each partition. Changed by replay alone."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.coordinator.records import read_plain_offset
from kohort.wire.messages.group_records import OffsetCommitValue

Kept = OffsetCommitValue | bytes
"""An offset as a value, or as its record's bytes where these are plain (``is_plain_offset``): a third of the memory,
and nothing for the garbage collector to visit. Many a group of a long log is never asked for."""


class GroupOffsets:
    """Offsets by topic and partition, as their records have them."""

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, Kept]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.by_topic.values()))

    def __iter__(self) -> Iterator[tuple[str, int, OffsetCommitValue]]:
        for topic, partitions in self.by_topic.items():
            for partition, kept in partitions.items():
                yield topic, partition, _value(kept)

    def get(self, topic: str, partition: int) -> OffsetCommitValue | None:
        partitions = self.by_topic.get(topic)
        kept = None if partitions is None else partitions.get(partition)
        return None if kept is None else _value(kept)

    def put(self, topic: str, partition: int, value: OffsetCommitValue) -> None:
        self.by_topic.setdefault(topic, {})[partition] = value

    def remove(self, topic: str, partition: int) -> None:
        """Forget an offset; nothing happens if there is none."""
        partitions = self.by_topic.get(topic)
        if partitions is not None and partitions.pop(partition, None) is not None and not partitions:
            del self.by_topic[topic]


def _value(kept: Kept) -> OffsetCommitValue:
    return read_plain_offset(kept) if type(kept) is bytes else kept  # type: ignore[return-value]  # one or the other
