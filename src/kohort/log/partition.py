"""Log of one partition: append, read, lookup, retention.

A partition has one replica, so the high watermark is the log's end. The last stable offset is the first offset of the
earliest open transaction. A batch is stored unchanged except for offset and leader epoch, unless ``compression.type``
of the topic requires another codec (recoding.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

from kohort.clock import WallTime
from kohort.config.topic import TopicConfig
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.aborted import NO_PAGES, AbortedPages, AbortedTransaction
from kohort.log.batches import LogSlice
from kohort.log.epochs import EPOCHS_FILE
from kohort.log.producers import ProducerRoom, ProducerSnapshots
from kohort.log.recoding import CODECS, PreparedBatch, opened
from kohort.log.recovery import LogToRecover, recover
from kohort.log.segment import Segment, SegmentLimits, segment_name
from kohort.log.segment_queries import FoundOffset, below_start, find_by_time, find_max_timestamp, too_many, too_old
from kohort.log.segment_swap import begin_swap, finish_swap
from kohort.log.storage import Storage
from kohort.log.validation import checked_header, with_append_time
from kohort.model import TopicPartition
from kohort.notes import Note, info, warning
from kohort.steps import Steps, at_once
from kohort.wire.codec import Buffer
from kohort.wire.record_batch import BatchHeader, Marker, build_marker, with_offset


@dataclass(slots=True, eq=False)
class LogCounters:
    batches: int = 0
    records: int = 0
    bytes: int = 0
    rolled_segments: int = 0
    deleted_segments: int = 0
    deleted_bytes: int = 0
    compactions: int = 0
    compacted_bytes: int = 0


class LogCheckpoint(NamedTuple):
    clean: bool = False
    recovery_point: int = 0
    """All records before this offset are flushed."""
    start_offset: int = 0


class LogHooks(NamedTuple):
    """Callbacks of a log, and objects that all logs of a data folder share."""

    on_flush_due: Callable[[TopicPartition, int], None] | None = None
    """Function that schedules a call of ``flush_if_due``."""
    report: Callable[[Note], None] | None = None
    """Function that reports disk errors of requests."""
    counters: LogCounters = LogCounters()
    producer_room: ProducerRoom | None = None
    aborted_pages: AbortedPages = NO_PAGES
    wall: WallTime = WallTime()


UNKNOWN_START: Final = LogCheckpoint()
NO_HOOKS: Final = LogHooks()


class AppendResult(NamedTuple):
    """Offsets of an appended batch; ``log_append_time_ms`` is -1 if records keep their own timestamps."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False
    awaits_flush: bool = False
    """True if the response waits until ``has_reached_disk(last_offset)``."""


class GroupCommit:
    def __init__(self) -> None:
        self._flushing: list[tuple[Segment, int]] = []
        self._end_offset = 0
        self._failed_to = 0

    @property
    def is_in_flight(self) -> bool:
        return bool(self._flushing)

    def begin(self, segments: Sequence[Segment], end_offset: int) -> None:
        """Flush ``segments``, which end at ``end_offset``. Raises StorageError if the flush cannot begin."""
        assert not self._flushing, "a flush is in flight"
        self._failed_to = 0
        for segment in segments:
            segment.start_flush()
        self._flushing = [(segment, segment.size) for segment in segments]
        self._end_offset = end_offset

    def check(self, offset: int) -> None:
        """Raise StorageError if ``offset`` was part of the last flush and that flush failed."""
        if offset < self._failed_to:
            raise StorageError("a flush failed")

    def through(self) -> int | None:
        """Return the end offset of a completed flush, once; None while a flush is in flight, or after a failure."""
        waiting = [(segment, size) for segment, size in self._flushing if not segment.is_flushed_to(size)]
        if not self._flushing or any(segment.is_flushing for segment, _ in waiting):
            return None
        self._flushing = []
        if waiting:
            self._failed_to = self._end_offset
            return None
        return self._end_offset


R = TypeVar("R")

LONG_MAX: Final = 0x7FFFFFFFFFFFFFFF
_base_offset: Final = attrgetter("base_offset")


class PartitionLog:
    """Log of one partition, recovered by its constructor; ``notes`` reports the recovery."""

    def __init__(
        self,
        tp: TopicPartition,
        storage: Storage,
        config: TopicConfig,
        now_ms: int,
        known: LogCheckpoint = UNKNOWN_START,
        listener: LogHooks = NO_HOOKS,
    ) -> None:
        self.tp = tp
        self.folder = str(tp)
        self._storage = storage
        self._on_flush_due, self._report, self.counters, room, aborted_pages, self._wall = listener
        self._configure(config)
        source = LogToRecover(
            storage,
            self.folder,
            self._limits,
            known.clean,
            known.recovery_point,
            known.start_offset,
            not self._compacts,
        )
        found = recover(source, self._wall.at(now_ms))
        self._segments: list[Segment] = found.segments
        self._next_offset = found.next_offset
        self._start_offset = found.start_offset
        self._snapshots = ProducerSnapshots(storage, self.folder, found.snapshots)
        self.recovery_point = found.recovery_point
        """All records before this offset are flushed."""
        self.producers, self.aborted, self.epochs = found.producers, found.aborted, found.epochs
        self.producers.room, self.aborted.pages = room, aborted_pages
        self.notes = [note.about(tp) for note in found.notes]
        """Repairs by recovery that were not reported yet."""
        self._unflushed_records = self._next_offset - self.recovery_point
        self._flush_due_ms: int | None = None
        self._commit = GroupCommit()
        self._awaited_to = 0
        """Offset after the last record whose response waits for a flush."""
        self._epochs_saved = not found.new_epoch
        if found.new_epoch:
            try:
                self._save_epochs()
            except StorageError as error:
                self.notes.append(warning(f"{error}; the next append writes the file").about(tp))

    def __repr__(self) -> str:
        return f"PartitionLog({self.tp}, {self._start_offset} to {self._next_offset}, {len(self._segments)} segments)"

    def _configure(self, config: TopicConfig) -> None:
        self._config = config
        self._log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._codec = CODECS[config.compression_type]
        self._compacts = "compact" in config.cleanup_policy
        segment_ms = min(config.segment_ms, config.max_compaction_lag_ms) if self._compacts else config.segment_ms
        self._limits = SegmentLimits(
            config.segment_bytes, segment_ms, config.index_interval_bytes, config.segment_index_bytes
        )

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        """Apply new options to later batches, and to segments at the next retention check."""
        self._configure(config)
        for segment in self._segments:
            segment.limits = self._limits

    # ---------------------------------------------------------------- offsets

    @property
    def log_start_offset(self) -> int:
        return self._start_offset

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record."""
        return self._next_offset

    high_watermark = log_end_offset
    """The log's end: the broker is the only replica."""

    @property
    def last_stable_offset(self) -> int:
        """First offset of the earliest open transaction, else the log's end. ``read_committed`` reads end here."""
        first_open = self.producers.first_open
        return self._next_offset if first_open is None else max(first_open, self._start_offset)

    @property
    def leader_epoch(self) -> int:
        return self.epochs.latest or 0

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments, oldest first; appends go to the last."""
        return tuple(self._segments)

    # ---------------------------------------------------------------- append

    def append(self, batch: Buffer, now_ms: int, *, from_client: bool = True) -> AppendResult:
        """Append one batch. Raises ApiError (protocol/records.md#rejected-batches)."""
        header = checked_header(batch, self._config, self._wall.at(now_ms), from_client=from_client)
        if from_client and self.decompresses_batches:
            batch, header = at_once(self._opened(batch, header))
        return self._store(batch, header, now_ms, from_client=from_client)

    @property
    def decompresses_batches(self) -> bool:
        """True if appends decompress producers' batches: call ``prepare``, then ``append_prepared``."""
        return self._compacts or self._codec is not None

    def prepare(self, batch: Buffer, now_ms: int) -> Steps[PreparedBatch]:
        """Check a producer's batch, and decompress it if needed, in steps. Raises ApiError."""
        header = checked_header(batch, self._config, self._wall.at(now_ms), from_client=True)
        return (yield from self._opened(batch, header))

    def append_prepared(self, prepared: PreparedBatch, now_ms: int) -> AppendResult:
        return self._store(*prepared, now_ms, from_client=True)

    def _opened(self, batch: Buffer, header: BatchHeader) -> Steps[PreparedBatch]:
        return opened(batch, header, self._codec, self._config.max_message_bytes, with_keys=self._compacts)

    def _store(self, batch: Buffer, header: BatchHeader, now_ms: int, *, from_client: bool) -> AppendResult:
        if header.producer_id >= 0 and not header.is_control:
            repeated = self.producers.check(header, now_ms, in_sequence=from_client)
            if repeated is not None:
                waits = self._maybe_flush(now_ms, repeated.last_offset)
                time_ms = repeated.timestamp_ms if self._log_append_time else -1
                return AppendResult(
                    repeated.base_offset, repeated.last_offset, time_ms, self._start_offset, True, waits
                )
        base_offset, size = self._next_offset, header.size
        last_offset = base_offset + header.last_offset_delta
        wall_ms = self._wall.at(now_ms)
        max_timestamp = wall_ms if self._log_append_time else header.max_timestamp
        try:
            if self._segments[-1].must_roll(size, last_offset, max_timestamp, wall_ms):
                self._roll(wall_ms)
            self._begin_epoch()
            self._segments[-1].append(self._placed(batch, header, wall_ms), size, last_offset, max_timestamp)
        except StorageError as error:
            raise self._refused("append", "batch rejected", error) from error
        self._next_offset = last_offset + 1
        self.counters.batches += 1
        self.counters.records += header.record_count
        self.counters.bytes += size
        append_time_ms = wall_ms if self._log_append_time else -1
        if header.producer_id >= 0:
            self.producers.record(header, base_offset, max_timestamp, now_ms)
        self._unflushed_records += header.record_count
        waits = self._maybe_flush(now_ms, last_offset)
        return AppendResult(base_offset, last_offset, append_time_ms, self._start_offset, awaits_flush=waits)

    def end_transaction(self, marker: Marker, now_ms: int) -> AppendResult:
        """Append the marker that ends a producer's transaction. Raises ApiError; retries are safe."""
        self.producers.check_marker(marker)
        wall_ms = self._wall.at(now_ms)
        appended = self.append(build_marker(marker, wall_ms), now_ms, from_client=False)
        entry = self.producers.aborted_by(marker, appended.base_offset)
        if entry is not None:
            self._guarded(lambda: self.aborted.add(entry, segment_name(self._segments[-1].base_offset)))
        self.producers.end(marker, wall_ms, now_ms)
        return appended

    def _placed(self, batch: Buffer, header: BatchHeader, wall_ms: int) -> list[Buffer]:
        if self._log_append_time:
            return with_append_time(batch, header, self._next_offset, self.leader_epoch, wall_ms)
        return with_offset(batch, self._next_offset, self.leader_epoch)

    def _begin_epoch(self) -> None:
        if self.epochs.latest is None:
            self.epochs.assign(0, self._next_offset)
            self._epochs_saved = False
        if not self._epochs_saved:
            self._save_epochs()

    def _save_epochs(self) -> None:
        self._storage.replace(f"{self.folder}/{EPOCHS_FILE}", self.epochs.build(), durable=False)
        self._epochs_saved = True

    def begin_leader_epoch(self) -> None:
        """Begin the next leader epoch. Raises ApiError if it cannot be persisted."""
        self.epochs.assign(self.leader_epoch + 1, self._next_offset)
        self._guarded(self._save_epochs)

    def _maybe_flush(self, now_ms: int, last_offset: int) -> bool:
        """Begin a flush if ``flush.messages`` is reached; return True if the response waits for it."""
        if self._unflushed_records >= self._config.flush_messages:
            self._awaited_to = self._next_offset
            self._guarded(self._begin_flush)
        elif self._unflushed_records and self._config.flush_ms < LONG_MAX and self._flush_due_ms is None:
            self._flush_due_ms = now_ms + self._config.flush_ms
            if self._on_flush_due is not None:
                self._on_flush_due(self.tp, self._flush_due_ms)
        return last_offset < self._awaited_to and not self.has_reached_disk(last_offset)

    def awaited_offset(self, now_ms: int) -> int | None:
        """Return the last offset that must be flushed before a response is sent, else None; retry a failed flush."""
        last = self._awaited_to - 1
        return last if last >= self.recovery_point and self._maybe_flush(now_ms, last) else None

    def roll(self, now_ms: int) -> None:
        """Close the active segment, flush it in the background, and begin another at the log's end."""
        self._roll(self._wall.at(now_ms))

    def _roll(self, wall_ms: int) -> None:
        assert self._segments[-1].size, "an empty segment is not rolled"
        self._segments[-1].seal()
        self.counters.rolled_segments += 1
        segment = Segment(self._storage, self.folder, self._next_offset, self._limits, wall_ms)
        segment.make()
        self._segments.append(segment)
        self._snapshots.take(self.producers, self._next_offset)

    # ---------------------------------------------------------------- read

    def read(self, offset: int, max_bytes: int, *, end: int | None = None, at_least_one: bool = True) -> list[Buffer]:
        found = self.slices(offset, max_bytes, end=end, at_least_one=at_least_one, preload=max_bytes)
        return self._guarded(lambda: [one.load() for one in found])

    def slices(
        self, offset: int, max_bytes: int, *, end: int | None = None, at_least_one: bool = True, preload: int = 0
    ) -> list[LogSlice]:
        """Return the stored batches from the one with ``offset`` up to those that begin before ``end``.

        The batches have at most ``max_bytes``, but with ``at_least_one`` the first may be larger. About
        ``preload`` bytes are read at once, the rest on demand. The result is empty at the log's end. Raises ApiError
        OFFSET_OUT_OF_RANGE outside the log.
        """
        if not self._start_offset <= offset <= self._next_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.tp} has offsets {self._start_offset} to {self._next_offset}, not {offset}",
            )
        end = self._next_offset if end is None else min(end, self._next_offset)
        found: list[LogSlice] = []
        i = self._index_of(offset)
        try:
            while offset < end and (max_bytes > 0 or (at_least_one and not found)):
                reach = self._segments[i + 1].base_offset if i + 1 < len(self._segments) else self._next_offset
                batches, exhausted = self._segments[i].slice(
                    offset, max_bytes, end, reach, at_least_one=at_least_one and not found, preload=preload
                )
                if batches is not None:
                    found.append(batches)
                    max_bytes -= len(batches)
                    preload = max(preload - len(batches), 0)
                i += 1
                if not exhausted or i == len(self._segments):
                    break
                offset = self._segments[i].base_offset
        except StorageError as error:
            if not found:  # the next read from that offset raises the error
                raise self._refused("read", f"cannot read offset {offset}", error) from error
        return found

    def _index_of(self, offset: int) -> int:
        if offset >= self._segments[-1].base_offset:
            return len(self._segments) - 1
        return max(bisect_right(self._segments, offset, key=_base_offset) - 1, 0)

    def bytes_available(self, offset: int) -> int:
        """Return the approximate number of bytes from ``offset`` on; exactly 0 at the log's end."""
        if not self._start_offset <= offset < self._next_offset:
            return 0
        i = self._index_of(offset)
        first = self._guarded(lambda: self._segments[i].bytes_from(offset))
        return first + sum(segment.size for segment in self._segments[i + 1 :])

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        return self._guarded(lambda: self.aborted.between(start, end))

    def find_by_time(self, timestamp_ms: int) -> FoundOffset | None:
        return self._guarded(lambda: find_by_time(self._segments, timestamp_ms, self._start_offset))

    def max_timestamp(self) -> FoundOffset | None:
        return self._guarded(lambda: find_max_timestamp(self._segments, self._start_offset))

    def _guarded(self, action: Callable[[], R]) -> R:
        try:
            return action()
        except StorageError as error:
            raise self._refused("other", "request rejected", error) from error

    def _refused(self, task: str, problem: str, error: StorageError) -> ApiError:
        if self._report is not None:
            self._report(warning(f"{problem}: {error}", ("disk", task)).about(self.tp))
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.tp}: {error}")

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the greatest epoch up to ``epoch`` and its end offset; (-1, -1) if ``epoch`` is unknown."""
        if self.epochs.latest is None:
            return (0, self._next_offset) if epoch == 0 else (-1, -1)
        return self.epochs.end_of(epoch, self._next_offset)

    # ---------------------------------------------------------------- retention

    def delete_records_before(self, offset: int) -> int:
        """Advance the log start to ``offset`` (-1: the log's end) and return it. Retention frees the bytes."""
        offset = self._next_offset if offset == -1 else offset
        if not 0 <= offset <= self._next_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.tp} ends at offset {self._next_offset}, before {offset}"
            )
        if offset > self._start_offset:
            self._start_offset = offset
            self._guarded(self._after_new_start)
        return self._start_offset

    def retain(self, now_ms: int) -> list[Note]:
        policy, wall_ms = self._config.cleanup_policy, self._wall.at(now_ms)
        rules = [(below_start(self._segments, self._start_offset), "below the log's start")]
        if "delete" in policy:
            by_age = too_old(self._segments, wall_ms, self._config.retention_ms)
            by_size = too_many(self._segments, self._config.retention_bytes)
            rules.append((by_age, f"older than {self._config.retention_ms} ms"))
            rules.append((by_size, f"more than {self._config.retention_bytes} bytes"))
        count, reason = max(rules, key=lambda rule: rule[0])
        if not count:
            return []
        size = self._delete_oldest(count, wall_ms)
        start = self._start_offset
        return [info(f"{self.tp}: deleted {count} segments ({size} bytes), {reason}; the log starts at {start}")]

    def _delete_oldest(self, count: int, wall_ms: int) -> int:
        if count == len(self._segments):
            self._roll(wall_ms)
        oldest = self._segments[:count]
        size = sum(segment.size for segment in oldest)
        del self._segments[:count]
        self.aborted.forget(0, self._segments[0].base_offset)
        self._start_offset = max(self._start_offset, self._segments[0].base_offset)
        for segment in oldest:
            segment.start_delete()
        self.counters.deleted_segments += count
        self.counters.deleted_bytes += size
        self._after_new_start()
        return size

    def replace_segments(self, old: Sequence[Segment], made: Segment, last_end: int = -1) -> None:
        """Replace adjacent segments by a compacted one. A StorageError changes nothing.

        Raises StorageError if retention deleted one of ``old``. ``last_end``: offset of the last marker that compaction
        dropped. Producer snapshots before this offset are deleted, because recovery from them would miss the marker.
        """
        bases = [segment.base_offset for segment in old]
        first = next((i for i, segment in enumerate(self._segments) if segment is old[0]), -1)
        if first < 0 or any(a is not b for a, b in zip(self._segments[first : first + len(old)], old, strict=False)):
            raise StorageError(f"segments {bases} were deleted during their compaction")
        made.close()
        made.limits = self._limits  # the limits may have changed during the compaction
        self._snapshots.forget_before(last_end + 1)
        begin_swap(self._storage, self.folder, made)
        self._segments[first : first + len(old)] = [made]
        self.aborted.forget(made.base_offset, self._segments[first + 1].base_offset)
        try:
            finish_swap(self._storage, self.folder, old, made)
        except StorageError as error:
            self.notes.append(warning(f"{self.tp}: the next start finishes a compaction: {error}"))

    def _after_new_start(self) -> None:
        self.recovery_point = max(self.recovery_point, self._start_offset)
        if self.epochs.truncate_start(self._start_offset):
            self._save_epochs()

    # ---------------------------------------------------------------- flushes

    def flush(self) -> None:
        for segment in self._unflushed_segments():
            segment.flush()
        self.recovery_point = self._next_offset
        self._unflushed_records = 0
        self._flush_due_ms = None

    def _unflushed_segments(self) -> list[Segment]:
        return self._segments[self._index_of(self.recovery_point) :]

    def _begin_flush(self) -> None:
        if not self._commit.is_in_flight:
            self._commit.begin(self._unflushed_segments(), self._next_offset)
            self._unflushed_records = 0
            self._flush_due_ms = None

    def has_reached_disk(self, offset: int) -> bool:
        """Return True if the record at ``offset`` is flushed; otherwise a flush is in flight.

        Raises ApiError if that flush failed; the next append begins another.
        """
        self.recovery_point = max(self.recovery_point, self._commit.through() or 0)
        if offset < self.recovery_point:
            return True
        try:
            self._commit.check(offset)
        except StorageError as error:
            self._unflushed_records = self._next_offset - self.recovery_point
            problem = f"flush up to offset {offset} failed; the requests of its batches fail"
            raise self._refused("flush", problem, error) from error
        self._guarded(self._begin_flush)
        return False

    def flush_if_due(self, now_ms: int) -> None:
        """Start a flush if ``flush.ms`` passed since the first unflushed append."""
        if self._flush_due_ms is not None and now_ms >= self._flush_due_ms:
            self._flush_due_ms = None
            for segment in self._unflushed_segments():
                segment.start_flush()

    def advance_recovery_point(self) -> None:
        """Advance the recovery point over flushed segments."""
        i = self._index_of(self.recovery_point)
        while i + 1 < len(self._segments) and self._segments[i].is_flushed:
            i += 1
            self.recovery_point = max(self.recovery_point, self._segments[i].base_offset)

    def release(self) -> None:
        """Close files and indexes that no request used since the last call."""
        for segment in self._segments:
            segment.release()

    def take_notes(self) -> list[Note]:
        """Return the repair notes that were added since the last call."""
        notes, self.notes = self.notes, []
        for segment in self._segments:
            notes += [note.about(self.tp) for note in segment.notes]
            segment.notes.clear()
        return notes

    def close(self) -> None:
        if self._next_offset > self.recovery_point:
            self.flush()
        if self._next_offset:
            self._snapshots.take(self.producers, self._next_offset)
        for segment in self._segments:
            segment.close()

    def drop(self) -> None:
        """Close without a flush: the folder is about to be deleted."""
        for segment in self._segments:
            segment.drop()
