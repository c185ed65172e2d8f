"""Dirty part of a log: its size, its end, and when it is overdue."""

import pytest

from kohort.errors import ApiError, ErrorCode
from kohort.log.compaction import Dirty, dirty_part
from kohort.wire.record_batch import Marker
from support.machines.log_stage import LogStage

HOUR_MS = 3_600_000


def stage_of(*at_ms, **options):
    stage = LogStage(cleanup_policy="compact", segment_bytes="1000000", **options)
    for number, time_ms in enumerate(at_ms):
        stage.append(key=b"%d" % number, at_ms=stage.now_ms + time_ms)
        stage.log.roll(stage.now_ms)
    assert len({segment.size for segment in stage.log.segments[:-1]}) <= 1
    return stage


def dirty(stage, clean_until=0):
    return dirty_part(stage.log, clean_until, stage.now_ms)


@pytest.mark.parametrize(("clean_until", "ratio"), [(0, 1.0), (1, 0.75), (2, 0.5), (3, 0.25), (4, 0.0)])
def test_compacted_segment_is_clean(clean_until, ratio):
    found = dirty(stage_of(0, 0, 0, 0), clean_until)

    assert found[:3] == (clean_until, 4, ratio)


def test_progress_beyond_log_end_makes_all_dirty():
    found = dirty(stage_of(0, 0), clean_until=3)

    assert found[:3] == (0, 2, 1.0)


@pytest.mark.parametrize("open_at", [0, 1, 2, 3])
def test_dirty_part_ends_before_open_transaction(open_at):
    stage = stage_of()
    for number in range(4):
        of_producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number, "is_transactional": True}
        stage.append(key=b"k", **(of_producer if number == open_at else {}))
        stage.log.roll(stage.now_ms)

    assert dirty(stage).end == open_at

    stage.log.end_transaction(Marker(7, 0, committed=True, coordinator_epoch=0), stage.now_ms)
    assert dirty(stage).end == 4


def test_dirty_part_ends_before_min_compaction_lag():
    stage = stage_of(-2, -1, 0, min_compaction_lag_ms="1")

    ends = [dirty(stage).end]
    stage.clock.advance(1)
    ends.append(dirty(stage).end)

    assert ends == [2, 3]


def test_zero_min_compaction_lag_ignores_timestamps():
    assert dirty(stage_of(0, 60_000, 0)).end == 3


def test_young_clean_segment_does_not_end_the_dirty_part():
    stage = stage_of(60_000, -2, -1, min_compaction_lag_ms="1")

    assert dirty(stage).end == 0
    assert dirty(stage, clean_until=1)[:2] == (1, 3)


def test_log_is_overdue_after_max_compaction_lag():
    stage = stage_of(0, 1_000, max_compaction_lag_ms=str(HOUR_MS))
    overdue = []
    for wait_ms in (HOUR_MS, 1, 999, 1):
        stage.clock.advance(wait_ms)
        overdue.append((dirty(stage).overdue, dirty(stage, clean_until=1).overdue))

    assert overdue == [(False, False), (True, False), (True, False), (True, True)]


@pytest.mark.parametrize(("time_ms", "overdue"), [(0, False), (1, True), (-1, False)])
def test_record_without_timestamp_does_not_make_log_overdue(time_ms, overdue):
    stage = LogStage(cleanup_policy="compact", max_compaction_lag_ms=str(HOUR_MS))
    stage.append(key=b"k", at_ms=time_ms)
    stage.log.roll(stage.now_ms)

    assert dirty(stage).overdue is overdue


def test_min_compaction_lag_above_max_is_rejected():
    stage = stage_of()
    least = {"min.compaction.lag.ms": "5"}

    stage.topics.alter_config("orders", least | {"max.compaction.lag.ms": "5"})
    with pytest.raises(ApiError) as refused:
        stage.topics.alter_config("orders", least | {"max.compaction.lag.ms": "4"})

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert stage.log.config.max_compaction_lag_ms == 5


def test_unlimited_max_compaction_lag_is_never_overdue():
    stage = stage_of(0)
    stage.clock.advance(1_000 * 365 * 24 * HOUR_MS)

    assert dirty(stage).overdue is False


@pytest.mark.parametrize(
    ("found", "worth_it"),
    [
        (Dirty(1, 4, 0.75, overdue=False), True),
        (Dirty(2, 4, 0.5, overdue=False), False),
        (Dirty(2, 4, 0.5, overdue=True), True),
        (Dirty(4, 4, 1.0, overdue=True), False),
    ],
    ids=["more than half", "just half", "half, and overdue", "nothing"],
)
def test_log_is_due_by_dirty_ratio_or_lag(found, worth_it):
    assert found.is_due(0.5) is worth_it
