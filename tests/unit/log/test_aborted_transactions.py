"""Transactions in one log: what is stable, what was taken back, and that a restart knows both."""

import pytest

from kohort.errors import ApiError, ErrorCode
from kohort.wire.record_batch import Marker, build_marker, parse_batch_header, parse_marker, read_batch, split_batches
from support.machines.log_stage import LogStage

ABORT, COMMIT = False, True


@pytest.fixture
def stage():
    return LogStage()


def write(stage, producer, *values, sequence=0, epoch=0):
    return stage.append(
        *values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
    ).base_offset


def end(stage, producer, committed, *, epoch=0, coordinator_epoch=0):
    marker = Marker(producer, epoch, committed, coordinator_epoch)
    return stage.log.end_transaction(marker, stage.now_ms).base_offset


def aborted(stage):
    return [tuple(entry) for entry in stage.log.aborted]


def test_a_marker_comes_back_as_it_was():
    marker = Marker(7, 3, True, 11)
    batch = build_marker(marker, 5)
    header = parse_batch_header(batch)

    assert parse_marker(batch, header) == marker
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)


def test_what_is_stable_ends_where_the_first_open_transaction_begins(stage):
    stage.append("before")
    write(stage, 1, "a", "b")
    write(stage, 2, "c")
    stage.append("not of a transaction")
    assert stage.log.last_stable_offset == 1

    end(stage, 1, COMMIT)
    assert stage.log.last_stable_offset == 3
    end(stage, 2, COMMIT)

    assert stage.log.last_stable_offset == stage.log.log_end_offset == 7
    assert aborted(stage) == []


def test_what_was_taken_back_is_known_by_producer_and_offsets(stage):
    write(stage, 1, "a")
    write(stage, 2, "b")
    assert end(stage, 2, ABORT) == 2
    assert end(stage, 1, ABORT) == 3

    assert aborted(stage) == [(2, 1, 2, 0), (1, 0, 3, 4)]
    assert [entry.producer_id for entry in stage.log.aborted.between(0, 1)] == [1]
    assert [entry.producer_id for entry in stage.log.aborted.between(1, 3)] == [2, 1]
    assert stage.log.aborted.between(4, 9) == []


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_restart_knows_what_is_open_and_what_was_taken_back(stage, cleanly):
    for turn in range(12):  # over several segments
        write(stage, 1, "x" * 200, sequence=turn)
        end(stage, 1, turn % 3 != 0)
    write(stage, 2, "open")
    before = aborted(stage)
    stable = stage.log.last_stable_offset
    assert len(stage.files(".log")) > 2
    assert len(before) == 4

    stage.restart() if cleanly else stage.crash()

    assert (aborted(stage), stage.log.last_stable_offset) == (before, stable)
    stage.check()
    end(stage, 2, ABORT)
    assert stage.log.last_stable_offset == stage.log.log_end_offset


@pytest.mark.parametrize("damage", [b"", b"short", bytes(34)[:-1] + b"\x09" + bytes(34)])
def test_a_file_of_them_that_cannot_be_read_is_made_anew(stage, damage):
    write(stage, 1, "a")
    end(stage, 1, ABORT)
    before = aborted(stage)
    stage.topics.close()
    if damage:
        stage.storage.replace(f"orders-0/{stage.files('.txnindex')[0]}", damage)

    notes = stage.crash()

    assert aborted(stage) == before
    assert any("txnindex cannot be read" in note for note in notes) == bool(damage)


def test_they_go_with_their_segments(stage):
    for turn in range(12):
        write(stage, 1, "x" * 200, sequence=turn)
        end(stage, 1, ABORT)
    stage.log.delete_records_before(stage.log.log_end_offset)

    stage.log.retain(stage.now_ms)

    assert len(stage.log.aborted) < 12
    assert all(entry.last_offset >= stage.log.segments[0].base_offset for entry in stage.log.aborted)
    assert len(stage.files(".txnindex")) == len(stage.log.segments) == 1


def test_the_producer_of_an_open_transaction_is_not_forgotten(stage):
    write(stage, 1, "a")
    stage.append("b", producer_id=2, producer_epoch=0, base_sequence=0)

    assert stage.log.producers.expire(stage.now_ms + 10_000, 1) == 1

    assert stage.log.last_stable_offset == 0


def test_a_batch_outside_of_the_open_transaction_is_refused(stage):
    write(stage, 1, "a")

    with pytest.raises(ApiError, match="has a transaction open") as caught:
        stage.append("b", producer_id=1, producer_epoch=0, base_sequence=1)

    assert caught.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_an_earlier_life_or_of_an_earlier_coordinator_is_refused(stage):
    write(stage, 1, "a", epoch=3)
    end(stage, 1, COMMIT, epoch=3, coordinator_epoch=5)

    with pytest.raises(ApiError) as caught:
        end(stage, 1, ABORT, epoch=2, coordinator_epoch=5)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(ApiError) as caught:
        end(stage, 1, ABORT, epoch=3, coordinator_epoch=4)
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_with_a_later_epoch_begins_the_sequence_anew(stage):
    write(stage, 1, "a", "b")
    end(stage, 1, ABORT, epoch=1)

    with pytest.raises(ApiError) as caught:
        write(stage, 1, "late", sequence=2)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(stage, 1, "c", epoch=1) == 3


def test_compaction_drops_what_was_taken_back_and_keeps_what_is_not_decided():
    stage = LogStage(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")

    def put(producer, sequence, value):
        stage.append(
            value, key=b"k", producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )

    put(1, 0, "kept " + "x" * 100)
    end(stage, 1, COMMIT)
    put(1, 1, "gone " + "x" * 100)
    end(stage, 1, ABORT)
    stage.log.roll(stage.now_ms)
    put(2, 0, "open " + "x" * 100)
    stage.log.roll(stage.now_ms)
    put(3, 0, "in the active segment")
    for _ in range(600):
        stage.clock.advance(100)
        stage.topics.tick(stage.now_ms)

    values = [
        (record.value or b"")[:4].decode()
        for buffer in stage.log.read(0, 1 << 20)
        for at, header in split_batches(buffer)
        if not header.is_control
        for record in read_batch(buffer, at)
    ]
    assert values == ["kept", "open", "in t"]
    assert aborted(stage) == []
    stage.check()
    stage.crash()
    assert stage.log.last_stable_offset == 4
