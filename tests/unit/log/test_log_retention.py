"""Retention: whole segments, the oldest first, by age, by size, and below the log's start."""

import pytest

from kohort.errors import ApiError, ErrorCode
from support.machines.log_stage import LogRoom, values_from

HOUR = 3_600_000


def bases(room):
    return [segment.base_offset for segment in room.log.segments]


def tick_retention(room):
    room.clock.advance(300_000)
    return [str(note) for note in room.topics.tick(room.now_ms)]


def test_segments_go_when_their_latest_record_is_too_old():
    room = LogRoom(retention_ms=str(HOUR))
    room.fill(20)
    room.clock.advance(HOUR)
    names = room.fill(10)
    before = bases(room)

    notes = tick_retention(room)

    kept = bases(room)
    assert kept == [base for base in before if base >= kept[0]]
    assert 0 < kept[0] <= 20
    assert (
        notes
        == [
            f"orders-0: deleted {len(before) - len(kept)} segments ({940 * 2} bytes), older than {HOUR} ms;"
            f" starts at {kept[0]}"
        ]
        or kept[0] == room.log.log_start_offset
    )
    assert values_from(room.log, 20) == names
    assert room.files(".log") == [f"{base:020d}.log" for base in kept]
    room.check()


def test_when_all_is_too_old_the_last_segment_is_rolled_and_goes_too():
    room = LogRoom(retention_ms=str(HOUR))
    room.fill(20)
    room.clock.advance(2 * HOUR)

    tick_retention(room)

    assert bases(room) == [20]
    assert (room.log.log_start_offset, room.log.log_end_offset) == (20, 20)
    assert room.restart() == []
    assert room.append("next").base_offset == 20
    room.check()


def test_an_empty_log_is_left_alone():
    room = LogRoom(retention_ms="1")

    assert tick_retention(room) == []
    assert room.files() == ["partition.metadata"]


def test_records_without_timestamps_age_by_the_clock():
    room = LogRoom(retention_ms=str(HOUR))
    room.append(at_ms=-1)
    tick_retention(room)
    assert room.log.log_start_offset == 0

    room.clock.advance(HOUR)
    tick_retention(room)

    assert room.log.log_start_offset == 1


def test_segments_go_while_the_log_stays_above_its_size():
    room = LogRoom(retention_bytes="2000")
    names = room.fill(60)
    size = room.log.size_bytes

    notes = tick_retention(room)

    start = room.log.log_start_offset
    assert 2000 <= room.log.size_bytes < 2000 + 1024 < size
    assert notes[0].endswith(f"more than 2000 bytes; starts at {start}")
    assert values_from(room.log, start) == names[start:]
    with pytest.raises(ApiError) as error:
        room.log.read(start - 1, 1000)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    room.check()


def test_a_compacted_topic_is_not_cut_by_age_or_size():
    room = LogRoom(
        cleanup_policy="compact", retention_ms="1", retention_bytes="1", min_compaction_lag_ms=str(10 * HOUR)
    )
    names = room.fill(30, key=b"k")
    room.clock.advance(HOUR)

    assert tick_retention(room) == []
    assert values_from(room.log, 0) == names


def test_minus_one_keeps_everything():
    room = LogRoom(retention_ms="-1")
    names = room.fill(30)
    room.clock.advance(10_000 * HOUR)

    assert tick_retention(room) == []
    assert values_from(room.log, 0) == names


def test_deleted_records_are_gone_at_once_and_after_a_restart():
    room = LogRoom()
    names = room.fill(30)

    assert room.log.delete_records_before(17) == 17
    assert room.log.delete_records_before(5) == 17
    assert room.log.log_start_offset == 17
    tick_retention(room)

    assert bases(room)[0] <= 17 < bases(room)[1]
    assert room.log.end_of_epoch(0) == (0, 30)
    for restart in (room.restart, room.crash):
        restart()
        assert room.log.log_start_offset == 17
        assert values_from(room.log, 17) == names[17:]
    room.check()


def test_all_records_can_be_deleted_but_none_beyond_the_end():
    room = LogRoom()
    room.fill(3)

    with pytest.raises(ApiError) as error:
        room.log.delete_records_before(4)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert room.log.delete_records_before(-1) == 3
    assert room.log.find_by_time(0) is None
    room.check()


def test_epochs_before_the_start_are_forgotten():
    room = LogRoom()
    room.fill(10)
    room.crash()
    room.fill(10)

    room.log.delete_records_before(15)

    assert room.log.epochs.entries == [(1, 15)]
    assert room.log.end_of_epoch(0) == (0, 15)
    room.check()
