"""Files and log state after a compaction that succeeded, failed, was abandoned, or had nothing to do."""

import pytest

from kohort.clock import WallTime
from kohort.config import BrokerConfig
from kohort.errors import StorageError
from kohort.log.aborted import AbortedTransactions
from kohort.log.cleaner import Cleaner
from kohort.log.compaction import Compaction, dirty_part
from kohort.log.compaction_filter import EndedTransactions, FilteredBatch, RecordFilter, filter_batch
from kohort.log.segment import Segment
from kohort.log.storage import MemoryFile, MemoryStorage
from kohort.wire.compression import Codec
from kohort.wire.record_batch import (
    Marker,
    NewRecord,
    build_batch,
    build_marker,
    parse_batch_header,
    read_batch,
    split_batches,
)
from support.machines.log_stage import LogStage, batch, offsets_in, values_from

LAST_POSITION = 2**31 - 1


class WatchedFile(MemoryFile):
    __slots__ = ("_storage", "name")

    def __init__(self, data, name, storage):
        super().__init__(data)
        self.name = name
        self._storage = storage
        storage.open_files.append(name)

    @property
    def flushed(self):
        return len(self._data) if self._storage.flushes else 0

    def flush(self):
        if not self._storage.flushes:
            raise StorageError("the disk does not answer")

    def start_flush(self):
        self._storage.requested_flushes.append(self.name)

    def close(self):
        if self.name in self._storage.open_files:
            self._storage.open_files.remove(self.name)


class WatchedStorage(MemoryStorage):
    def __init__(self):
        super().__init__()
        self.open_files = []
        self.requested_flushes = []
        self.flushes = True
        self.keeps = "nothing"

    def open(self, name):
        return WatchedFile(super().open(name)._data, name, self)

    def delete(self, name):
        if name.startswith(self.keeps):
            raise StorageError(f"no permission for {name}")
        super().delete(name)


def stage_of(storage=None, **options):
    all_options = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_bytes": "1000000"}
    return LogStage(storage or WatchedStorage(), **(all_options | options))


def put(stage, *keys, pad=""):
    for key in keys:
        stage.append(f"{key} at {stage.log.log_end_offset}{pad}", key=key.encode())
    stage.log.roll(stage.now_ms)


def compaction_of(stage, memory_bytes=1 << 20):
    return Compaction(stage.log, stage.storage, dirty_part(stage.log, 0, stage.now_ms), memory_bytes, stage.now_ms)


def done(compaction):
    results = [compaction.step()]
    while not results[-1]:
        results.append(compaction.step())
    return results


def tick(stage, seconds=30):
    notes, end_ms = [], stage.now_ms + seconds * 1000
    while stage.topics.wake_at_ms <= end_ms:
        stage.clock.advance(max(stage.topics.wake_at_ms - stage.now_ms, 0))
        notes += map(str, stage.topics.tick(stage.now_ms))
    return notes


def cleaned(stage):
    return [name for name in stage.storage.files("orders-0") if ".cleaned" in name]


def test_segment_without_dropped_records_is_not_rewritten():
    stage = stage_of()
    put(stage, "a", "b", "c")
    before = stage.log.segments[0]

    done(compaction_of(stage))

    assert stage.log.segments[0] is before
    assert cleaned(stage) == []
    assert [name for name in stage.storage.open_files if "cleaned" in name] == []
    assert values_from(stage.log, 0) == ["a at 0", "b at 1", "c at 2"]


def test_compacted_segment_opens_file_at_first_read():
    stage = stage_of()
    put(stage, "a", "a", "b")

    done(compaction_of(stage))

    made = stage.log.segments[0]
    assert not made.is_open
    assert [name for name in stage.storage.open_files if "cleaned" in name] == []
    assert values_from(stage.log, 0) == ["a at 1", "b at 2"]
    assert made.is_open


def test_leftover_of_failed_attempt_is_deleted():
    stage = stage_of()
    put(stage, "a", "a", "b")
    for ending in ("log", "index", "timeindex"):
        stage.storage.replace(f"orders-0/{0:020d}.{ending}.cleaned", b"left by an attempt that the disk refused")

    done(compaction_of(stage))

    assert values_from(stage.log, 0) == ["a at 1", "b at 2"]
    stage.check()
    assert stage.restart() == []
    assert values_from(stage.log, 0) == ["a at 1", "b at 2"]


def test_disk_error_in_second_group_keeps_first_segment_readable():
    pad = " " * 6_000
    stage = stage_of(segment_bytes="20000")
    put(stage, "a", "a", pad=pad)
    second = stage.log.segments[-1].base_offset
    put(stage, "b", "b", pad=pad)
    stage.storage.keeps = f"orders-0/{second:020d}.log.cleaned"

    (note,) = [note for note in tick(stage) if "compaction" in note]

    assert note == f"orders-0: compaction failed: no permission for orders-0/{second:020d}.log.cleaned"
    first, *_ = stage.log.slices(0, 1 << 20)
    (found,) = read_batch(first.load())
    assert (found.offset, found.value.rstrip()) == (1, b"a at 1")


def test_compaction_yields_during_flush():
    stage = stage_of()
    put(stage, "a", "a", "b")
    compaction = compaction_of(stage)
    stage.storage.flushes = False
    while f"orders-0/{0:020d}.log.cleaned" not in stage.storage.requested_flushes:
        assert compaction.step() is False

    assert [compaction.step() for _ in range(20)] == [False] * 20
    assert values_from(stage.log, 0) == ["a at 0", "a at 1", "b at 2"]
    stage.storage.flushes = True

    assert done(compaction) == [True]
    assert values_from(stage.log, 0) == ["a at 1", "b at 2"]


def test_flush_that_never_ends_fails_the_compaction():
    stage = stage_of()
    put(stage, "a", "a", "b")
    compaction = compaction_of(stage)
    stage.storage.flushes = False

    with pytest.raises(StorageError, match="the disk does not answer"):
        done(compaction)
    compaction.abandon()

    assert compaction.steps > 6_000
    assert cleaned(stage) == []
    assert values_from(stage.log, 0) == ["a at 0", "a at 1", "b at 2"]


def test_compaction_step_decompresses_64_kilobytes():
    stage = stage_of()
    for number in range(8):
        record = NewRecord(b"%d" % number, bytes(40_000), (), stage.now_ms)
        stage.log.append(build_batch([record], codec=Codec.ZSTD), stage.now_ms)
    stage.append("another", key=b"0")
    stage.log.roll(stage.now_ms)
    assert stage.log.segments[0].size < 4_000, "all batches are in one read of the file"
    compaction = compaction_of(stage)

    results = done(compaction)

    each_pass = 4 + 1  # key-value pairs, and one immediate read of the end
    assert results == [False] * (2 * each_pass) + [True]
    assert str(compaction).endswith(f", 9 records 8, in {2 * each_pass + 1} steps")


def of_segments(*base_offsets):
    stage = stage_of(MemoryStorage())
    stage.begin_segments_at(*base_offsets)
    return stage


def test_missing_offsets_at_end_are_compacted_once():
    stage = of_segments(0, 5, 10)

    notes = tick(stage, seconds=120)

    (note,) = [note for note in notes if "compacted" in note]
    assert note.startswith("orders-0: compacted up to offset 10: ")
    assert [offset for base in (0, 10) for offset in offsets_in(stage.log.read(base, 1 << 20))] == [0, 5, 10, 10]


def snapshots(stage):
    return stage.files(".snapshot")


def test_snapshots_stay_without_dropped_markers():
    stage = stage_of()
    write = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    stage.append(key=b"a", base_sequence=0, **write)
    stage.log.roll(stage.now_ms)
    stage.append(key=b"b", base_sequence=1, **write)
    stage.log.end_transaction(Marker(7, 0, committed=True, coordinator_epoch=0), stage.now_ms)
    put(stage, "a", "c")
    before = snapshots(stage)
    assert len(before) == 2

    done(compaction_of(stage))

    assert values_from(stage.log, 0)[-1] == "c at 4"
    assert snapshots(stage) == before


def test_aborted_records_are_not_counted_as_kept():
    stage = stage_of()
    stage.append(key=b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    stage.log.end_transaction(Marker(7, 0, committed=False, coordinator_epoch=0), stage.now_ms)
    put(stage, "b", "b")
    compaction = compaction_of(stage)

    done(compaction)

    assert ", 4 records 2, in " in str(compaction), "the marker and the last record of b are kept"


def test_timestamps_zero_survive_compaction():
    stage = stage_of()
    records = [NewRecord(key, b"v", (), at_ms) for key, at_ms in ((b"a", 0), (b"b", 5), (b"c", 9))]
    stage.log.append(build_batch(records), stage.now_ms)
    stage.append("later", key=b"c", at_ms=0)
    stage.log.roll(stage.now_ms)

    done(compaction_of(stage))

    ((_, header), _) = split_batches(stage.log.read(0, 1 << 20)[0])
    assert (header.base_timestamp, header.max_timestamp, header.record_count) == (0, 5, 2)


def test_compacted_segment_is_limited_to_index_position_range():
    stage = stage_of()
    put(stage, "a", "a")
    compaction = compaction_of(stage)
    data = batch(key=b"a", base_offset=0)
    header = parse_batch_header(data)
    made = Segment(stage.storage, "orders-0", 0, stage.log.segments[0].limits, stage.now_ms)
    made.suffix = ".cleaned"

    made.size = LAST_POSITION - len(data)
    compaction._write(made, header, FilteredBatch(data, -1, 1, 0))
    assert made.size == LAST_POSITION

    made.size = LAST_POSITION - len(data) + 1
    with pytest.raises(StorageError, match=r"^orders-0: a compacted segment exceeds 2147483647 bytes$"):
        compaction._write(made, header, FilteredBatch(data, -1, 1, 0))


def test_failed_compaction_is_retried_after_one_minute():
    stage = stage_of()
    put(stage, "a", "a", "b")
    cleaner = Cleaner(stage.storage, BrokerConfig(log_cleaner_backoff_ms=1), lambda: [stage.log], 0, WallTime())
    stage.storage.keeps = f"orders-0/{0:020d}.log.cleaned"
    now_ms, notes = stage.now_ms, []
    while not notes:
        now_ms = max(now_ms, cleaner.wake_at_ms)
        notes = cleaner.tick(now_ms)
    stage.storage.keeps = "nothing"
    refused_ms = now_ms

    woken_ms = [at_ms for at_ms in (59_000, 59_999, 60_000) if not cleaner.tick(refused_ms + at_ms) and cleaner._now]

    assert woken_ms == [60_000]


def test_recreated_topic_does_not_inherit_progress():
    stage = stage_of(MemoryStorage())
    stage.topics.delete("orders", stage.now_ms)
    stage.topics.close()
    stage.storage.replace("cleaner-offset-checkpoint", b"0\n1\norders 0 3\n")
    stage.crash()
    options = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    stage.topics.create("orders", 1, options, stage.now_ms)
    put(stage, "a", "a", "a")

    tick(stage)

    assert values_from(stage.log, 0) == ["a at 2"]


@pytest.mark.parametrize(("looked_at", "remaining"), [(4, [5, 6, 7]), (5, [6, 7]), (6, [7]), (7, [])])
def test_records_without_key_are_dropped_within_dirty_part(looked_at, remaining):
    data = batch(["v"] * 3, base_offset=5)
    nothing = AbortedTransactions(MemoryStorage(), "orders-0")
    record_filter = RecordFilter({}, looked_at, nothing, EndedTransactions(), 1_000, 0)

    found = filter_batch(data, parse_batch_header(data), record_filter)

    assert [record.offset for record in (read_batch(found.batch) if found.batch else [])] == remaining
    assert found.kept == len(remaining)


@pytest.mark.parametrize("dirtier", ["audits", "payments"])
def test_log_with_larger_dirty_ratio_is_compacted_first(dirtier):
    stage = stage_of(MemoryStorage())
    options = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    stage.topics.create(dirtier, 1, options, stage.now_ms)
    put(stage, "a", "b", "b")
    assert len(tick(stage)) == 1
    other = stage.topics.log(dirtier, 0)
    for log in (stage.log, other):
        for _ in range(2):
            log.append(batch(key=b"k", at_ms=stage.now_ms), stage.now_ms)
        log.roll(stage.now_ms)

    notes = tick(stage)

    assert [note.partition(":")[0] for note in notes] == [f"{dirtier}-0", "orders-0"]


@pytest.mark.parametrize(("memory_bytes", "reached"), [(150, 1), (151, 1), (152, 2), (302, 2), (303, 3)])
def test_key_costs_its_bytes_plus_150(memory_bytes, reached):
    stage = stage_of()
    put(stage, "a", "b", "c", "d")
    compaction = compaction_of(stage, memory_bytes)

    done(compaction)

    assert compaction.clean_until == reached


def judged(data, now_ms):
    nothing = AbortedTransactions(MemoryStorage(), "orders-0")
    record_filter = RecordFilter({b"k": 0}, 100, nothing, EndedTransactions(), now_ms, 500)
    return filter_batch(data, parse_batch_header(data), record_filter)


def test_tombstone_and_marker_are_dropped_at_their_horizon():
    tombstone = build_batch([NewRecord(b"k", None, (), 900)])
    marker = build_marker(Marker(7, 0, committed=True, coordinator_epoch=0), 900)

    for met in (judged(tombstone, 1_000), judged(marker, 1_000)):
        assert parse_batch_header(met.batch).delete_horizon_ms == 1_500
        kept = [judged(met.batch, now_ms).kept for now_ms in (1_499, 1_500, 1_501)]
        assert kept == [1, 0, 0]


def test_last_batch_of_producer_0_keeps_its_sequence():
    stage = stage_of()
    for sequence in range(2):
        stage.append(key=b"k", producer_id=0, producer_epoch=0, base_sequence=sequence)
    put(stage, "k", "k")

    done(compaction_of(stage))

    found = [(header.base_offset, header.record_count) for _, header in split_batches(stage.log.read(0, 1 << 20)[0])]
    assert found == [(1, 0), (3, 1)]


def test_options_changed_during_compaction_apply_to_its_result():
    stage = stage_of()
    put(stage, "a", "b", "a")
    compaction = compaction_of(stage)
    while not cleaned(stage):
        compaction.step()
    overrides = {"cleanup.policy": "compact", "segment.bytes": "2000"}

    stage.topics.alter_config("orders", overrides)
    done(compaction)

    assert {segment.limits.segment_bytes for segment in stage.log.segments} == {2_000}


def test_recreated_topic_is_compacted_from_start_after_crash():
    stage = stage_of(MemoryStorage())
    put(stage, "a", "a", "a")
    assert len(tick(stage)) == 1
    stage.topics.delete("orders", stage.now_ms)
    options = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    stage.topics.create("orders", 1, options, stage.now_ms)
    put(stage, "a", "a", "a")

    stage.crash()
    tick(stage)

    assert values_from(stage.log, 0) == ["a at 2"]
