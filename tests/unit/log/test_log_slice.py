"""Slices of a log: found by headers, read later, never garbage."""

import pytest

from kohort.errors import StorageError
from kohort.wire.record_batch import split_batches
from support.machines.log_stage import LogStage, batch, values_from


def stage_with(count: int, *, size: int = 500, segment_bytes: str = "1000000000") -> LogStage:
    stage = LogStage(segment_bytes=segment_bytes, max_message_bytes="100000000")
    for i in range(count):
        stage.append(f"{i} " + "x" * size)
    return stage


@pytest.mark.parametrize("at_hand", [0, 100, 5000, 1 << 20])
@pytest.mark.parametrize("max_bytes", [1, 700, 5000, 70_000, 1 << 20])
def test_a_slice_is_what_a_read_gives_however_little_of_it_was_read(at_hand, max_bytes):
    stage = stage_with(300, segment_bytes="50000")
    for offset in (0, 7, 150, 299, 300):
        found = stage.log.slices(offset, max_bytes, at_hand=at_hand)
        data = b"".join(bytes(one.load()) for one in found)
        assert data == b"".join(bytes(b) for b in stage.log.read(offset, max_bytes))
        assert sum(map(len, found)) == len(data)
        if found:
            headers = [header for _, header in split_batches(data)]
            assert headers[0].base_offset == offset
            assert found[-1].next_offset == headers[-1].next_offset
            assert sum(len(one.begun) for one in found) <= max(at_hand, 4096) + 4096 * len(found)


def test_a_slice_ends_before_the_end_that_is_given():
    stage = stage_with(300)

    (one,) = stage.log.slices(0, 1 << 20, end=200)

    assert one.next_offset == 200
    assert one.at_hand is None


def test_a_slice_is_read_piece_by_piece():
    stage = stage_with(300)
    (one,) = stage.log.slices(0, 1 << 20)

    pieces = [bytes(one.read(at, min(777, len(one) - at))) for at in range(0, len(one), 777)]

    assert b"".join(pieces) == b"".join(stage.log.read(0, 1 << 20))


def test_a_batch_larger_than_what_is_asked_is_found_and_not_read():
    stage = LogStage(segment_bytes="100000000", max_message_bytes="100000000")
    stage.append("x" * 3_000_000)

    (one,) = stage.log.slices(0, 1, at_hand=1 << 20)

    assert len(one) > 3_000_000
    assert len(one.begun) <= 4096
    assert len(one.load()) == len(one)


def test_what_is_appended_meanwhile_does_not_change_a_slice():
    stage = stage_with(100)
    before = b"".join(bytes(b) for b in stage.log.read(0, 1 << 20))
    (one,) = stage.log.slices(0, 1 << 20)

    stage.fill(100)

    assert bytes(one.load()) == before


def test_a_slice_outlives_files_that_are_given_back():
    stage = stage_with(100)
    (one,) = stage.log.slices(0, 1 << 20)

    stage.log.release()
    stage.log.release()

    assert len(one.load()) == len(one)


def test_a_slice_of_a_segment_that_retention_took_is_an_error_and_makes_no_file():
    stage = stage_with(100, segment_bytes="20000")
    one = stage.log.slices(0, 10_000)[0]
    stage.log.delete_records_before(stage.log.log_end_offset)
    stage.log.retain(stage.now_ms)
    files = stage.files()

    with pytest.raises(StorageError, match="removed while it was read"):
        one.load()

    assert stage.files() == files


def test_a_slice_of_a_topic_that_was_deleted_is_an_error():
    stage = stage_with(100)
    one = stage.log.slices(0, 1 << 20)[0]

    stage.topics.delete("orders", stage.now_ms)

    with pytest.raises(StorageError, match="removed while it was read"):
        one.load()


def test_what_cannot_be_a_batch_ends_a_slice_and_is_told_to_who_comes_to_it():
    stage = stage_with(100)
    good = len(b"".join(bytes(b) for b in stage.log.read(0, 1 << 20, end=60)))
    data = stage.storage._folders["orders-0"]["00000000000000000000.log"]
    data[good + 8 : good + 12] = b"\xff\xff\xff\xff"

    for at_hand in (0, 1 << 20):
        (one,) = stage.log.slices(0, 1 << 20, at_hand=at_hand)
        assert one.next_offset == 60


def test_batches_of_all_sizes_are_found():
    stage = LogStage(segment_bytes="100000000", max_message_bytes="100000000")
    for size in (1, 70_000, 10, 4000, 65_000, 1, 200_000, 3):
        stage.log.append(batch(["x" * size]), stage.now_ms)

    (one,) = stage.log.slices(0, 1 << 30)

    assert one.next_offset == 8
    assert len(values_from(stage.log, 0, max_bytes=1 << 30)) == 8
