"""Committed offsets and pending offsets of a group. Only replay changes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from kohort.coordinator.records import read_plain_offset
from kohort.wire.messages.group_records import OffsetCommitValue

Kept = OffsetCommitValue | bytes
"""Committed offset: parsed, or the bytes of its record if ``is_plain_offset``. Bytes take a third of the memory."""


class Pending(NamedTuple):
    """Pending offset in a transaction.

    ``order``: rises with each pending offset. ``value``: None after a later commit.
    """

    order: int
    value: OffsetCommitValue | None


class PendingOffsets:
    """Pending offsets of one group, for each producer id."""

    __slots__ = ("_by_producer", "_written")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[tuple[str, int], Pending]] = {}
        self._written = 0

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def __iter__(self) -> Iterator[tuple[int, str, int, OffsetCommitValue | None]]:
        for producer_id, offsets in self._by_producer.items():
            for (topic, partition), pending in offsets.items():
                yield producer_id, topic, partition, pending.value

    def get(self, producer_id: int, topic: str, partition: int) -> OffsetCommitValue | None:
        pending = self._by_producer.get(producer_id, {}).get((topic, partition))
        return None if pending is None else pending.value

    def holds(self, topic: str, partition: int) -> bool:
        return any((topic, partition) in offsets for offsets in self._by_producer.values())

    def put(self, producer_id: int, topic: str, partition: int, value: OffsetCommitValue) -> None:
        self._written += 1
        self._by_producer.setdefault(producer_id, {})[topic, partition] = Pending(self._written, value)

    def overtake(self, topic: str, partition: int, order: int | None = None) -> None:
        """Discard a partition's pending offsets after a later commit.

        ``order``: order of this commit; pending offsets with a lower order are discarded (None: all).
        """
        for offsets in self._by_producer.values():
            pending = offsets.get((topic, partition))
            if pending is not None and (order is None or pending.order < order):
                offsets[topic, partition] = Pending(pending.order, None)

    def remove(self, topic: str, partition: int) -> None:
        for producer_id, offsets in list(self._by_producer.items()):
            offsets.pop((topic, partition), None)
            if not offsets:
                del self._by_producer[producer_id]

    def take(self, producer_id: int) -> dict[tuple[str, int], Pending]:
        return self._by_producer.pop(producer_id, {})


class GroupOffsets:
    """Committed offsets of a group, for each topic and partition."""

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, Kept]] = {}
        self.pending: PendingOffsets | None = None
        """Pending offsets in open transactions; None if no open transaction has offsets of this group."""

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

    @property
    def is_blank(self) -> bool:
        return not self.by_topic and self.pending is None

    def is_pending(self, topic: str, partition: int) -> bool:
        return self.pending is not None and self.pending.holds(topic, partition)

    def may_hold(self, topics: Collection[str]) -> bool:
        """Return True if the group has pending offsets, or committed offsets in one of the topics."""
        return self.pending is not None or not self.by_topic.keys().isdisjoint(topics)

    def deletable(self) -> Iterator[tuple[str, int]]:
        """Yield each topic and partition whose committed or pending offset needs a tombstone."""
        for topic, partitions in self.by_topic.items():
            for partition in partitions:
                yield topic, partition
        held = {(topic, partition) for _, topic, partition, _ in self.pending or ()}
        yield from sorted(place for place in held if place[1] not in self.by_topic.get(place[0], {}))

    def put(self, topic: str, partition: int, value: OffsetCommitValue, order: int | None = None) -> None:
        self.by_topic.setdefault(topic, {})[partition] = value
        if self.pending is not None:
            self.pending.overtake(topic, partition, order)

    def remove(self, topic: str, partition: int) -> None:
        if self.pending is not None:
            self.pending.remove(topic, partition)
            self.pending = self.pending or None
        partitions = self.by_topic.get(topic)
        if partitions is not None and partitions.pop(partition, None) is not None and not partitions:
            del self.by_topic[topic]


NO_OFFSETS: Final = GroupOffsets()


def _value(kept: Kept) -> OffsetCommitValue:
    return read_plain_offset(kept) if type(kept) is bytes else kept  # type: ignore[return-value]  # one or the other
