"""Retention of whole segments by age, size and log start, and lookups by timestamp."""

import pytest

from kohort.errors import ApiError, ErrorCode
from kohort.log.segment import Segment, SegmentLimits
from kohort.log.segment_queries import below_start, find_by_time, find_max_timestamp, too_many, too_old
from kohort.log.storage import MemoryStorage
from kohort.wire.record_batch import NewRecord, build_batch, pack_batch, parse_batch_header
from support.machines.log_stage import LogStage, values_from

HOUR = 3_600_000


def bases(stage):
    return [segment.base_offset for segment in stage.log.segments]


def tick_retention(stage):
    stage.clock.advance(300_000)
    return [str(note) for note in stage.topics.tick(stage.now_ms)]


def test_segments_are_deleted_by_age_of_latest_record():
    stage = LogStage(retention_ms=str(HOUR))
    stage.fill(20)
    stage.clock.advance(HOUR)
    names = stage.fill(10)
    before = bases(stage)

    notes = tick_retention(stage)

    kept = bases(stage)
    assert kept == [base for base in before if base >= kept[0]]
    assert 0 < kept[0] <= 20
    assert (
        notes
        == [
            f"orders-0: deleted {len(before) - len(kept)} segments ({940 * 2} bytes), older than {HOUR} ms;"
            f" starts at {kept[0]}"
        ]
        or kept[0] == stage.log.log_start_offset
    )
    assert values_from(stage.log, 20) == names
    assert stage.files(".log") == [f"{base:020d}.log" for base in kept]
    stage.check()


def test_expired_active_segment_is_rolled_and_deleted():
    stage = LogStage(retention_ms=str(HOUR))
    stage.fill(20)
    stage.clock.advance(2 * HOUR)

    tick_retention(stage)

    assert bases(stage) == [20]
    assert (stage.log.log_start_offset, stage.log.log_end_offset) == (20, 20)
    assert stage.restart() == []
    assert stage.append("next").base_offset == 20
    stage.check()


def test_retention_of_empty_log_does_nothing():
    stage = LogStage(retention_ms="1")

    assert tick_retention(stage) == []
    assert stage.files() == ["partition.metadata"]


def test_records_without_timestamps_expire_by_clock():
    stage = LogStage(retention_ms=str(HOUR))
    stage.append(at_ms=-1)
    tick_retention(stage)
    assert stage.log.log_start_offset == 0

    stage.clock.advance(HOUR)
    tick_retention(stage)

    assert stage.log.log_start_offset == 1


def test_segments_are_deleted_by_size():
    stage = LogStage(retention_bytes="2000")
    names = stage.fill(60)
    size = stage.log.size_bytes

    notes = tick_retention(stage)

    start = stage.log.log_start_offset
    assert 2000 <= stage.log.size_bytes < 2000 + 1024 < size
    assert notes[0].endswith(f"more than 2000 bytes; the log starts at {start}")
    assert values_from(stage.log, start) == names[start:]
    with pytest.raises(ApiError) as error:
        stage.log.read(start - 1, 1000)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    stage.check()


@pytest.mark.parametrize(("spared", "deleted_count"), [(1, 0), (0, 1), (-1, 1)])
def test_segment_is_deleted_if_rest_equals_retention_bytes(spared, deleted_count):
    stage = LogStage()
    stage.fill(60)
    rest = stage.log.size_bytes - stage.log.segments[0].size

    assert too_many(stage.log.segments, rest + spared) == deleted_count


def test_zero_retention_bytes_deletes_whole_log():
    stage = LogStage()
    stage.fill(60)

    assert too_many(stage.log.segments, 0) == len(stage.log.segments)
    assert too_many(stage.log.segments, -1) == 0


def test_segment_expires_exactly_at_retention_ms():
    stage = LogStage()
    stage.append("a")

    assert too_old(stage.log.segments, stage.now_ms + HOUR, HOUR) == 0
    assert too_old(stage.log.segments, stage.now_ms + HOUR + 1, HOUR) == 1


def test_segments_after_log_start_are_kept():
    stage = LogStage()
    stage.fill(60)
    found = [below_start(stage.log.segments[1:], base + step) for base in bases(stage)[:4] for step in (-1, 0)]

    assert found == [0, 0, 0, 0, 0, 1, 1, 2]
    assert below_start(stage.log.segments[-1:], 1_000) == 0, "the last segment is kept"


def test_compacted_topic_ignores_retention():
    stage = LogStage(
        cleanup_policy="compact", retention_ms="1", retention_bytes="1", min_compaction_lag_ms=str(10 * HOUR)
    )
    names = stage.fill(30, key=b"k")
    stage.clock.advance(HOUR)

    assert tick_retention(stage) == []
    assert values_from(stage.log, 0) == names


def test_retention_minus_one_keeps_everything():
    stage = LogStage(retention_ms="-1")
    names = stage.fill(30)
    stage.clock.advance(10_000 * HOUR)

    assert tick_retention(stage) == []
    assert values_from(stage.log, 0) == names


def test_deleted_records_stay_deleted_after_restart():
    stage = LogStage()
    names = stage.fill(30)

    assert stage.log.delete_records_before(17) == 17
    assert stage.log.delete_records_before(5) == 17
    assert stage.log.log_start_offset == 17
    tick_retention(stage)

    assert bases(stage)[0] <= 17 < bases(stage)[1]
    assert stage.log.end_of_epoch(0) == (0, 30)
    for restart in (stage.restart, stage.crash):
        restart()
        assert stage.log.log_start_offset == 17
        assert values_from(stage.log, 17) == names[17:]
    stage.check()


def test_delete_records_beyond_end_is_rejected():
    stage = LogStage()
    stage.fill(3)

    with pytest.raises(ApiError) as error:
        stage.log.delete_records_before(4)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert stage.log.delete_records_before(-1) == 3
    assert stage.log.find_by_time(0) is None
    stage.check()


def test_epochs_before_log_start_are_dropped():
    stage = LogStage()
    stage.fill(10)
    stage.crash()
    stage.fill(10)

    stage.log.delete_records_before(15)

    assert stage.log.epochs.entries == [(1, 15)]
    assert stage.log.end_of_epoch(0) == (0, 15)
    stage.check()


LIMITS = SegmentLimits(
    segment_bytes=1 << 20, segment_ms=1 << 40, index_interval_bytes=4096, segment_index_bytes=1 << 20
)


class Written:
    def __init__(self):
        self.storage = MemoryStorage()
        self.storage.make_folder("p-0")
        self.segments = []

    def segment(self, base_offset, *batches):
        made = Segment(self.storage, "p-0", base_offset, LIMITS, 0)
        for data in batches:
            header = parse_batch_header(data)
            made.append([data], len(data), header.last_offset, header.max_timestamp)
        self.segments.append(made)


def timed(base_offset, *times_ms, **how):
    return build_batch([NewRecord(None, b"v", (), at_ms) for at_ms in times_ms], base_offset=base_offset, **how)


def emptied(base_offset, at_ms):
    header = parse_batch_header(timed(base_offset, at_ms))
    return pack_batch(header._replace(record_count=0), b"")


@pytest.fixture
def log():
    return Written()


def found(log, at_ms, start=0):
    answer = find_by_time(log.segments, at_ms, start)
    return answer and answer[:2]


def latest(log, start=0):
    answer = find_max_timestamp(log.segments, start)
    return answer and answer[:2]


def test_find_by_time_skips_empty_batch(log):
    log.segment(0, timed(0, 10), emptied(1, 30), timed(2, 20), timed(3, 30, 40))

    assert [found(log, at_ms) for at_ms in (10, 11, 21, 31, 41)] == [(0, 10), (2, 20), (3, 30), (4, 40), None]
    assert latest(log) == (4, 40)


def test_find_by_time_skips_segment_with_empty_batch(log):
    log.segment(0, timed(0, 10), emptied(1, 30))
    log.segment(2, timed(2, 30))

    assert found(log, 20) == (2, 30)


def test_max_timestamp_without_timestamps_is_first_record(log):
    log.segment(0, timed(0, -1, -1))
    log.segment(2, timed(2, -1))
    assert latest(log) == (0, -1)
    assert latest(log, 1) == (1, -1)
    assert latest(log, 3) is None
    assert latest(Written()) is None

    log.segment(3, timed(3, 0))
    assert latest(log) == (3, 0), "timestamp 0 is valid"


def test_max_timestamp_returns_first_record_with_it(log):
    log.segment(0, timed(0, 10, 50, 50), timed(3, 50))
    log.segment(4, timed(4, 40))

    assert latest(log) == (1, 50)
    assert latest(log, 1) == (1, 50)
    assert latest(log, 2) == (2, 50)
    assert latest(log, 3) == (3, 50)
    assert latest(log, 4) == (4, 40)
    assert latest(log, 5) is None


def test_max_timestamp_counts_records_after_log_start(log):
    log.segment(0, timed(0, 90, 20, 30))

    assert [latest(log, start) for start in range(4)] == [(0, 90), (2, 30), (2, 30), None]
    assert [found(log, 20, start) for start in range(4)] == [(0, 90), (1, 20), (2, 30), None]


def test_log_append_time_applies_to_all_records(log):
    log.segment(0, timed(0, 1, 2, 3, log_append_time_ms=70), timed(3, 4, log_append_time_ms=60))

    assert [latest(log, start) for start in range(5)] == [(0, 70), (1, 70), (2, 70), (3, 60), None]
    assert [found(log, 60, start) for start in range(5)] == [(0, 70), (1, 70), (2, 70), (3, 60), None]


def test_max_timestamp_without_timestamps_survives_restart():
    stage = LogStage()
    stage.append("a", "b", at_ms=-1)

    assert stage.log.max_timestamp() == (0, -1, 0)
    stage.restart()
    assert stage.log.max_timestamp() == (0, -1, 0)
