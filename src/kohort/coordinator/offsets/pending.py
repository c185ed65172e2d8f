"""Offsets that were committed in a transaction which is still open: they count once it is committed (KIP-98, KIP-447).

Changed by replay alone, as all that is written. Of two offsets of one partition that count, the one that stands later
in the log wins, whichever transaction ended first; but the partition is not stable until every transaction has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kohort.wire.messages.group_records import OffsetCommitValue


class Pending(NamedTuple):
    """One offset. ``order``: its place among those of the group on the log; without a value it was overtaken."""

    order: int
    value: OffsetCommitValue | None


class PendingOffsets:
    """Those of one group, by producer."""

    __slots__ = ("_by_producer", "_written")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[tuple[str, int], Pending]] = {}
        self._written = 0

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def __iter__(self) -> Iterator[tuple[int, str, int, OffsetCommitValue | None]]:
        """Yield producer, topic, partition, and the value, or None where a later commit has won already."""
        for producer_id, offsets in self._by_producer.items():
            for (topic, partition), pending in offsets.items():
                yield producer_id, topic, partition, pending.value

    def get(self, producer_id: int, topic: str, partition: int) -> OffsetCommitValue | None:
        pending = self._by_producer.get(producer_id, {}).get((topic, partition))
        return None if pending is None else pending.value

    def holds(self, topic: str, partition: int) -> bool:
        """Tell whether a transaction that is open has committed an offset of this partition."""
        return any((topic, partition) in offsets for offsets in self._by_producer.values())

    def put(self, producer_id: int, topic: str, partition: int, value: OffsetCommitValue) -> None:
        self._written += 1
        self._by_producer.setdefault(producer_id, {})[topic, partition] = Pending(self._written, value)

    def overtake(self, topic: str, partition: int, order: int | None = None) -> None:
        """Let an offset count that stands behind those up to ``order`` (None: all of them) on the log."""
        for offsets in self._by_producer.values():
            pending = offsets.get((topic, partition))
            if pending is not None and (order is None or pending.order < order):
                offsets[topic, partition] = Pending(pending.order, None)

    def remove(self, topic: str, partition: int) -> None:
        """Forget what is pending of an offset that was deleted."""
        for producer_id, offsets in list(self._by_producer.items()):
            offsets.pop((topic, partition), None)
            if not offsets:
                del self._by_producer[producer_id]

    def take(self, producer_id: int) -> dict[tuple[str, int], Pending]:
        """Take out what the producer's transaction has committed: it has ended."""
        return self._by_producer.pop(producer_id, {})
