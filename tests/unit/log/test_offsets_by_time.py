"""From a time to an offset, on segments as compaction, Kafka and DeleteRecords leave them."""

import pytest

from kohort.log.segment import Segment, SegmentLimits
from kohort.log.segment_queries import find_by_time, find_max_timestamp
from kohort.log.storage import MemoryStorage
from kohort.wire.record_batch import NewRecord, build_batch, pack_batch, parse_batch_header
from support.machines.log_stage import LogStage

LIMITS = SegmentLimits(
    segment_bytes=1 << 20, segment_ms=1 << 40, index_interval_bytes=4096, segment_index_bytes=1 << 20
)


class Written:
    """Segments that are written batch by batch, as nothing but a disk would hold them."""

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
    """A batch that lost its records to compaction, and that kept its time, as Kafka leaves it."""
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


def test_a_time_is_looked_for_behind_a_batch_that_compaction_emptied(log):
    log.segment(0, timed(0, 10), emptied(1, 30), timed(2, 20), timed(3, 30, 40))

    assert [found(log, at_ms) for at_ms in (10, 11, 21, 31, 41)] == [(0, 10), (2, 20), (3, 30), (4, 40), None]
    assert latest(log) == (4, 40)


def test_a_time_is_looked_for_in_the_next_segment_where_one_has_but_an_emptied_batch_of_it(log):
    log.segment(0, timed(0, 10), emptied(1, 30))
    log.segment(2, timed(2, 30))

    assert found(log, 20) == (2, 30)


def test_latest_of_records_without_a_time_is_the_first_record(log):
    log.segment(0, timed(0, -1, -1))
    log.segment(2, timed(2, -1))
    assert latest(log) == (0, -1)
    assert latest(log, 1) == (1, -1)
    assert latest(log, 3) is None
    assert latest(Written()) is None

    log.segment(3, timed(3, 0))
    assert latest(log) == (3, 0), "the first millisecond of 1970 is a time"


def test_the_latest_time_is_the_first_that_bears_it(log):
    log.segment(0, timed(0, 10, 50, 50), timed(3, 50))
    log.segment(4, timed(4, 40))

    assert latest(log) == (1, 50)
    assert latest(log, 1) == (1, 50)
    assert latest(log, 2) == (2, 50)
    assert latest(log, 3) == (3, 50)
    assert latest(log, 4) == (4, 40)
    assert latest(log, 5) is None


def test_of_a_batch_in_which_the_log_starts_only_what_may_be_read_counts(log):
    log.segment(0, timed(0, 90, 20, 30))

    assert [latest(log, start) for start in range(4)] == [(0, 90), (2, 30), (2, 30), None]
    assert [found(log, 20, start) for start in range(4)] == [(0, 90), (1, 20), (2, 30), None]


def test_where_the_broker_set_the_time_all_records_of_a_batch_bear_it(log):
    log.segment(0, timed(0, 1, 2, 3, log_append_time_ms=70), timed(3, 4, log_append_time_ms=60))

    assert [latest(log, start) for start in range(5)] == [(0, 70), (1, 70), (2, 70), (3, 60), None]
    assert [found(log, 60, start) for start in range(5)] == [(0, 70), (1, 70), (2, 70), (3, 60), None]


def test_latest_of_a_log_without_times_is_the_same_after_a_restart():
    stage = LogStage()
    stage.append("a", "b", at_ms=-1)

    assert stage.log.max_timestamp() == (0, -1, 0)
    stage.restart()
    assert stage.log.max_timestamp() == (0, -1, 0)
