"""What all logs of a data folder count together: numbers that only grow, read by whoever shows them."""

from __future__ import annotations

from kohort.wire.record_batch import BatchHeader


class LogCounters:
    """Appends, segments, retention and compaction."""

    __slots__ = (
        "batches",
        "bytes",
        "compacted_bytes",
        "compactions",
        "deleted_bytes",
        "deleted_segments",
        "records",
        "rolled_segments",
    )

    def __init__(self) -> None:
        self.batches = 0
        self.records = 0
        self.bytes = 0
        self.rolled_segments = 0
        self.deleted_segments = 0
        """Segments that retention took, or DeleteRecords."""
        self.deleted_bytes = 0
        self.compactions = 0
        self.compacted_bytes = 0
        """By how much compaction has made logs smaller."""

    def copy(self) -> LogCounters:
        """Return them as they are now."""
        copied = LogCounters()
        for name in self.__slots__:
            setattr(copied, name, getattr(self, name))
        return copied

    def appended(self, header: BatchHeader) -> None:
        """Count a batch that was appended."""
        self.batches += 1
        self.records += header.record_count
        self.bytes += header.size

    def deleted(self, segments: int, size: int) -> None:
        """Count segments that are gone."""
        self.deleted_segments += segments
        self.deleted_bytes += size
