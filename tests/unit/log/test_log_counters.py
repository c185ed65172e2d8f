"""What the logs of a data folder count together."""

from kohort.log.listener import LogCounters
from support.machines.log_stage import LogStage


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
