"""Flushes of a log: waiting responses, repeated batches, stops, segment swaps, prepared batches."""

from dataclasses import replace

import pytest

from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.partition import AppendResult, LogCounters
from kohort.log.segment import Segment
from kohort.log.storage import MemoryFile, MemoryStorage
from kohort.steps import at_once
from kohort.wire.compression import Codec
from kohort.wire.record_batch import Marker, build_marker, pack_batch, parse_batch_header
from support.machines.log_stage import LogStage, batch, values_from


class SlowFile(MemoryFile):
    __slots__ = ("_storage",)

    def __init__(self, data, storage):
        super().__init__(data)
        self._storage = storage

    @property
    def flushed(self):
        return self.size if self._storage.flushes else 0

    @property
    def is_flushing(self):
        return not (self._storage.flushes or self._storage.fails)

    def flush(self):
        self._storage.waited += 1


class SlowStorage(MemoryStorage):
    flushes = True
    fails = False
    waited = 0

    def open(self, name):
        return SlowFile(super().open(name)._data, self)


OF_PRODUCER = {"producer_id": 7, "producer_epoch": 0}


def test_repeated_batch_waits_for_flush():
    stage = LogStage(SlowStorage(), flush_messages="1")
    stage.storage.flushes = False

    first = stage.append("v", base_sequence=0, **OF_PRODUCER)
    again = stage.append("v", base_sequence=0, **OF_PRODUCER)
    stage.storage.flushes = True
    after = stage.append("v", base_sequence=0, **OF_PRODUCER)

    assert first == AppendResult(0, 0, -1, 0, awaits_flush=True)
    assert again == AppendResult(0, 0, -1, 0, duplicate=True, awaits_flush=True)
    assert after == AppendResult(0, 0, -1, 0, duplicate=True, awaits_flush=False)


def test_failed_flush_is_reported_and_fails_waiting_requests():
    stage = LogStage(SlowStorage(), flush_messages="1")
    stage.storage.flushes = False
    stage.append("v")
    stage.storage.fails = True

    with pytest.raises(ApiError) as refused:
        stage.log.awaited_offset(stage.now_ms)

    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    (note,) = stage.topics.take_disk_errors()
    message = "orders-0: flush up to offset 0 failed; the requests of its batches fail"
    assert str(note) == f"{message}: a flush failed"
    assert note.kind == ("orders-0", ("disk", "flush"))


def test_stop_without_writes_does_not_flush():
    stage = LogStage(SlowStorage())
    stage.fill(3)
    stage.restart()
    stage.storage.flushes, stage.storage.waited = False, 0

    stage.restart()
    assert stage.storage.waited == 0

    stage.fill(1)
    stage.restart()
    assert stage.storage.waited > 0


def test_prepared_batch_is_appended_like_any_other():
    stage = LogStage(compression_type="zstd")
    stage.append("first")

    prepared = at_once(stage.log.prepare(batch(["second", "third"], at_ms=stage.now_ms), stage.now_ms))
    answer = stage.log.append_prepared(prepared, stage.now_ms)

    assert answer == AppendResult(1, 2, -1, 0)
    assert values_from(stage.log, 0) == ["first", "second", "third"]


def test_client_control_batch_is_rejected_before_decompression():
    stage = LogStage(compression_type="zstd")
    marker = build_marker(Marker(7, 0, committed=True, coordinator_epoch=0), stage.now_ms)

    with pytest.raises(ApiError) as refused:
        at_once(stage.log.prepare(marker, stage.now_ms))

    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert stage.log.append(marker, stage.now_ms, from_client=False).base_offset == 0


def test_batch_of_broker_in_compacted_log_is_not_decompressed():
    stage = LogStage(cleanup_policy="compact")
    without_key = batch(["v"], at_ms=stage.now_ms)

    with pytest.raises(ApiError) as refused:
        stage.log.append(without_key, stage.now_ms)
    assert refused.value.code is ErrorCode.INVALID_RECORD

    assert stage.log.append(without_key, stage.now_ms, from_client=False).base_offset == 0
    assert values_from(stage.log, 0) == ["v"]


def and_one_in_place_of_the_first(stage):
    stage.fill(60)
    first = stage.log.segments[0]
    made = Segment(stage.storage, "orders-0", first.base_offset, first.limits, stage.now_ms)
    made.suffix = ".cleaned"
    data = b"".join(bytes(one) for one in stage.log.read(0, first.size))
    header = parse_batch_header(data)
    made.append([data[: header.size]], header.size, header.last_offset, header.max_timestamp)
    made.save_indexes()
    return list(stage.log.segments), made


def test_replace_segments_rejects_non_adjacent_segments():
    stage = LogStage()
    segments, made = and_one_in_place_of_the_first(stage)

    with pytest.raises(StorageError, match=r"^segments \[0, \d+\] were deleted during their compaction$"):
        stage.log.replace_segments([segments[0], segments[2]], made)

    assert list(stage.log.segments) == segments


@pytest.mark.parametrize("count", [1, 2])
def test_replace_segments_rejects_deleted_segments(count):
    stage = LogStage()
    segments, made = and_one_in_place_of_the_first(stage)
    stage.log.delete_records_before(segments[1].base_offset)
    stage.log.retain(stage.now_ms)

    with pytest.raises(StorageError, match="were deleted during their compaction"):
        stage.log.replace_segments(segments[:count], made)

    assert list(stage.log.segments) == segments[1:]
    assert values_from(stage.log, segments[1].base_offset)


def test_undecompressible_batch_is_stored_in_uncompacted_topic():
    stage = LogStage()
    header = parse_batch_header(batch(at_ms=stage.now_ms, codec=Codec.ZSTD))
    spoilt = pack_batch(header, b"no frame of this codec")

    assert stage.log.append(spoilt, stage.now_ms).base_offset == 0
    assert b"".join(bytes(one) for one in stage.log.read(0, 1 << 20)).endswith(b"no frame of this codec")


def test_bytes_available_counts_all_later_segments():
    stage = LogStage()
    stage.fill(60)
    segments = stage.log.segments
    assert len(segments) > 4

    for i, segment in enumerate(segments):
        assert stage.log.bytes_available(segment.base_offset) == sum(later.size for later in segments[i:])


@pytest.mark.parametrize(("back", "dropped_count"), [(1, 0), (0, 1)])
def test_snapshot_after_dropped_marker_stays(back, dropped_count):
    stage = LogStage()
    (first, *_), made = and_one_in_place_of_the_first(stage)
    before = stage.files(".snapshot")
    older = int(before[0].partition(".")[0])

    stage.log.replace_segments([first], made, older - back)

    assert stage.files(".snapshot") == before[dropped_count:]


def test_append_counts_batches_records_and_bytes():
    stage = LogStage()
    counters = stage.topics.counters

    stage.append("a", "b", "c")
    stage.append("d")

    assert (counters.batches, counters.records, counters.bytes) == (2, 4, stage.log.size_bytes)


def test_copied_counters_do_not_change():
    stage = LogStage()
    stage.append("a", "b")
    stage.topics.counters.deleted_segments, stage.topics.counters.deleted_bytes = 3, 900

    before = replace(stage.topics.counters)
    stage.fill(60)

    assert {name: getattr(before, name) for name in LogCounters.__slots__} == {
        **dict.fromkeys(LogCounters.__slots__, 0),
        "batches": 1,
        "records": 2,
        "bytes": 77,
        "deleted_segments": 3,
        "deleted_bytes": 900,
    }
    assert stage.topics.counters.records == 62
