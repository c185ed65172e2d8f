"""Compaction of one log in steps, and selection of its dirty part, by Kafka's rules (LogCleanerManager).

First compaction reads the dirty part and collects the last offset of every key. Then it reads all segments before the
end of the dirty part, in groups that fit one segment, and writes the filtered batches of a group to a new segment. The
new segment replaces the group once it is flushed. Appends and reads continue: the active segment is not compacted, and
each replacement is one step.

A step decompresses about ``SLICE_BYTES``, or one larger batch. If the keys exceed the memory budget, the compaction
ends earlier in the log and the next one continues there, as in Kafka.

The dirty part ends before the active segment, before records younger than ``min.compaction.lag.ms``, and before open
transactions. It is due if it exceeds ``min.cleanable.dirty.ratio`` of the log, or if its oldest record is older than
``max.compaction.lag.ms``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from kohort.errors import CorruptLog, CorruptRecord, StorageError
from kohort.log.batches import check_place, whole_batches
from kohort.log.compaction_filter import (
    EndedTransactions,
    FilteredBatch,
    RecordFilter,
    empty_batch,
    filter_batch,
    is_aborted_batch,
)
from kohort.log.index import RELATIVE_OFFSET_MAX
from kohort.log.keyed_records import body_of, keyed_records
from kohort.log.partition import PartitionLog
from kohort.log.segment import POSITION_MAX, Segment
from kohort.log.segment_swap import CLEANED, forget_cleaned
from kohort.log.storage import Storage
from kohort.wire.record_batch import BatchHeader

LONG_MAX: Final = 0x7FFFFFFFFFFFFFFF


class Dirty(NamedTuple):
    """Offsets ``start`` to ``end`` that may be compacted; ``ratio``: their share of the bytes before ``end``."""

    start: int
    end: int
    ratio: float
    overdue: bool

    def is_due(self, min_ratio: float) -> bool:
        return self.start < self.end and (self.overdue or self.ratio > min_ratio)


def dirty_part(log: PartitionLog, clean_until: int, now_ms: int) -> Dirty:
    start = log.log_start_offset
    if start < clean_until <= log.log_end_offset:  # else the end of the log was lost: compact from the log start
        start = clean_until
    end = _first_untouchable(log, start, now_ms)
    below = [(segment, after.base_offset) for segment, after in pairwise(log.segments) if segment.base_offset < end]
    clean_bytes = sum(segment.size for segment, after in below if after <= start)
    dirty = [segment for segment, after in below if after > start]
    dirty_bytes = sum(segment.size for segment in dirty)
    ratio = dirty_bytes / (clean_bytes + dirty_bytes) if dirty_bytes else 0.0
    return Dirty(start, end, ratio, _is_overdue(dirty, log.config.max_compaction_lag_ms, now_ms))


def _first_untouchable(log: PartitionLog, start: int, now_ms: int) -> int:
    lag_ms, stable = log.config.min_compaction_lag_ms, log.last_stable_offset
    for segment, after in pairwise(log.segments):
        is_young = lag_ms > 0 and segment.max_timestamp > now_ms - lag_ms
        if after.base_offset > start and (is_young or after.base_offset > stable):
            return segment.base_offset
    return log.segments[-1].base_offset


def _is_overdue(dirty: list[Segment], lag_ms: int, now_ms: int) -> bool:
    if lag_ms >= LONG_MAX:
        return False
    first = min((t for segment in dirty if (t := segment.first_timestamp()) > 0), default=now_ms)
    return first < now_ms - lag_ms


SLICE_BYTES: Final = 1 << 16
ENTRY_BYTES: Final = 150
"""Bytes of memory that each key takes besides its own bytes."""
FLUSH_STEPS: Final = 6000
"""Maximum number of steps that wait for the flush of a compacted segment; the next step blocks until it is flushed."""


class Chunk(NamedTuple):
    data: memoryview
    batches: list[tuple[int, BatchHeader]]
    is_last: bool


class Compaction:
    """Compaction of one log. Call ``step`` until it returns True; ``abandon`` ends the compaction earlier."""

    def __init__(self, log: PartitionLog, storage: Storage, dirty: Dirty, memory_bytes: int, now_ms: int) -> None:
        self.log = log
        self.clean_until = dirty.start
        self.steps = 0
        self._storage = storage
        self._dirty = dirty
        self._memory_bytes = memory_bytes
        self._now_ms = now_ms
        self._making: Segment | None = None
        self._bytes = [0, 0]
        self._records = [0, 0]
        self._unpacked = 0
        self._work = self._run()

    def step(self) -> bool:
        """Run one step; return True after the last step. Raises StorageError, or CorruptLog at a bad batch."""
        self.steps += 1
        try:
            next(self._work)
        except StopIteration:
            return True
        except CorruptRecord as error:
            raise CorruptLog(f"{self.log.tp} cannot be compacted: {error}") from error
        return False

    def abandon(self) -> None:
        """Drop the unfinished segment; the log is unchanged."""
        self._work.close()
        if self._making is not None:
            self._making.drop()
            forget_cleaned(self._storage, self.log.folder, self._making.base_offset)
            self._making = None

    @property
    def freed_bytes(self) -> int:
        return self._bytes[0] - self._bytes[1]

    def __str__(self) -> str:
        return (
            f"compacted up to offset {self.clean_until}: {self._bytes[0]} bytes became {self._bytes[1]},"
            f" {self._records[0]} records {self._records[1]}, in {self.steps} steps"
        )

    # ---------------------------------------------------------------- steps

    def _run(self) -> Generator[None, None, None]:
        latest: dict[bytes, int] = {}
        yield from self._note_keys(latest)
        retention_ms = self.log.config.delete_retention_ms
        record_filter = RecordFilter(
            latest, self.clean_until - 1, self.log.aborted, EndedTransactions(), self._now_ms, retention_ms
        )
        for group in self._groups():
            yield from self._compact(group, record_filter)

    def _note_keys(self, latest: dict[bytes, int]) -> Iterator[None]:
        room = self._memory_bytes
        for segment in self._segments(self._dirty.start):
            for chunk in self._chunks(segment, self._dirty.start):
                for at, header in chunk.batches:
                    has_keys = not header.is_control and not is_aborted_batch(header, self.log.aborted)
                    if header.next_offset > self._dirty.start and has_keys:
                        body = body_of(chunk.data[at:], header)
                        room -= _note_batch(latest, body, header)
                        yield from self._pause_after(len(body))
                    self.clean_until = header.next_offset
                    if room <= 0:
                        return
                yield
        self.clean_until = self._dirty.end

    def _segments(self, from_offset: int) -> list[Segment]:
        pairs = pairwise(self.log.segments)
        return [s for s, after in pairs if after.base_offset > from_offset and s.base_offset < self._dirty.end]

    def _chunks(self, segment: Segment, from_offset: int) -> Iterator[Chunk]:
        before = self._end_of(segment)
        at = 0
        if from_offset > segment.base_offset:
            at = next((position for position, _ in segment.headers(from_offset)), segment.size)
        expected = segment.base_offset
        while at < segment.size:
            self._check_present(segment)
            data, batches = whole_batches(segment.file(), at, segment.size, SLICE_BYTES)
            for _, header in batches:
                check_place(header, expected, segment.base_offset, before)
                expected = header.next_offset
            last_at, last = batches[-1]
            at += last_at + last.size
            yield Chunk(memoryview(data), batches, at >= segment.size)

    def _check_present(self, segment: Segment) -> None:
        """Raise StorageError if retention deleted the segment: the next compaction begins without it."""
        if all(segment is not present for present in self.log.segments):
            raise StorageError(f"{segment.log_name} was deleted during its compaction")

    def _end_of(self, segment: Segment) -> int:
        self._check_present(segment)
        return min(other.base_offset for other in self.log.segments if other.base_offset > segment.base_offset)

    def _groups(self) -> Iterator[list[Segment]]:
        group: list[Segment] = []
        size = 0
        for segment, after in pairwise(self.log.segments):
            if segment.base_offset >= self.clean_until:
                break
            reach = after.base_offset - 1 - (group[0] if group else segment).base_offset
            if group and (size + segment.size > segment.limits.segment_bytes or reach > RELATIVE_OFFSET_MAX):
                yield group
                group, size = [], 0
            group.append(segment)
            size += segment.size
        if group:
            yield group

    def _compact(self, group: list[Segment], record_filter: RecordFilter) -> Iterator[None]:
        base_offset, folder = group[0].base_offset, self.log.folder
        forget_cleaned(self._storage, folder, base_offset)
        made = Segment(self._storage, folder, base_offset, group[0].limits, self._now_ms)
        made.suffix = CLEANED
        self._making = made
        changed = len(group) > 1
        last_end = -1
        for segment in group:
            for chunk in self._chunks(segment, segment.base_offset):
                ends_group = chunk.is_last and segment is group[-1]
                for i, (at, header) in enumerate(chunk.batches):
                    batch = chunk.data[at : at + header.size]
                    is_end = ends_group and i == len(chunk.batches) - 1
                    left = self._left_of(batch, header, record_filter, is_end=is_end)
                    changed |= left.batch is not batch
                    if header.is_control and header.record_count and not left.kept:
                        last_end = header.last_offset
                    self._write(made, header, left)
                    yield from self._pause_after(left.unpacked_bytes)
                yield
        if changed:
            yield from self._swap(group, made, last_end)
        else:
            made.drop()
            forget_cleaned(self._storage, folder, base_offset)
        self._making = None

    def _left_of(
        self, batch: memoryview, header: BatchHeader, record_filter: RecordFilter, *, is_end: bool
    ) -> FilteredBatch:
        left = filter_batch(batch, header, record_filter)
        if left.batch is not None:
            return left
        if header.is_control and self._is_all_of_a_producer(header):
            return left._replace(batch=batch, max_timestamp=header.max_timestamp, kept=header.record_count)
        if is_end or self._ends_a_producer(header):
            left = left._replace(batch=empty_batch(header) if header.record_count else batch)
        return left

    def _write(self, made: Segment, header: BatchHeader, left: FilteredBatch) -> None:
        self._bytes[0] += header.size
        self._records[0] += header.record_count
        self._records[1] += left.kept
        if left.batch is not None:
            size = len(left.batch)
            if made.size + size > POSITION_MAX:
                raise StorageError(f"{self.log.tp}: a compacted segment exceeds {POSITION_MAX} bytes")
            made.append([left.batch], size, header.last_offset, left.max_timestamp)
            self._bytes[1] += size

    def _pause_after(self, unpacked_bytes: int) -> Iterator[None]:
        self._unpacked += unpacked_bytes
        if self._unpacked >= SLICE_BYTES:
            self._unpacked = 0
            yield

    def _ends_a_producer(self, header: BatchHeader) -> bool:
        """True for the last batch of a known producer: recovery reads the producer's sequence from that batch."""
        producer = self.log.producers.get(header.producer_id)
        last = producer.batches[-1] if producer is not None and producer.batches else None
        return last is not None and last.last_offset == header.last_offset

    def _is_all_of_a_producer(self, header: BatchHeader) -> bool:
        """True for a marker of a producer without retained batches: recovery reads the producer's epoch from it.

        Kafka replaces the marker by an empty batch, which does not restore the epoch.
        """
        producer = self.log.producers.get(header.producer_id)
        return producer is not None and not producer.batches and producer.epoch == header.producer_epoch

    def _swap(self, group: list[Segment], made: Segment, last_end: int) -> Iterator[None]:
        made.save_indexes()
        made.start_flush()
        for _ in range(FLUSH_STEPS):
            if made.is_flushed:
                break
            yield
        made.flush()
        self.log.replace_segments(group, made, last_end)


def _note_batch(latest: dict[bytes, int], body: bytes, header: BatchHeader) -> int:
    cost = 0
    for record in keyed_records(body, header):
        if record.key is not None:
            if record.key not in latest:
                cost += len(record.key) + ENTRY_BYTES
            latest[record.key] = header.base_offset + record.offset_delta
    return cost
