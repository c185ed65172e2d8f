"""A partition: what is appended is read, whole batches, from any offset."""

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


def test_an_append_says_where_the_batch_lies_and_a_read_gives_it_back(stage):
    assert stage.append("a", "b", "c") == AppendResult(0, 2, -1, 0)
    assert stage.append("d") == AppendResult(3, 3, -1, 0)

    assert values_from(stage.log, 0) == ["a", "b", "c", "d"]
    assert (stage.log.log_start_offset, stage.log.high_watermark, stage.log.last_stable_offset) == (0, 4, 4)


def test_a_batch_is_stored_as_it_came_but_for_its_offset_and_epoch(stage):
    stage.append("before")
    given = batch(["x", "y"], codec=Codec.GZIP, at_ms=5)

    stage.log.append(given, stage.now_ms)

    stored = bytes(stage.log.read(1, 10_000)[0])
    assert stored[16:] == given[16:]
    header = parse_batch_header(stored)
    assert (header.base_offset, header.partition_leader_epoch) == (1, 0)


def test_a_read_in_the_middle_of_a_batch_begins_with_that_batch(stage):
    stage.append("a", "b", "c")
    stage.append("d")

    assert offsets_in(stage.log.read(1, 10_000)) == [0, 3]
    assert values_from(stage.log, 2) == ["c", "d"]


def test_a_read_gives_whole_batches_within_its_bytes(stage):
    stage.fill(3)
    size = len(batch([f"record 0 {'x' * 40}"]))

    assert offsets_in(stage.log.read(0, 2 * size)) == [0, 1]
    assert offsets_in(stage.log.read(0, 2 * size - 1)) == [0]


def test_a_first_batch_larger_than_asked_comes_whole_unless_it_may_not(stage):
    stage.append("x" * 500)

    assert offsets_in(stage.log.read(0, 10)) == [0]
    assert offsets_in(stage.log.read(0, 0)) == [0]
    assert stage.log.read(0, 10, at_least_one=False) == []
    assert stage.log.read(0, 0, at_least_one=False) == []


def test_a_small_read_does_not_skip_to_a_later_segment_that_would_fit(stage):
    stage.append("x" * 800)
    stage.append("y" * 800)
    stage.append("z")

    assert len(stage.log.segments) > 1
    assert stage.log.read(0, 200, at_least_one=False) == []
    assert offsets_in(stage.log.read(0, 900)) == [0]


def test_a_read_goes_on_in_the_next_segment_while_there_is_room(stage):
    names = stage.fill(40)

    assert len(stage.log.segments) > 2
    assert offsets_in(stage.log.read(0, 1 << 20)) == list(range(40))
    assert values_from(stage.log, 17, max_bytes=300) == names[17:]


def test_a_read_ends_before_the_batch_that_begins_at_the_given_end(stage):
    stage.fill(30)

    assert offsets_in(stage.log.read(3, 1 << 20, end=8)) == [3, 4, 5, 6, 7]
    assert stage.log.read(8, 1 << 20, end=8) == []


def test_at_the_end_there_is_nothing_and_beyond_it_an_error(stage):
    stage.fill(2)

    assert stage.log.read(2, 1000) == []
    assert stage.log.bytes_available(2) == 0
    for offset in (-1, 3):
        with pytest.raises(ApiError) as error:
            stage.log.read(offset, 1000)
        assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_record_of_the_first_millisecond_has_a_time(stage):
    stage.append("first", at_ms=0)

    assert stage.log.max_timestamp() == (0, 0, 0)


def test_an_empty_partition_has_no_files_and_nothing_to_read(stage):
    assert stage.log.read(0, 1000) == []
    assert stage.log.find_by_time(0) is None
    assert stage.log.max_timestamp() is None
    assert stage.log.end_of_epoch(0) == (0, 0)
    assert stage.files() == ["partition.metadata"]


def test_bytes_available_is_exact_where_a_reader_stopped(stage):
    stage.fill(3)
    stage.log.read(0, 1 << 20)
    stage.fill(1)

    size = len(batch([f"record 0 {'x' * 40}"]))
    assert stage.log.bytes_available(3) == size
    assert stage.log.bytes_available(0) == 4 * size == stage.log.size_bytes


# ---------------------------------------------------------------- segments


def test_a_segment_is_rolled_by_bytes_and_named_by_its_first_offset(stage):
    stage.fill(20)

    names = stage.files(".log")
    assert names[0] == f"{0:020d}.log"
    assert names == [segment.log_name for segment in stage.log.segments]
    assert all(segment.size <= 1024 for segment in stage.log.segments)
    assert len(names) == 3


def test_a_segment_is_rolled_by_the_time_between_its_batches():
    stage = LogStage(segment_ms="1000")
    stage.append(at_ms=5_000)
    stage.append(at_ms=6_000)
    assert len(stage.log.segments) == 1

    stage.append(at_ms=6_001)

    assert [segment.base_offset for segment in stage.log.segments] == [0, 2]
    stage.check()


def test_without_timestamps_a_segment_is_rolled_by_the_clock():
    stage = LogStage(segment_ms="1000")
    stage.append(at_ms=-1)
    stage.clock.advance(1_001)

    stage.append(at_ms=-1)

    assert [segment.base_offset for segment in stage.log.segments] == [0, 1]


def test_a_segment_is_rolled_when_its_index_is_full():
    stage = LogStage(segment_index_bytes="24", index_interval_bytes="0")
    for i in range(5):
        stage.append("v", at_ms=1000 + i)

    assert len(stage.log.segments) > 1
    assert values_from(stage.log, 0) == ["v"] * 5
    stage.check()


def test_the_age_of_the_first_batch_is_known_after_a_restart():
    stage = LogStage(segment_ms="1000")
    stage.append(at_ms=5_000)
    stage.restart()

    stage.append(at_ms=7_000)

    assert [segment.base_offset for segment in stage.log.segments] == [0, 1]


def test_new_options_bear_on_what_comes(stage):
    stage.fill(3)

    stage.topics.alter_config("orders", {"segment.bytes": "2000", "max.message.bytes": "100"})
    stage.restart()

    with pytest.raises(ApiError) as error:
        stage.append("x" * 200)
    assert error.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert stage.log.config == topic_config(BrokerConfig(), {"segment.bytes": "2000", "max.message.bytes": "100"})


# ---------------------------------------------------------------- time


def test_a_time_is_found_as_the_first_record_that_is_not_earlier(stage):
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


def test_times_out_of_order_are_found_by_the_first_that_is_late_enough(stage):
    for at_ms in (50, 10, 90, 20, 70):
        stage.append(at_ms=at_ms)

    assert stage.log.find_by_time(60) == (2, 90, 0)
    assert stage.log.max_timestamp() == (2, 90, 0)


def test_a_time_before_the_logs_start_is_not_found_there(stage):
    for at_ms in (10, 20, 30):
        stage.append(at_ms=at_ms)
    stage.log.delete_records_before(2)

    assert stage.log.find_by_time(0) == (2, 30, 0)


def test_the_latest_time_is_that_of_a_record_that_may_be_read(stage):
    records = [NewRecord(None, b"x", (), at_ms) for at_ms in (90, 20, 40)]
    stage.log.append(build_batch(records), stage.now_ms)
    stage.append(at_ms=30)

    stage.log.delete_records_before(1)

    assert stage.log.max_timestamp() == (2, 40, 0)
    assert stage.log.find_by_time(50) is None


def test_compressed_batches_are_opened_for_a_time(stage):
    records = [NewRecord(None, b"x", (), 100 + i) for i in range(5)]
    stage.log.append(build_batch(records, codec=Codec.ZSTD), stage.now_ms)

    assert stage.log.find_by_time(103) == (3, 103, 0)


def test_a_batch_that_cannot_be_opened_is_found_by_its_first_offset(stage):
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


def test_the_latest_time_of_a_log_that_begins_in_a_batch_that_cannot_be_opened_is_what_the_batch_says(stage):
    whole = build_batch([NewRecord(None, b"x", (), 100), NewRecord(None, b"y", (), 200)])
    forged = whole[:61] + b"\xff" * (len(whole) - 61)
    stage.log.append(forged, stage.now_ms, from_client=False)
    stage.append(at_ms=150)
    stage.log.delete_records_before(1)

    assert stage.log.max_timestamp() == (1, 200, 0)
    stage.topics.delete("orders")


def test_records_of_a_log_append_time_topic_take_the_brokers_clock():
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


def test_a_clean_restart_keeps_the_leader_epoch_and_a_crash_begins_a_new_one(stage):
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


def test_an_epoch_without_records_gives_way_to_the_next(stage):
    stage.fill(1)
    stage.crash()
    stage.crash()

    assert stage.log.epochs.entries == [(0, 0), (2, 1)]
    assert stage.log.end_of_epoch(1) == (0, 1)


# ---------------------------------------------------------------- disk


def test_what_is_flushed_by_count_moves_the_recovery_point():
    stage = LogStage(flush_messages="3")
    stage.append("a", "b")
    assert stage.log.recovery_point == 0

    stage.append("c")

    assert stage.log.recovery_point == 3
    stage.append("d")
    assert stage.log.recovery_point == 3


def test_after_a_flush_its_count_begins_anew():
    stage = LogStage(flush_messages="3")
    stage.append("a", "b")
    stage.log.flush()

    stage.append("c", "d")
    assert stage.log.recovery_point == 2
    stage.append("e")

    assert stage.log.recovery_point == 5


def test_a_flush_by_time_is_asked_for_at_its_time():
    stage = LogStage(flush_ms="500")
    stage.append("a")

    assert stage.topics.wake_at_ms == stage.now_ms + 500
    stage.clock.advance(500)
    assert stage.topics.tick(stage.now_ms) == []
    assert stage.topics.wake_at_ms > stage.now_ms


def test_after_a_flush_the_time_to_the_next_one_begins_with_the_next_batch():
    stage = LogStage(flush_ms="500")
    asked: list[int] = []
    listener = LogHooks(on_flush_due=lambda _tp, at_ms: asked.append(at_ms))
    log = PartitionLog(stage.log.tp, stage.storage, stage.log.config, 1_000, listener=listener)
    log.append(batch(), 1_000)
    log.flush()

    log.append(batch(), 1_300)

    assert asked == [1_500, 1_800]


def test_once_closed_segments_are_on_the_disk_the_recovery_point_is_where_the_last_begins(stage):
    stage.fill(40)
    assert len(stage.log.segments) > 3
    assert stage.log.recovery_point == 0

    stage.log.advance_recovery_point()

    assert stage.log.recovery_point == stage.log.segments[-1].base_offset


class RefusingStorage(MemoryStorage):
    """A disk that is full for files that end in ``refused``."""

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


def test_a_full_disk_refuses_the_batch_and_changes_nothing():
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


def test_a_segment_damaged_under_a_running_broker_is_an_error_and_not_a_wild_read(stage):
    stage.fill(2)
    data = stage.storage._folders["orders-0"][f"{0:020d}.log"]
    data[8:12] = b"\x7f\xff\xff\xff"

    with pytest.raises(ApiError) as error:
        stage.log.read(0, 1000)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "00000000000000000000.log at position 0" in error.value.message
    data[8:12] = (len(data) // 2 - 12).to_bytes(4, "big")


def test_idle_segments_give_their_files_back_and_take_them_again(stage):
    names = stage.fill(30)
    assert any(segment.is_open for segment in stage.log.segments)

    for _ in range(2):
        stage.clock.advance(30_000)
        stage.topics.tick(stage.now_ms)

    assert not any(segment.is_open for segment in stage.log.segments)
    assert values_from(stage.log, 0) == names
    more = stage.fill(5)
    assert values_from(stage.log, 30) == more


def test_from_an_offset_on_a_segment_has_at_least_the_bytes_of_its_batches(stage):
    stage.fill(40)
    stage.restart()

    for segment in stage.log.segments:
        for position, header in list(segment.headers()):
            assert segment.size - position <= segment.bytes_from(header.base_offset) <= segment.size
        assert segment.bytes_from(segment.end_offset()) <= segment.bytes_from(segment.base_offset)


def test_a_segment_of_which_only_the_indexes_are_used_keeps_them_until_nobody_does(stage):
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


def test_an_index_names_the_first_batch_behind_each_interval_of_bytes():
    size = len(batch(at_ms=1))
    stage = LogStage(index_interval_bytes=str(2 * size), segment_bytes="100000")
    for _ in range(13):
        stage.append()

    # one batch more than the interval lies before each: three before the first, and three from one to the next
    assert list(stage.log.segments[0].index_entries()) == [(n, n * size) for n in (3, 6, 9, 12)]


def test_an_index_is_as_dense_where_the_broker_was_stopped_after_each_batch():
    at_once, often = LogStage(), LogStage()
    for _ in range(30):
        for stage in (at_once, often):
            stage.fill(1)
        often.restart()

    entries = [[segment.index_entries() for segment in stage.log.segments] for stage in (at_once, often)]
    assert sum(map(len, entries[0])) > 5
    assert entries[0] == entries[1]


def test_a_read_that_may_give_nothing_opens_no_file(stage):
    stage.fill(2)
    stage.restart()
    segment = stage.log.segments[0]
    for _ in range(2):
        segment.release()

    assert stage.log.slices(0, 0, at_least_one=False) == []
    assert not segment.is_open
