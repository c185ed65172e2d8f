"""Flushes that appends share: one is under way, and the next takes all that was appended meanwhile.

Nothing waits here: a flush is begun, and asked later whether it is through. Storage flushes files in the order asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.errors import StorageError
from kohort.log.segment import Segment


class GroupCommit:
    """The flush of a log that is under way, if there is one."""

    def __init__(self) -> None:
        self._under_way: list[tuple[Segment, int]] = []
        self._end_offset = 0
        self._failed_to = 0

    @property
    def is_under_way(self) -> bool:
        return bool(self._under_way)

    def begin(self, segments: Sequence[Segment], end_offset: int) -> None:
        """Take ``segments``, which end at ``end_offset``, to the disk. Raises StorageError if that cannot be begun."""
        assert not self._under_way, "one at a time"
        self._failed_to = 0
        for segment in segments:
            segment.start_flush()
        self._under_way = [(segment, segment.size) for segment in segments]
        self._end_offset = end_offset

    def check(self, offset: int) -> None:
        """Raise StorageError if ``offset`` was to be taken to the disk by a flush that failed, the last one begun."""
        if offset < self._failed_to:
            raise StorageError("the disk refused a flush")

    def through(self) -> int | None:
        """Return the offset up to which the flush has brought the log to the disk, once; None while it goes on, or
        failed."""
        waiting = [(segment, size) for segment, size in self._under_way if not segment.is_flushed_to(size)]
        if not self._under_way or any(segment.is_flushing for segment, _ in waiting):
            return None
        self._under_way = []
        if waiting:
            self._failed_to = self._end_offset
            return None
        return self._end_offset
