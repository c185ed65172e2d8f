"""Steps of a compaction: merged segments, progress, waits for the disk."""

import pytest

from kohort.errors import StorageError
from kohort.log.cleaner import RETRY_MS
from kohort.log.compaction import ENTRY_BYTES, FLUSH_STEPS, Compaction, dirty_part
from kohort.log.index import RELATIVE_OFFSET_MAX
from kohort.log.storage import MemoryFile, MemoryStorage
from kohort.wire.record_batch import NewRecord, build_batch, parse_batch_header, split_batches
from support.machines.log_stage import LogStage, offsets_in

PAD = "x" * 600
FAR = 3 * RELATIVE_OFFSET_MAX


def stage_of(storage=None, **options):
    return LogStage(storage, **{"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", **options})


def compaction_of(stage, memory_bytes=1 << 20):
    dirty = dirty_part(stage.log, 0, stage.now_ms)
    return Compaction(stage.log, stage.storage, dirty, memory_bytes, stage.now_ms)


def done(compaction):
    while not compaction.step():
        assert compaction.steps < 2 * FLUSH_STEPS
    return compaction


def bases(stage):
    return [segment.base_offset for segment in stage.log.segments]


def of_segments(*base_offsets):
    stage = stage_of()
    stage.begin_segments_at(*base_offsets)
    assert bases(stage) == list(base_offsets)
    return stage


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((0, 5, RELATIVE_OFFSET_MAX + 1), (0, RELATIVE_OFFSET_MAX + 1)),
        ((0, 5, RELATIVE_OFFSET_MAX + 2), (0, 5, RELATIVE_OFFSET_MAX + 2)),
        ((0, 10, 20, RELATIVE_OFFSET_MAX + 2), (0, 20, RELATIVE_OFFSET_MAX + 2)),
        ((FAR, FAR + 5, FAR + 10), (FAR, FAR + 10)),
        ((FAR, FAR + 5, FAR + RELATIVE_OFFSET_MAX + 2), (FAR, FAR + 5, FAR + RELATIVE_OFFSET_MAX + 2)),
    ],
    ids=["to the last that an index can say", "not beyond", "counted from the first", "far on", "not beyond, far on"],
)
def test_merged_segments_stay_within_index_offset_range(before, after):
    stage = of_segments(*before)

    done(compaction_of(stage))

    assert bases(stage) == list(after)
    assert [offset for base in after for offset in offsets_in(stage.log.read(base, 1))] == list(after)


def test_compaction_pauses_10_ms_between_steps():
    stage = stage_of()
    for _ in range(3):
        stage.append(key=b"k")
        stage.log.roll(stage.now_ms)
    waited = []

    while not stage.topics.counters.compactions:
        before_ms = stage.now_ms
        stage.clock.advance(max(stage.topics.wake_at_ms - before_ms, 0))
        waited.append(stage.now_ms - before_ms)
        stage.topics.tick(stage.now_ms)

    steps = waited[waited.index(10) :]
    assert len(steps) > 2
    assert set(steps) == {10}


def test_segments_above_segment_bytes_are_not_merged():
    stage = stage_of(segment_bytes="1000000")
    for number in range(4):
        stage.append(PAD, key=b"%d" % number)
        stage.log.roll(stage.now_ms)
    sizes = {segment.size for segment in stage.log.segments[:-1]}
    assert len(sizes) == 1
    both = 2 * sizes.pop()

    for limit, expected in ((both - 1, [0, 1, 2, 3, 4]), (both, [0, 2, 4])):
        stage.topics.alter_config("orders", {"cleanup.policy": "compact", "segment.bytes": str(limit)})
        done(compaction_of(stage))
        assert bases(stage) == expected


@pytest.mark.parametrize(("spare", "reached"), [(0, 1), (1, 2)])
def test_keys_are_collected_until_memory_is_used_up(spare, reached):
    stage = stage_of()
    for key in (b"a", b"b", b"c"):
        stage.append(key=key)
    stage.log.roll(stage.now_ms)

    compaction = done(compaction_of(stage, memory_bytes=1 + ENTRY_BYTES + spare))

    assert compaction.clean_until == reached


def test_filtered_batch_has_max_timestamp_of_kept_records():
    stage = stage_of()
    now_ms = stage.now_ms
    records = [NewRecord(key, b"v", (), now_ms + after) for key, after in ((b"a", 30), (b"b", 10), (b"c", 20))]
    stage.log.append(build_batch(records), now_ms)
    stage.append(key=b"a", at_ms=now_ms)
    stage.log.roll(now_ms)

    done(compaction_of(stage))

    (data,) = stage.log.read(0, 1)
    ((_, header),) = split_batches(data)
    assert (header.record_count, header.max_timestamp) == (2, now_ms + 20)
    assert parse_batch_header(bytes(data)) == header


class SlowFile(MemoryFile):
    __slots__ = ("_flush_end",)

    def __init__(self, data, buffers=None):
        super().__init__(data, buffers)
        self._flush_end = 0

    @property
    def flushed(self):
        return self._flush_end

    def start_flush(self):
        self._flush_end = self.size

    flush = start_flush


class SlowStorage(MemoryStorage):
    def open(self, name):
        return SlowFile(super().open(name)._data)


def test_compacted_segment_is_flushed_without_blocking():
    stage = stage_of(SlowStorage())
    for _ in range(3):
        stage.append(key=b"k")
    stage.log.roll(stage.now_ms)

    assert done(compaction_of(stage)).steps < 10


class NoRoom(MemoryStorage):
    refused = 0

    def open(self, name):
        if name.endswith(".cleaned"):
            self.refused += 1
            raise StorageError("no space left")
        return super().open(name)


def test_failed_compaction_waits_one_minute():
    stage = stage_of(NoRoom())
    for _ in range(3):
        stage.append(key=b"k")
    stage.log.roll(stage.now_ms)

    def let_pass(until_ms):
        while stage.topics.wake_at_ms <= until_ms:
            stage.clock.advance(max(stage.topics.wake_at_ms - stage.now_ms, 0))
            stage.topics.tick(stage.now_ms)

    while not stage.storage.refused:
        let_pass(stage.topics.wake_at_ms)
    refused_ms = stage.now_ms

    let_pass(refused_ms + RETRY_MS - 1)
    assert stage.storage.refused == 1
    let_pass(refused_ms + 2 * RETRY_MS - 1)
    assert stage.storage.refused == 2
