"""Which snapshots of its producers a partition keeps: Kafka's ``OFFSET.snapshot`` files (their content: producers.py).

A start takes the latest that can be read, and reads the batches behind it again. So each of them must lie behind every
marker that compaction has dropped: what it says to be open would stay open.
"""

from __future__ import annotations

from typing import Final

from kohort.log.producers import Producers
from kohort.log.segment import segment_name
from kohort.log.storage import Storage

SNAPSHOTS_KEPT: Final = 2


class ProducerSnapshots:
    """Those of one partition, oldest first."""

    __slots__ = ("_folder", "_offsets", "_storage")

    def __init__(self, storage: Storage, folder: str, offsets: list[int]) -> None:
        """``offsets`` are those found at the start."""
        self._storage = storage
        self._folder = folder
        self._offsets = sorted(offsets)

    def take(self, producers: Producers, offset: int) -> None:
        """Write down the producers as of ``offset``, the log's end; of older snapshots the last one stays.

        Raises StorageError.
        """
        self._storage.replace(self._name(offset), producers.build_snapshot(), durable=False)
        if offset not in self._offsets:
            self._offsets.append(offset)
        self._offsets.sort()
        while len(self._offsets) > SNAPSHOTS_KEPT:
            self._storage.delete(self._name(self._offsets.pop(0)))

    def forget_before(self, offset: int) -> None:
        """Let those go that were taken before ``offset``. Raises StorageError."""
        while self._offsets and self._offsets[0] < offset:
            self._storage.delete(self._name(self._offsets[0]))
            self._offsets.pop(0)

    def _name(self, offset: int) -> str:
        return f"{self._folder}/{segment_name(offset)}.snapshot"
