"""What a log is opened with: what is known of it from elsewhere, and who is told what happens to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kohort.clock import WallTime
from kohort.log.aborted import AbortedPages
from kohort.log.producers import Room
from kohort.model import TopicPartition
from kohort.notes import Note
from kohort.wire.record_batch import BatchHeader


class LogCounters:
    __slots__ = (
        "batches", "bytes", "compacted_bytes", "compactions", "deleted_bytes", "deleted_segments", "records",
        "rolled_segments",
    )  # fmt: skip

    def __init__(self) -> None:
        self.batches = 0
        self.records = 0
        self.bytes = 0
        self.rolled_segments = 0
        self.deleted_segments = 0
        self.deleted_bytes = 0
        self.compactions = 0
        self.compacted_bytes = 0

    def copy(self) -> LogCounters:
        copied = LogCounters()
        for name in self.__slots__:
            setattr(copied, name, getattr(self, name))
        return copied

    def appended(self, header: BatchHeader) -> None:
        self.batches += 1
        self.records += header.record_count
        self.bytes += header.size

    def deleted(self, segments: int, size: int) -> None:
        self.deleted_segments += segments
        self.deleted_bytes += size


class KnownAtStart(NamedTuple):
    """Checkpoints of a log, read before it is opened."""

    clean: bool = False
    recovery_point: int = 0
    """All records before this offset are flushed."""
    start_offset: int = 0


class LogListener(NamedTuple):
    """Callbacks and shared limits of a log."""

    on_flush_due: Callable[[TopicPartition, int], None] | None = None
    """Schedules ``flush_if_due``."""
    tell: Callable[[Note], None] | None = None
    """Reports disk errors of requests."""
    counters: LogCounters = LogCounters()
    producer_room: Room | None = None
    aborted_pages: AbortedPages | None = None
    """Without it each query reads the files."""
    wall: WallTime = WallTime()


NOTHING_KNOWN: Final = KnownAtStart()
NOBODY: Final = LogListener()
