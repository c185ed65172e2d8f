"""A part of a log that is found but not read: batches leave for a reader as its connection takes them.

Reading never gives wrong bytes: the batches of a segment do not change, and where the segment goes meanwhile
(retention, compaction, a topic that is deleted) reading ends in a StorageError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kohort.errors import StorageError
from kohort.wire.codec import Buffer


@dataclass(slots=True, eq=False)
class LogSlice:
    """Whole batches of one segment, as they are stored."""

    lend: Callable[[int, int], Buffer]
    """Reads bytes of the segment, by position and size; raises StorageError."""
    position: int
    size: int
    next_offset: int
    """The offset after the last of the batches."""
    begun: Buffer
    """The first of its bytes, as far as finding its end has read them."""

    def __len__(self) -> int:
        return self.size

    @property
    def at_hand(self) -> Buffer | None:
        """All of it, where it is read already."""
        begun, size = len(self.begun), self.size
        if begun < size:
            return None
        return self.begun if begun == size else memoryview(self.begun)[:size]

    def read(self, at: int, size: int) -> Buffer:
        """``size`` bytes from ``at``, all of which lie within the slice. Raises StorageError."""
        if at + size <= len(self.begun):
            return memoryview(self.begun)[at : at + size]
        data = self.lend(self.position + at, size)
        if len(data) < size:
            raise StorageError(f"only {len(data)} of {size} bytes are left where a batch was found")
        return data

    def load(self) -> Buffer:
        """Return all of it. Raises StorageError."""
        at_hand = self.at_hand
        return self.read(0, self.size) if at_hand is None else at_hand
