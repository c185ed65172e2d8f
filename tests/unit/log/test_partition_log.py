"""Log of a partition: appends, reads from any offset, segments, lookups, epochs, disk errors."""

import pytest

from kohort.config import BrokerConfig, topic_config
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.partition import AppendResult, LogHooks, PartitionLog
from kohort.log.storage import MemoryFile, MemoryStorage
from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch, check_crc, parse_batch_header
from support.machines.log_stage import LogStage, batch, offsets_in, values_from


@pytest.fixture
def stage():
    stage = LogStage()
    yield stage
    stage.check()


def test_append_returns_offsets_and_read_returns_batch(stage):
    assert stage.append("a", "b", "c") == AppendResult(0, 2, -1, 0)
    assert stage.append("d") == AppendResult(3, 3, -1, 0)

    assert values_from(stage.log, 0) == ["a", "b", "c", "d"]
    assert (stage.log.log_start_offset, stage.log.high_watermark, stage.log.last_stable_offset) == (0, 4, 4)


def test_stored_batch_differs_only_in_offset_and_epoch(stage):
    stage.append("before")
    data = batch(["x", "y"], codec=Codec.GZIP, at_ms=5)

    stage.log.append(data, stage.now_ms)

    stored = bytes(stage.log.read(1, 10_000)[0])
    assert stored[16:] == data[16:]
    header = parse_batch_header(stored)
    assert (header.base_offset, header.partition_leader_epoch) == (1, 0)


def test_read_within_a_batch_starts_with_that_batch(stage):
    stage.append("a", "b", "c")
    stage.append("d")

    assert offsets_in(stage.log.read(1, 10_000)) == [0, 3]
    assert values_from(stage.log, 2) == ["c", "d"]


def test_read_returns_whole_batches_within_max_bytes(stage):
    stage.fill(3)
    size = len(batch([f"record 0 {'x' * 40}"]))

    assert offsets_in(stage.log.read(0, 2 * size)) == [0, 1]
    assert offsets_in(stage.log.read(0, 2 * size - 1)) == [0]


def test_large_first_batch_is_returned_with_at_least_one(stage):
    stage.append("x" * 500)

    assert offsets_in(stage.log.read(0, 10)) == [0]
    assert offsets_in(stage.log.read(0, 0)) == [0]
    assert stage.log.read(0, 10, at_least_one=False) == []
    assert stage.log.read(0, 0, at_least_one=False) == []


def test_small_read_does_not_skip_a_segment(stage):
    stage.append("x" * 800)
    stage.append("y" * 800)
    stage.append("z")

    assert len(stage.log.segments) > 1
    assert stage.log.read(0, 200, at_least_one=False) == []
    assert offsets_in(stage.log.read(0, 900)) == [0]


def test_read_continues_in_next_segment(stage):
    names = stage.fill(40)

    assert len(stage.log.segments) > 2
    assert offsets_in(stage.log.read(0, 1 << 20)) == list(range(40))
    assert values_from(stage.log, 17, max_bytes=300) == names[17:]


def test_read_stops_before_end_offset(stage):
    stage.fill(30)

    assert offsets_in(stage.log.read(3, 1 << 20, end=8)) == [3, 4, 5, 6, 7]
    assert stage.log.read(8, 1 << 20, end=8) == []


def test_read_at_end_is_empty_and_beyond_it_an_error(stage):
    stage.fill(2)

    assert stage.log.read(2, 1000) == []
    assert stage.log.bytes_available(2) == 0
    for offset in (-1, 3):
        with pytest.raises(ApiError) as error:
            stage.log.read(offset, 1000)
        assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_timestamp_zero_is_found(stage):
    stage.append("first", at_ms=0)

    assert stage.log.max_timestamp() == (0, 0, 0)


def test_empty_partition_has_no_files(stage):
    assert stage.log.read(0, 1000) == []
    assert stage.log.find_by_time(0) is None
    assert stage.log.max_timestamp() is None
    assert stage.log.end_of_epoch(0) == (0, 0)
    assert stage.files() == ["partition.metadata"]


def test_bytes_available_is_exact_after_a_read(stage):
    stage.fill(3)
    stage.log.read(0, 1 << 20)
    stage.fill(1)

    size = len(batch([f"record 0 {'x' * 40}"]))
    assert stage.log.bytes_available(3) == size
    assert stage.log.bytes_available(0) == 4 * size == stage.log.size_bytes


# ---------------------------------------------------------------- segments


def test_segment_rolls_by_size(stage):
    stage.fill(20)

    names = stage.files(".log")
    assert names[0] == f"{0:020d}.log"
    assert names == [segment.log_name for segment in stage.log.segments]
    assert all(segment.size <= 1024 for segment in stage.log.segments)
    assert len(names) == 3


def test_segment_rolls_by_timestamps():
    stage = LogStage(segment_ms="1000")
    stage.append(at_ms=5_000)
    stage.append(at_ms=6_000)
    assert len(stage.log.segments) == 1

    stage.append(at_ms=6_001)

    assert [segment.base_offset for segment in stage.log.segments] == [0, 2]
    stage.check()


def test_segment_without_timestamps_rolls_by_clock():
    stage = LogStage(segment_ms="1000")
    stage.append(at_ms=-1)
    stage.clock.advance(1_001)

    stage.append(at_ms=-1)

    assert [segment.base_offset for segment in stage.log.segments] == [0, 1]


def test_segment_rolls_with_full_index():
    stage = LogStage(segment_index_bytes="24", index_interval_bytes="0")
    for i in range(5):
        stage.append("v", at_ms=1000 + i)

    assert len(stage.log.segments) > 1
    assert values_from(stage.log, 0) == ["v"] * 5
    stage.check()


def test_segment_age_survives_restart():
    stage = LogStage(segment_ms="1000")
    stage.append(at_ms=5_000)
    stage.restart()

    stage.append(at_ms=7_000)

    assert [segment.base_offset for segment in stage.log.segments] == [0, 1]


def test_new_options_apply_to_later_batches(stage):
    stage.fill(3)

    stage.topics.alter_config("orders", {"segment.bytes": "2000", "max.message.bytes": "100"})
    stage.restart()

    with pytest.raises(ApiError) as error:
        stage.append("x" * 200)
    assert error.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert stage.log.config == topic_config(BrokerConfig(), {"segment.bytes": "2000", "max.message.bytes": "100"})


# ---------------------------------------------------------------- time


def test_find_by_time_returns_first_record_not_earlier(stage):
    start = stage.now_ms
    for i in range(60):
        records = [NewRecord(None, b"x" * 30, (), start + 10 * i + j) for j in range(3)]
        stage.log.append(build_batch(records), stage.now_ms)

    assert len(stage.log.segments) > 3
    for i in range(60):
        for j in range(3):
            found = stage.log.find_by_time(start + 10 * i + j)
            assert found == (3 * i + j, start + 10 * i + j, 0)
    assert stage.log.find_by_time(0) == (0, start, 0)
    assert stage.log.find_by_time(start + 3) == (3, start + 10, 0)
    assert stage.log.find_by_time(start + 10 * 60) is None


def test_find_by_time_handles_unordered_timestamps(stage):
    for at_ms in (50, 10, 90, 20, 70):
        stage.append(at_ms=at_ms)

    assert stage.log.find_by_time(60) == (2, 90, 0)
    assert stage.log.max_timestamp() == (2, 90, 0)


def test_find_by_time_ignores_records_before_log_start(stage):
    for at_ms in (10, 20, 30):
        stage.append(at_ms=at_ms)
    stage.log.delete_records_before(2)

    assert stage.log.find_by_time(0) == (2, 30, 0)


def test_max_timestamp_ignores_records_before_log_start(stage):
    records = [NewRecord(None, b"x", (), at_ms) for at_ms in (90, 20, 40)]
    stage.log.append(build_batch(records), stage.now_ms)
    stage.append(at_ms=30)

    stage.log.delete_records_before(1)

    assert stage.log.max_timestamp() == (2, 40, 0)
    assert stage.log.find_by_time(50) is None


def test_find_by_time_decompresses_batches(stage):
    records = [NewRecord(None, b"x", (), 100 + i) for i in range(5)]
    stage.log.append(build_batch(records, codec=Codec.ZSTD), stage.now_ms)

    assert stage.log.find_by_time(103) == (3, 103, 0)


def test_find_by_time_of_damaged_batch_returns_first_offset(stage):
    whole = build_batch([NewRecord(None, b"x", (), 100), NewRecord(None, b"y", (), 200)])
    header = parse_batch_header(whole)
    garbage = build_batch([NewRecord(None, b"x", (), 100)])
    assert header.max_timestamp == 200
    forged = bytearray(whole)
    forged[61:] = bytes([0xFF]) * (len(whole) - 61)
    stage.log.append(garbage, stage.now_ms)
    stage.log.append(bytes(forged), stage.now_ms, from_client=False)

    assert stage.log.find_by_time(150) == (1, 200, 0)
    stage.topics.delete("orders")


def test_max_timestamp_of_damaged_first_batch_is_its_header(stage):
    whole = build_batch([NewRecord(None, b"x", (), 100), NewRecord(None, b"y", (), 200)])
    forged = whole[:61] + b"\xff" * (len(whole) - 61)
    stage.log.append(forged, stage.now_ms, from_client=False)
    stage.append(at_ms=150)
    stage.log.delete_records_before(1)

    assert stage.log.max_timestamp() == (1, 200, 0)
    stage.topics.delete("orders")


def test_log_append_time_uses_broker_clock():
    stage = LogStage(message_timestamp_type="LogAppendTime")
    first = stage.now_ms

    assert stage.append("a", "b", at_ms=5) == AppendResult(0, 1, first, 0)
    stage.clock.advance(100)
    stage.append("c", at_ms=1)

    stored = bytes(stage.log.read(0, 1)[0])
    header = parse_batch_header(stored)
    check_crc(stored, 0, header)
    assert (header.timestamp_type, header.max_timestamp) == (1, first)
    assert stage.log.find_by_time(first + 1) == (2, first + 100, 0)
    assert stage.log.max_timestamp() == (2, first + 100, 0)
    stage.check()


# ---------------------------------------------------------------- epochs


def test_leader_epoch_increases_after_crash_only(stage):
    stage.fill(3)
    stage.restart()
    assert stage.log.leader_epoch == 0

    stage.crash()
    assert stage.log.leader_epoch == 1
    stage.fill(2)
    stage.restart()

    assert stage.log.leader_epoch == 1
    assert stage.log.end_of_epoch(0) == (0, 3)
    assert stage.log.end_of_epoch(1) == (1, 5)
    assert stage.log.end_of_epoch(2) == (-1, -1)
    assert stage.log.end_of_epoch(-1) == (-1, -1)


def test_epoch_without_records_is_replaced(stage):
    stage.fill(1)
    stage.crash()
    stage.crash()

    assert stage.log.epochs.entries == [(0, 0), (2, 1)]
    assert stage.log.end_of_epoch(1) == (0, 1)


# ---------------------------------------------------------------- disk


def test_flush_by_count_advances_recovery_point():
    stage = LogStage(flush_messages="3")
    stage.append("a", "b")
    assert stage.log.recovery_point == 0

    stage.append("c")

    assert stage.log.recovery_point == 3
    stage.append("d")
    assert stage.log.recovery_point == 3


def test_flush_resets_unflushed_count():
    stage = LogStage(flush_messages="3")
    stage.append("a", "b")
    stage.log.flush()

    stage.append("c", "d")
    assert stage.log.recovery_point == 2
    stage.append("e")

    assert stage.log.recovery_point == 5


def test_flush_by_time_is_scheduled():
    stage = LogStage(flush_ms="500")
    stage.append("a")

    assert stage.topics.wake_at_ms == stage.now_ms + 500
    stage.clock.advance(500)
    assert stage.topics.tick(stage.now_ms) == []
    assert stage.topics.wake_at_ms > stage.now_ms


def test_flush_interval_begins_with_next_batch():
    stage = LogStage(flush_ms="500")
    scheduled: list[int] = []
    listener = LogHooks(on_flush_due=lambda _tp, at_ms: scheduled.append(at_ms))
    log = PartitionLog(stage.log.tp, stage.storage, stage.log.config, 1_000, listener=listener)
    log.append(batch(), 1_000)
    log.flush()

    log.append(batch(), 1_300)

    assert scheduled == [1_500, 1_800]


def test_recovery_point_advances_over_flushed_segments(stage):
    stage.fill(40)
    assert len(stage.log.segments) > 3
    assert stage.log.recovery_point == 0

    stage.log.advance_recovery_point()

    assert stage.log.recovery_point == stage.log.segments[-1].base_offset


class RefusingStorage(MemoryStorage):
    refused = ""

    def open(self, name: str) -> MemoryFile:
        file = super().open(name)
        if self.refused and name.endswith(self.refused):
            return _Full(file._data)
        return file


class _Full(MemoryFile):
    __slots__ = ()

    def append(self, buffers):
        raise StorageError("no space left")


def test_full_disk_rejects_batch_and_changes_nothing():
    stage = LogStage(RefusingStorage())
    stage.fill(2)
    for segment in stage.log.segments:
        segment.close()
    stage.storage.refused = ".log"

    with pytest.raises(ApiError) as error:
        stage.append("refused", producer_id=7, producer_epoch=0, base_sequence=0)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert stage.log.log_end_offset == 2
    assert stage.log.producers.get(7) is None

    stage.storage.refused = ""
    stage.log.segments[-1].close()
    assert stage.append("accepted", producer_id=7, producer_epoch=0, base_sequence=0).base_offset == 2
    stage.check()


def test_segment_damaged_at_run_time_raises_storage_error(stage):
    stage.fill(2)
    data = stage.storage._folders["orders-0"][f"{0:020d}.log"]
    data[8:12] = b"\x7f\xff\xff\xff"

    with pytest.raises(ApiError) as error:
        stage.log.read(0, 1000)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "00000000000000000000.log at position 0" in error.value.message
    data[8:12] = (len(data) // 2 - 12).to_bytes(4, "big")


def test_idle_segments_close_and_reopen_files(stage):
    names = stage.fill(30)
    assert any(segment.is_open for segment in stage.log.segments)

    for _ in range(2):
        stage.clock.advance(30_000)
        stage.topics.tick(stage.now_ms)

    assert not any(segment.is_open for segment in stage.log.segments)
    assert values_from(stage.log, 0) == names
    more = stage.fill(5)
    assert values_from(stage.log, 30) == more


def test_bytes_from_offset_cover_its_batches(stage):
    stage.fill(40)
    stage.restart()

    for segment in stage.log.segments:
        for position, header in list(segment.headers()):
            assert segment.size - position <= segment.bytes_from(header.base_offset) <= segment.size
        assert segment.bytes_from(segment.end_offset()) <= segment.bytes_from(segment.base_offset)


def test_used_indexes_are_not_released(stage):
    stage.fill(40)
    stage.restart()
    segment = stage.log.segments[0]
    for _ in range(2):
        segment.release()
    assert not segment.is_open

    stage.log.bytes_available(segment.base_offset + 1)
    assert segment.is_open

    assert (segment.release(), segment.is_open) == (False, True)
    assert (segment.release(), segment.is_open) == (True, False)


def test_index_has_entry_after_each_interval():
    size = len(batch(at_ms=1))
    stage = LogStage(index_interval_bytes=str(2 * size), segment_bytes="100000")
    for _ in range(13):
        stage.append()

    # each interval plus one batch: three before the first entry, three between entries
    assert list(stage.log.segments[0].index_entries()) == [(n, n * size) for n in (3, 6, 9, 12)]


def test_index_density_is_independent_of_restarts():
    at_once, often = LogStage(), LogStage()
    for _ in range(30):
        for stage in (at_once, often):
            stage.fill(1)
        often.restart()

    entries = [[segment.index_entries() for segment in stage.log.segments] for stage in (at_once, often)]
    assert sum(map(len, entries[0])) > 5
    assert entries[0] == entries[1]


def test_read_of_zero_bytes_opens_no_file(stage):
    stage.fill(2)
    stage.restart()
    segment = stage.log.segments[0]
    for _ in range(2):
        segment.release()

    assert stage.log.slices(0, 0, at_least_one=False) == []
    assert not segment.is_open
