"""One segment: a ``.log`` file with its ``.index`` and ``.timeindex``, named by its base offset.

A segment opens its file and reads its indexes at first use; ``release`` closes both. Index entries are added in memory
and written by ``save_indexes``, so an index file may lag behind. After an unclean stop recovery rebuilds the indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, TypeVar

from kohort.errors import CorruptLog, CorruptRecord, StorageError
from kohort.log.batches import SEARCH_BYTES, LogSlice, Search, check_place, headers
from kohort.log.index import OFFSET_ENTRY_SIZE, RELATIVE_OFFSET_MAX, TIME_ENTRY_SIZE, OffsetIndex, TimeIndex
from kohort.log.storage import Storage, StorageFile
from kohort.notes import Note, info, warning
from kohort.wire.codec import Buffer
from kohort.wire.record_batch import BatchHeader

REMEMBERED_ENDS: Final = 16
"""Number of cached end positions of reads: the next read of a consumer begins there, without a search."""
POSITION_MAX: Final = 0x7FFFFFFF
OFFSET_MAX: Final = 0x7FFFFFFFFFFFFFFF
Index = TypeVar("Index", OffsetIndex, TimeIndex)


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int
    segment_index_bytes: int


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}"


class Segment:
    """Batches of a partition from ``base_offset`` on."""

    __slots__ = (
        "_created_ms", "_deleted", "_ends", "_file", "_first_timestamp", "_flushed", "_folder", "_max_timestamp",
        "_max_timestamp_end", "_offsets", "_since_entry", "_storage", "_times", "_times_known", "_used",
        "base_offset", "limits", "notes", "size", "suffix",
    )  # fmt: skip

    def __init__(
        self, storage: Storage, folder: str, base_offset: int, limits: SegmentLimits, now_ms: int, size: int = 0
    ) -> None:
        self._storage = storage
        self._folder = folder
        self.limits = limits
        self._created_ms = now_ms
        self._file: StorageFile | None = None
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._max_timestamp = -1
        self._max_timestamp_end = base_offset
        self._first_timestamp: int | None = None
        self._since_entry = 0
        self._flushed = 0
        self._ends: dict[int, int] = {}
        self._times_known = False
        self._used = False
        self._deleted = False
        self.base_offset = base_offset
        self.size = size
        self.suffix = ""
        """Suffix of the file names during a swap (segment_swap.py)."""
        self.notes: list[Note] = []
        """Repairs that were not reported yet."""

    def __repr__(self) -> str:
        return f"Segment({self.log_name}, {self.size} bytes)"

    @property
    def log_name(self) -> str:
        return f"{segment_name(self.base_offset)}.log"

    @property
    def is_open(self) -> bool:
        return self._file is not None or self._offsets is not None

    @property
    def is_flushed(self) -> bool:
        if self._file is not None:
            self._flushed = max(self._flushed, self._file.flushed)
        return self._flushed >= self.size

    def is_flushed_to(self, size: int) -> bool:
        return self.is_flushed or self._flushed >= size

    @property
    def is_flushing(self) -> bool:
        return self._file is not None and self._file.is_flushing

    # ---------------------------------------------------------------- writing

    def make(self) -> None:
        """Create the log file, even if empty: its name persists the base offset."""
        self._open()

    def append(self, buffers: Sequence[Buffer], size: int, last_offset: int, max_timestamp: int) -> None:
        """Append a batch that ends with ``last_offset``. A StorageError changes nothing."""
        position = self.size
        offsets, _ = self._indexes()
        self._open().append(buffers)
        self.size = position + size
        self._note_batch(offsets, position, size, last_offset, max_timestamp)

    def _note_batch(self, offsets: OffsetIndex, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add index entries as Kafka does: for the first batch after each interval of bytes."""
        if self._first_timestamp is None:
            self._first_timestamp = max_timestamp
        if max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_end = max_timestamp, last_offset
        if self._since_entry > self.limits.index_interval_bytes:
            offsets.append(last_offset - self.base_offset, position)
            self._append_time()
            self._since_entry = 0
        self._since_entry += size

    def _append_time(self) -> None:
        assert self._times is not None
        self._times.maybe_append(self._max_timestamp, self._max_timestamp_end - self.base_offset)

    def must_roll(self, batch_size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Return True if the next batch needs a new segment, for its size, time or offset, or for full indexes."""
        if not self.size:
            return False
        limits = self.limits
        if self.size + batch_size > min(limits.segment_bytes, POSITION_MAX):
            return True
        offsets, times = self._indexes()
        return (
            self._waited_ms(max_timestamp, now_ms) > limits.segment_ms
            or len(offsets) >= limits.segment_index_bytes // OFFSET_ENTRY_SIZE
            or len(times) >= limits.segment_index_bytes // TIME_ENTRY_SIZE - 1
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        )

    def _waited_ms(self, timestamp: int, now_ms: int) -> int:
        """Return the age of the segment in ms, up to the timestamp of the next batch; without timestamps, up to now."""
        first = self.first_timestamp()
        return timestamp - first if first >= 0 and timestamp >= 0 else now_ms - self._created_ms

    def first_timestamp(self) -> int:
        """Return the maximum timestamp of the first batch, else -1."""
        if self._first_timestamp is None:
            if not self.size:
                return -1
            try:
                self._first_timestamp = next(self.headers())[1].max_timestamp
            except CorruptLog:  # a damaged batch must not prevent appends
                self._first_timestamp = -1
        return self._first_timestamp

    def seal(self) -> None:
        """Flush indexes, then the log, in the background: no appends follow."""
        self.save_indexes(start_flush=True)
        self.start_flush()

    def save_indexes(self, *, start_flush: bool = False) -> None:
        """Write the indexes. As in Kafka, the time index ends with the segment's maximum timestamp."""
        if not self.size or self._offsets is None or self._times is None:
            return
        self._append_time()
        for index, ending in ((self._offsets, "index"), (self._times, "timeindex")):
            with closing(self._storage.open(self._path(ending))) as file:
                unsaved = index.unsaved()
                if unsaved:
                    file.append([unsaved])
                index.saved = len(index)
                if start_flush:
                    file.start_flush()

    def flush(self) -> None:
        """Flush the log file, not its indexes: they can be rebuilt."""
        if not self.is_flushed:
            self._open().flush()

    def start_flush(self) -> None:
        if not self.is_flushed:
            self._open().start_flush()

    # ---------------------------------------------------------------- reading

    def slice(
        self, offset: int, max_bytes: int, end: int, reach: int, *, at_least_one: bool, preload: int
    ) -> tuple[LogSlice | None, bool]:
        """Return the batches from the one with ``offset`` to those that begin before ``end``.

        The second value is True if the segment has no further batch. The slice is None if the first batch exceeds
        ``max_bytes`` and ``at_least_one`` is False. Reads ``preload`` bytes at once. ``reach``: start of the next
        segment, or log end. Raises CorruptLog if the first batch is bad; a later bad batch ends the result.
        """
        search = Search(self._open(), self.size, reach)
        known = self._ends.get(offset)
        try:
            start = self._find(search, offset) if known is None else known
            if start >= self.size:
                return None, True
            prefix = search.look(start, max(min(preload, max_bytes), SEARCH_BYTES))
            first, _, length = search.place(start)
            if length > max_bytes and not at_least_one:
                return None, False
            size, next_offset = search.readable(start, max(max_bytes, length), first if known is None else offset, end)
        except CorruptRecord as error:
            raise CorruptLog(f"{self._path('log')} {error.problem}") from error
        if not size:
            return None, False
        self._remember(next_offset, start + size)
        return LogSlice(self.lend, start, size, next_offset, prefix), start + size == self.size

    def lend(self, position: int, size: int) -> Buffer:
        """Read bytes of a ``LogSlice``. Raises StorageError, also if the segment was deleted."""
        if self._deleted:
            raise StorageError(f"{self._path('log')} was deleted during a read")
        return self._open().lend(position, size)

    def _find(self, search: Search, offset: int) -> int:
        """Return the position of the batch with ``offset``, else of the next one, else the segment's size."""
        for indexed, position in self._indexes()[0].floors(offset - self.base_offset):
            base_offset, last_offset, _ = search.place(position)
            if last_offset == self.base_offset + indexed:
                return search.find(offset, position, base_offset)
        return search.find(offset, 0, self.base_offset)

    def _remember(self, offset: int, position: int) -> None:
        if len(self._ends) >= REMEMBERED_ENDS:
            del self._ends[next(iter(self._ends))]
        self._ends[offset] = position

    def bytes_from(self, offset: int) -> int:
        """Return the number of bytes from ``offset`` on; after a random read, up to one index interval too many."""
        position = self._ends.get(offset)
        if position is None:
            position = self._indexes()[0].lookup(offset - self.base_offset) if offset > self.base_offset else 0
        return self.size - position

    def headers(self, from_offset: int = 0, before: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of each batch from the one with ``from_offset``.

        Raises CorruptLog for a batch that overlaps the previous batch, or the next segment, which begins at
        offset ``before``.
        """
        start = 0
        if from_offset > self.base_offset:
            search = Search(self._open(), self.size, OFFSET_MAX if before is None else before)
            try:
                start = self._find(search, from_offset)
            except CorruptRecord as error:
                raise CorruptLog(f"{self._path('log')} {error.problem}") from error
        yield from self._walk(start, before)

    def _walk(self, start: int, before: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        expected = self.base_offset
        try:
            for position, header in headers(self._open(), start, self.size):
                check_place(header, expected, self.base_offset, before)
                expected = header.next_offset
                yield position, header
        except CorruptRecord as error:
            raise CorruptLog(f"{self._path('log')}: {error.problem}") from error

    def index_entries(self) -> list[tuple[int, int]]:
        return [(self.base_offset + relative, position) for relative, position in self._indexes()[0]]

    def batch(self, position: int, header: BatchHeader) -> bytes:
        return self._open().read(position, header.size)

    # ---------------------------------------------------------------- timestamps

    @property
    def max_timestamp(self) -> int:
        if self.size and not self._times_known:
            self._indexes()
        return self._max_timestamp

    def aged_from_ms(self) -> int:
        """Return the time from which ``retention.ms`` counts: maximum timestamp, or opening time without timestamps."""
        return self.max_timestamp if self.max_timestamp >= 0 else self._created_ms

    def first_reaching(self, timestamp_ms: int, from_offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the batches from ``from_offset`` on with a maximum timestamp of ``timestamp_ms`` or later."""
        end = self._indexes()[1].lookup(timestamp_ms)
        start = from_offset if end is None else max(from_offset, self.base_offset + end)
        for position, header in self.headers(start):
            if header.max_timestamp >= timestamp_ms:
                yield position, header

    def end_offset(self) -> int:
        """Return the offset after the last batch, found from the last index entry. Raises CorruptLog."""
        end = self.base_offset
        if self.size:
            indexed, start = next(self._indexes()[0].floors(RELATIVE_OFFSET_MAX), (0, 0))
            for position, header in self._walk(start):
                last, expected = header.last_offset, self.base_offset + indexed
                if start and position == start and last != expected:
                    raise CorruptLog(f"{self._path('log')}: batch ends at offset {last}, not {expected}")
                end = header.next_offset
            if self._max_timestamp >= 0 and not self.base_offset <= self._max_timestamp_end < end:
                raise CorruptLog(
                    f"{self._path('timeindex')} has offset {self._max_timestamp_end}, but the segment ends at {end}"
                )
        return end

    # ---------------------------------------------------------------- files

    def file(self) -> StorageFile:
        return self._open()

    def _path(self, ending: str) -> str:
        return f"{self._folder}/{segment_name(self.base_offset)}.{ending}{self.suffix}"

    def _open(self) -> StorageFile:
        self._used = True
        if self._file is None:
            self._file = self._storage.open(self._path("log"))
        return self._file

    def _indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        self._used = True
        if self._offsets is None or self._times is None:
            try:
                self._offsets, self._times = self._read_indexes()
            except ValueError as error:
                self.notes.append(info(f"{error}; rebuilt it from {self.log_name}"))
                self.rebuild_indexes(self._good_headers())
            else:
                self._since_entry = self.size - self._offsets.last_position
                if not self._times_known and (last := self._times.last) is not None:
                    self._max_timestamp, self._max_timestamp_end = last[0], self.base_offset + last[1]
            self._times_known = True
        assert self._offsets is not None
        assert self._times is not None
        return self._offsets, self._times

    def _good_headers(self) -> Iterator[tuple[int, BatchHeader]]:
        try:
            yield from self._walk(0)
        except CorruptLog as error:
            self.notes.append(warning(str(error)))

    def _read_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        if not self.size:
            return OffsetIndex(), TimeIndex()
        offsets = self._read_index("index", lambda data: OffsetIndex.parse(data, self.size))
        return offsets, self._read_index("timeindex", TimeIndex.parse)

    def _read_index(self, ending: str, parse: Callable[[bytes], Index]) -> Index:
        name, data = f"{segment_name(self.base_offset)}.{ending}", self._storage.read(self._path(ending))
        if data is None:
            raise ValueError(f"{name} is missing")
        try:
            return parse(data)
        except ValueError as error:
            raise ValueError(f"{name} does not match its log: {error}") from None

    def rebuild_indexes(self, batches: Iterator[tuple[int, BatchHeader]]) -> None:
        """Build both indexes from all batches of the segment, and replace their files if the disk has space."""
        offsets, self._times = OffsetIndex(), TimeIndex()
        self._max_timestamp, self._max_timestamp_end = -1, self.base_offset
        self._first_timestamp, self._since_entry = None, 0
        for position, header in batches:
            self._note_batch(offsets, position, header.size, header.last_offset, header.max_timestamp)
        self._append_time()
        self._offsets, self._times_known = offsets, True
        for index, ending in ((self._offsets, "index"), (self._times, "timeindex")):
            try:
                self._storage.replace(self._path(ending), index.unsaved(), durable=False)
                index.saved = len(index)
            except StorageError as error:
                self._storage.delete(self._path(ending))
                self.notes.append(warning(f"{error}; the index stays in memory until the disk has space"))

    def move(self, position: int, base_offset: int) -> None:
        """Repair the base offset of the batch at ``position``; its CRC does not cover the offset."""
        self._open().overwrite(position, base_offset.to_bytes(8, "big"))
        self._flushed = min(self._flushed, position)

    def truncate(self, size: int) -> None:
        self._open().truncate(size)
        self.size = size
        self._flushed = 0
        self._ends.clear()

    def release(self) -> bool:
        """Close files and indexes if unused since the last call; return True if closed."""
        used, self._used = self._used, False
        if used or not self.is_open or self.is_flushing:
            return False
        self.close()
        return True

    def close(self) -> None:
        self.save_indexes()
        self._offsets = self._times = None
        self._ends.clear()
        if self._file is not None:
            self._flushed = max(self._flushed, self._file.flushed)
            self._file.close()
            self._file = None

    def drop(self) -> None:
        self._deleted = True
        self._offsets = self._times = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def delete(self) -> None:
        self.drop()
        for ending in ("log", "index", "timeindex", "txnindex"):
            self._storage.delete(self._path(ending))
        self.size = 0

    def start_delete(self) -> None:
        """Delete the files in the background: deleting a gigabyte takes time."""
        self.drop()
        for ending in ("log", "index", "timeindex", "txnindex"):
            self._storage.start_delete(self._path(ending))
