"""What a log asks of its disk and what it answers meanwhile: waits, repeats, stops, swaps, batches prepared before."""

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
    """Is on the disk once the storage says so."""

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
    """Counts the flushes that are waited for."""

    flushes = True
    fails = False
    waited = 0

    def open(self, name):
        return SlowFile(super().open(name)._data, self)


OF_PRODUCER = {"producer_id": 7, "producer_epoch": 0}


def test_a_repeat_waits_for_the_disk_as_the_first_one_does():
    stage = LogStage(SlowStorage(), flush_messages="1")
    stage.storage.flushes = False

    first = stage.append("v", base_sequence=0, **OF_PRODUCER)
    again = stage.append("v", base_sequence=0, **OF_PRODUCER)
    stage.storage.flushes = True
    after = stage.append("v", base_sequence=0, **OF_PRODUCER)

    assert first == AppendResult(0, 0, -1, 0, awaits_flush=True)
    assert again == AppendResult(0, 0, -1, 0, duplicate=True, awaits_flush=True)
    assert after == AppendResult(0, 0, -1, 0, duplicate=True, awaits_flush=False)


def test_a_flush_that_failed_is_told_in_the_words_of_the_broker_and_refused_to_who_waits():
    stage = LogStage(SlowStorage(), flush_messages="1")
    stage.storage.flushes = False
    stage.append("v")
    stage.storage.fails = True

    with pytest.raises(ApiError) as refused:
        stage.log.awaited_offset(stage.now_ms)

    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    (note,) = stage.topics.take_disk_errors()
    said = "orders-0: flush up to offset 0 failed; the requests of its batches fail"
    assert str(note) == f"{said}: a flush failed"
    assert note.kind == ("orders-0", ("disk", "flush"))


def test_a_broker_that_wrote_nothing_waits_for_no_disk_when_it_stops():
    stage = LogStage(SlowStorage())
    stage.fill(3)
    stage.restart()
    stage.storage.flushes, stage.storage.waited = False, 0

    stage.restart()
    assert stage.storage.waited == 0

    stage.fill(1)
    stage.restart()
    assert stage.storage.waited > 0


def test_a_batch_that_was_prepared_before_is_stored_and_answered_as_one_that_comes():
    stage = LogStage(compression_type="zstd")
    stage.append("first")

    prepared = at_once(stage.log.prepare(batch(["second", "third"], at_ms=stage.now_ms), stage.now_ms))
    answer = stage.log.append_prepared(prepared, stage.now_ms)

    assert answer == AppendResult(1, 2, -1, 0)
    assert values_from(stage.log, 0) == ["first", "second", "third"]


def test_what_only_a_broker_may_write_is_refused_before_it_is_opened():
    stage = LogStage(compression_type="zstd")
    marker = build_marker(Marker(7, 0, committed=True, coordinator_epoch=0), stage.now_ms)

    with pytest.raises(ApiError) as refused:
        at_once(stage.log.prepare(marker, stage.now_ms))

    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert stage.log.append(marker, stage.now_ms, from_client=False).base_offset == 0


def test_what_the_broker_itself_writes_into_a_compacted_log_is_not_opened():
    stage = LogStage(cleanup_policy="compact")
    without_key = batch(["v"], at_ms=stage.now_ms)

    with pytest.raises(ApiError) as refused:
        stage.log.append(without_key, stage.now_ms)
    assert refused.value.code is ErrorCode.INVALID_RECORD

    assert stage.log.append(without_key, stage.now_ms, from_client=False).base_offset == 0
    assert values_from(stage.log, 0) == ["v"]


def and_one_in_place_of_the_first(stage):
    """The segments of a log, and one that could take the place of its first."""
    stage.fill(60)
    first = stage.log.segments[0]
    made = Segment(stage.storage, "orders-0", first.base_offset, first.limits, stage.now_ms)
    made.suffix = ".cleaned"
    data = b"".join(bytes(one) for one in stage.log.read(0, first.size))
    header = parse_batch_header(data)
    made.append([data[: header.size]], header.size, header.last_offset, header.max_timestamp)
    made.save_indexes()
    return list(stage.log.segments), made


def test_a_compacted_segment_takes_the_place_of_no_others_than_those_side_by_side():
    stage = LogStage()
    segments, made = and_one_in_place_of_the_first(stage)

    with pytest.raises(StorageError, match=r"^segments \[0, \d+\] were deleted during their compaction$"):
        stage.log.replace_segments([segments[0], segments[2]], made)

    assert list(stage.log.segments) == segments


@pytest.mark.parametrize("count", [1, 2])
def test_a_compacted_segment_takes_the_place_of_none_that_retention_took_meanwhile(count):
    stage = LogStage()
    segments, made = and_one_in_place_of_the_first(stage)
    stage.log.delete_records_before(segments[1].base_offset)
    stage.log.retain(stage.now_ms)

    with pytest.raises(StorageError, match="were deleted during their compaction"):
        stage.log.replace_segments(segments[:count], made)

    assert list(stage.log.segments) == segments[1:]
    assert values_from(stage.log, segments[1].base_offset)


def test_records_that_cannot_be_opened_are_stored_where_nobody_has_to_open_them():
    stage = LogStage()
    header = parse_batch_header(batch(at_ms=stage.now_ms, codec=Codec.ZSTD))
    spoilt = pack_batch(header, b"no frame of this codec")

    assert stage.log.append(spoilt, stage.now_ms).base_offset == 0
    assert b"".join(bytes(one) for one in stage.log.read(0, 1 << 20)).endswith(b"no frame of this codec")


def test_from_the_beginning_of_a_segment_on_all_bytes_of_it_and_of_the_later_ones_are_there():
    stage = LogStage()
    stage.fill(60)
    segments = stage.log.segments
    assert len(segments) > 4

    for i, segment in enumerate(segments):
        assert stage.log.bytes_available(segment.base_offset) == sum(later.size for later in segments[i:])


@pytest.mark.parametrize(("back", "gone"), [(1, 0), (0, 1)])
def test_a_snapshot_that_was_taken_right_behind_a_marker_that_goes_stays(back, gone):
    stage = LogStage()
    (first, *_), made = and_one_in_place_of_the_first(stage)
    before = stage.files(".snapshot")
    older = int(before[0].partition(".")[0])

    stage.log.replace_segments([first], made, older - back)

    assert stage.files(".snapshot") == before[gone:]


def test_what_is_appended_counts_by_batches_records_and_bytes():
    stage = LogStage()
    counters = stage.topics.counters

    stage.append("a", "b", "c")
    stage.append("d")

    assert (counters.batches, counters.records, counters.bytes) == (2, 4, stage.log.size_bytes)


def test_what_was_counted_at_a_time_stays_as_it_was():
    stage = LogStage()
    stage.append("a", "b")
    stage.topics.counters.deleted(3, 900)

    before = stage.topics.counters.copy()
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
