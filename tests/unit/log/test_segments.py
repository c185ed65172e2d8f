"""One segment: index entries, rolls, cached positions, flushes and released files."""

import struct

import pytest

from kohort.errors import CorruptLog, StorageError
from kohort.log.index import RELATIVE_OFFSET_MAX
from kohort.log.segment import POSITION_MAX, Segment, SegmentLimits
from kohort.log.storage import MemoryFile, MemoryStorage
from kohort.wire.record_batch import NewRecord, build_batch, parse_batch_header
from support.machines.log_stage import LogStage

NOW = 1_700_000_000_000
HOUR = 3_600_000
SIZE = 100
LIMITS = SegmentLimits(
    segment_bytes=1 << 20, segment_ms=HOUR, index_interval_bytes=3 * SIZE - 1, segment_index_bytes=1 << 20
)


def limits(**other):
    defaults = {name: getattr(LIMITS, name) for name in SegmentLimits.__slots__}
    return SegmentLimits(**defaults | other)


class RecordingStorage(MemoryStorage):
    def __init__(self):
        super().__init__()
        self.flushes = []
        self.open_files = []
        self.refuses = False
        self.make_folder("p-0")

    def open(self, name):
        self.open_files.append(name)
        return RecordingFile(super().open(name)._data, self, name)


class RecordingFile(MemoryFile):
    __slots__ = ("_flushed", "_name", "_storage")

    def __init__(self, data, storage, name):
        super().__init__(data)
        self._storage = storage
        self._name = name
        self._flushed = 0

    @property
    def flushed(self):
        return self._flushed

    def read(self, at, size):
        if self._storage.refuses:
            raise StorageError("the disk does not answer")
        return super().read(at, size)

    def start_flush(self):
        self._storage.flushes.append(self._name.partition(".")[2])
        self._flushed = self.size

    def flush(self):
        self.start_flush()

    def close(self):
        self._storage.open_files.remove(self._name)


@pytest.fixture
def storage():
    return RecordingStorage()


def segment_of(storage, base_offset=0, limits=LIMITS, size=0):
    return Segment(storage, "p-0", base_offset, limits, NOW, size)


def sized(base_offset, at_ms=-1, count=1):
    records = [NewRecord(None, b"", (), at_ms)] * (count - 1)
    for length in range(SIZE):
        made = build_batch([NewRecord(None, b"x" * length, (), at_ms), *records], base_offset=base_offset)
        if len(made) == SIZE:
            return made
    raise AssertionError(f"{count} records do not fit")


def put(segment, *offsets, at_ms=-1):
    for offset in offsets:
        segment.append([sized(offset, at_ms)], SIZE, offset, at_ms)
    return segment


def filled(storage, count, base_offset=0, limits=LIMITS, at_ms=-1):
    return put(segment_of(storage, base_offset, limits), *range(base_offset, base_offset + count), at_ms=at_ms)


def again(segment, storage, limits=LIMITS):
    segment.close()
    return segment_of(storage, segment.base_offset, limits, segment.size)


# ---------------------------------------------------------------- indexes

EVERY_THIRD = [(3, 300), (6, 600), (9, 900)]
INTERVALS = [(299, EVERY_THIRD), (300, [(4, 400), (8, 800)])]


@pytest.mark.parametrize(("interval", "entries"), INTERVALS)
def test_index_entry_follows_each_interval(storage, interval, entries):
    assert filled(storage, 11, limits=limits(index_interval_bytes=interval)).index_entries() == entries


@pytest.mark.parametrize(("interval", "entries"), INTERVALS)
@pytest.mark.parametrize("stopped_after", range(1, 11))
def test_index_entries_are_independent_of_stops(storage, stopped_after, interval, entries):
    bounds = limits(index_interval_bytes=interval)
    segment = again(filled(storage, stopped_after, limits=bounds), storage, bounds)

    put(segment, *range(stopped_after, 11))

    assert segment.index_entries() == entries


@pytest.mark.parametrize(("interval", "entries"), INTERVALS)
@pytest.mark.parametrize("lost_after", range(1, 11))
def test_rebuilt_index_has_the_same_entries(storage, lost_after, interval, entries):
    bounds = limits(index_interval_bytes=interval)
    segment = again(filled(storage, lost_after, limits=bounds, at_ms=5), storage, bounds)
    storage.delete("p-0/00000000000000000000.index")

    assert segment.max_timestamp == 5
    put(segment, *range(lost_after, 11), at_ms=6)

    assert segment.index_entries() == entries
    assert (segment.max_timestamp, segment.first_timestamp()) == (6, 5)
    assert [str(note) for note in segment.notes] == [
        "00000000000000000000.index is missing; rebuilt it from 00000000000000000000.log"
    ]


def test_index_rebuild_is_retried_after_disk_error(storage):
    segment = again(filled(storage, 11), storage)
    storage.delete("p-0/00000000000000000000.timeindex")
    storage.refuses = True
    for _ in range(2):
        with pytest.raises(StorageError, match="the disk does not answer"):
            segment.index_entries()
    storage.refuses = False

    assert segment.index_entries() == EVERY_THIRD


def test_empty_index_means_start_of_segment(storage):
    segment = again(filled(storage, 2), storage)
    assert segment.index_entries() == []

    assert [segment.slice(offset, 1, 2, 2, at_least_one=True, preload=0)[0].position for offset in (0, 1)] == [0, SIZE]
    put(segment, 2, 3)
    assert segment.index_entries() == [(3, 300)]


def test_end_offset_contradicting_time_index_raises(storage):
    segment = again(filled(storage, 2, at_ms=0), storage)
    assert segment.end_offset() == 2
    storage.replace("p-0/00000000000000000000.timeindex", struct.pack(">qi", 0, 2))

    with pytest.raises(CorruptLog, match=r"timeindex has offset 2, but the segment ends at 2$"):
        again(segment, storage).end_offset()


def test_end_offset_contradicting_offset_index_raises(storage):
    segment = again(filled(storage, 11), storage)
    assert segment.end_offset() == 11
    segment.move(900, 73)

    with pytest.raises(CorruptLog, match=r"^00000000000000000000\.log: batch ends at offset 73, not 9$|not 9$"):
        again(segment, storage).end_offset()


# ---------------------------------------------------------------- rolls


def test_segment_rolls_above_segment_bytes(storage):
    segment = filled(storage, 3, limits=limits(segment_bytes=5 * SIZE))

    assert segment.must_roll(2 * SIZE, 3, -1, NOW) is False
    assert segment.must_roll(2 * SIZE + 1, 3, -1, NOW) is True


def test_segment_rolls_at_index_position_limit(storage):
    large = limits(segment_bytes=1 << 40)
    assert segment_of(storage, limits=large, size=POSITION_MAX - 99).must_roll(SIZE, 3, -1, NOW) is True
    assert segment_of(storage, limits=large, size=200).must_roll(SIZE, 3, -1, NOW) is False


def test_empty_segment_accepts_any_batch(storage):
    assert segment_of(storage, limits=limits(segment_bytes=10)).must_roll(SIZE, 3, -1, NOW) is False


@pytest.mark.parametrize("base_offset", [0, 100, 3_000_000_000])
def test_segment_rolls_at_relative_offset_limit(storage, base_offset):
    segment = filled(storage, 2, base_offset)

    assert segment.must_roll(SIZE, base_offset + 2, -1, NOW) is False
    assert segment.must_roll(SIZE, base_offset + RELATIVE_OFFSET_MAX, -1, NOW) is False
    assert segment.must_roll(SIZE, base_offset + RELATIVE_OFFSET_MAX + 1, -1, NOW) is True


def entries_when_full(storage, *, step_ms):
    segment = segment_of(storage, limits=limits(index_interval_bytes=0, segment_index_bytes=48))
    offset = 0
    while not segment.must_roll(SIZE, offset, offset * step_ms, NOW):
        put(segment, offset, at_ms=offset * step_ms)
        offset += 1
    return len(segment.index_entries())


def test_segment_rolls_with_full_offset_index(storage):
    assert entries_when_full(storage, step_ms=0) == 48 // 8


def test_segment_rolls_with_almost_full_time_index(storage):
    assert entries_when_full(storage, step_ms=1) == 48 // 12 - 1


@pytest.mark.parametrize(
    ("first_ms", "next_ms", "clock_ms", "rolls"),
    [
        (NOW, NOW + HOUR, NOW + 2 * HOUR, False),
        (NOW, NOW + HOUR + 1, NOW, True),
        (0, HOUR, NOW, False),
        (0, HOUR + 1, NOW, True),
        (-1, NOW, NOW + HOUR, False),
        (-1, NOW, NOW + HOUR + 1, True),
        (NOW, -1, NOW + HOUR, False),
        (NOW, -1, NOW + HOUR + 1, True),
        (5, 0, NOW, False),
    ],
)
def test_segment_age_uses_timestamps_or_clock(storage, first_ms, next_ms, clock_ms, rolls):
    segment = again(put(segment_of(storage), 0, at_ms=first_ms), storage)

    assert segment.must_roll(SIZE, 1, next_ms, clock_ms) is rolls


def test_damaged_first_batch_ages_segment_by_clock(storage):
    segment = again(filled(storage, 2, at_ms=NOW), storage)
    storage.open("p-0/00000000000000000000.log").overwrite(16, b"\x09")

    assert segment.first_timestamp() == -1
    assert segment.must_roll(SIZE, 2, NOW, NOW + HOUR) is False
    assert segment.must_roll(SIZE, 2, NOW, NOW + HOUR + 1) is True


def test_empty_segment_has_no_first_timestamp(storage):
    segment = segment_of(storage)
    assert segment.first_timestamp() == -1

    put(segment, 0, at_ms=7)

    assert segment.first_timestamp() == 7


# ---------------------------------------------------------------- slices and cached positions


def test_segment_caches_16_read_positions(storage):
    segment = filled(storage, 20, limits=limits(index_interval_bytes=1 << 20))
    for offset in range(17):
        segment.slice(offset, 1, 20, 20, at_least_one=True, preload=0)

    remembered = [offset for offset in range(1, 20) if segment.bytes_from(offset) == segment.size - offset * SIZE]

    assert remembered == list(range(2, 18))
    assert segment.bytes_from(1) == segment.size, "the position of offset 1 is not cached"


def test_slice_after_last_batch_is_exhausted(storage):
    segment = filled(storage, 3)

    assert segment.slice(3, 1 << 20, 9, 9, at_least_one=True, preload=0) == (None, True)
    found, is_all = segment.slice(2, 1 << 20, 9, 9, at_least_one=True, preload=0)
    assert (len(found), found.next_offset, is_all) == (SIZE, 3, True)


def test_too_large_batch_ends_the_slice(storage):
    segment = filled(storage, 3)

    assert segment.slice(0, SIZE - 1, 3, 3, at_least_one=False, preload=0) == (None, False)
    found, is_all = segment.slice(0, SIZE, 3, 3, at_least_one=False, preload=0)
    assert (len(found), found.next_offset, is_all) == (SIZE, 1, False)
    assert segment.slice(1, 1 << 20, 1, 3, at_least_one=True, preload=0) == (None, False), (
        "the batch begins at the given end"
    )


def test_slice_continues_after_missing_offsets():
    stage = LogStage()
    stage.fill(40)
    first, second, third, *_ = [segment.base_offset for segment in stage.log.segments]
    assert stage.topics.close() == []
    for name in stage.files():
        if name.startswith(f"{second:020d}.") and not name.endswith(".snapshot"):
            stage.storage.delete(f"orders-0/{name}")
    stage.crash()

    for offset in (second, third - 1):
        data = b"".join(stage.log.read(offset, 100))
        assert parse_batch_header(data).base_offset == third > offset > first


# ---------------------------------------------------------------- flushes and files


def test_seal_flushes_indexes_before_log(storage):
    segment = filled(storage, 5)
    assert not segment.is_flushed

    segment.seal()

    assert storage.flushes == ["index", "timeindex", "log"]
    assert segment.is_flushed
    segment.seal()
    assert storage.flushes == ["index", "timeindex", "log", "index", "timeindex"], "the log is already flushed"


def test_empty_segment_is_flushed_without_file(storage):
    segment = segment_of(storage)

    segment.flush()
    segment.seal()

    assert segment.is_flushed
    assert segment.is_flushed_to(0)
    assert storage.files("p-0") == {}


def test_closed_segment_has_no_open_file(storage):
    segment = filled(storage, 5)
    assert storage.open_files == ["p-0/00000000000000000000.log"]

    segment.close()

    assert storage.open_files == []
    assert not segment.is_open
    segment.close()


def test_release_closes_unused_segment(storage):
    segment = again(filled(storage, 5), storage)
    for _ in range(3):
        segment.lend(0, SIZE)
        assert segment.release() is False
        assert segment.is_open

    assert segment.release() is True
    assert not segment.is_open
    assert segment.release() is False, "no file is open"


def test_dropped_segment_writes_nothing(storage):
    segment = filled(storage, 5)

    segment.drop()

    assert (segment.is_open, storage.open_files) == (False, [])
    segment.close()
    assert list(storage.files("p-0")) == ["00000000000000000000.log"]
    with pytest.raises(StorageError, match="was deleted during a read"):
        segment.lend(0, SIZE)


def test_deleted_segment_leaves_no_files(storage):
    segment = again(filled(storage, 5), storage)
    segment.index_entries()
    storage.replace("p-0/00000000000000000000.txnindex", b"")

    segment.delete()

    assert (segment.size, segment.is_open, storage.files("p-0")) == (0, False, {})
    segment.close()
    assert storage.files("p-0") == {}


def test_truncation_clears_cached_positions(storage):
    segment = filled(storage, 5, limits=limits(index_interval_bytes=1 << 20))
    segment.slice(3, 1, 5, 5, at_least_one=True, preload=0)
    assert segment.bytes_from(4) == SIZE

    segment.truncate(3 * SIZE)

    assert (segment.size, storage.files("p-0")["00000000000000000000.log"]) == (3 * SIZE, 3 * SIZE)
    assert [header.base_offset for _, header in segment.headers()] == [0, 1, 2]
    assert segment.bytes_from(4) == 3 * SIZE, "truncation clears the cached positions"


def test_flushed_size_survives_close_until_truncation(storage):
    segment = filled(storage, 5)
    segment.flush()

    segment.close()
    assert segment.is_flushed
    segment.flush()
    assert storage.flushes == ["log"], "the log is already flushed"

    segment.truncate(3 * SIZE)
    assert not segment.is_flushed
    segment.flush()
    assert (storage.flushes, segment.is_flushed) == (["log", "log"], True)


def test_end_offset_of_later_segment_is_absolute(storage):
    segment = again(filled(storage, 11, 100), storage)
    segment.move(900, 173)

    with pytest.raises(CorruptLog, match=r"batch ends at offset 173, not 109$"):
        again(segment, storage).end_offset()
