"""Transactions in one log: what is stable, what was taken back, and that a restart knows both."""

import pytest

from kohort.errors import ApiError, ErrorCode
from kohort.wire.control_records import Marker, build_marker, parse_marker
from kohort.wire.record_batch import parse_batch_header, read_batch, split_batches
from support.machines.log_stage import LogRoom

ABORT, COMMIT = False, True


@pytest.fixture
def room():
    return LogRoom()


def write(room, producer, *values, sequence=0, epoch=0):
    return room.append(
        *values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
    ).base_offset


def end(room, producer, committed, *, epoch=0, coordinator_epoch=0):
    marker = Marker(producer, epoch, committed, coordinator_epoch)
    return room.log.end_transaction(marker, room.now_ms).base_offset


def aborted(room):
    return [tuple(entry) for entry in room.log.aborted]


def test_a_marker_comes_back_as_it_was():
    marker = Marker(7, 3, True, 11)
    batch = build_marker(marker, 5)
    header = parse_batch_header(batch)

    assert parse_marker(batch, header) == marker
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)


def test_what_is_stable_ends_where_the_first_open_transaction_begins(room):
    room.append("before")
    write(room, 1, "a", "b")
    write(room, 2, "c")
    room.append("not of a transaction")
    assert room.log.last_stable_offset == 1

    end(room, 1, COMMIT)
    assert room.log.last_stable_offset == 3
    end(room, 2, COMMIT)

    assert room.log.last_stable_offset == room.log.log_end_offset == 7
    assert aborted(room) == []


def test_what_was_taken_back_is_known_by_producer_and_offsets(room):
    write(room, 1, "a")
    write(room, 2, "b")
    assert end(room, 2, ABORT) == 2
    assert end(room, 1, ABORT) == 3

    assert aborted(room) == [(2, 1, 2, 0), (1, 0, 3, 4)]
    assert [entry.producer_id for entry in room.log.aborted.between(0, 1)] == [1]
    assert [entry.producer_id for entry in room.log.aborted.between(1, 3)] == [2, 1]
    assert room.log.aborted.between(4, 9) == []


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_restart_knows_what_is_open_and_what_was_taken_back(room, cleanly):
    for turn in range(12):  # over several segments
        write(room, 1, "x" * 200, sequence=turn)
        end(room, 1, turn % 3 != 0)
    write(room, 2, "open")
    before = aborted(room)
    stable = room.log.last_stable_offset
    assert len(room.files(".log")) > 2
    assert len(before) == 4

    room.restart() if cleanly else room.crash()

    assert (aborted(room), room.log.last_stable_offset) == (before, stable)
    room.check()
    end(room, 2, ABORT)
    assert room.log.last_stable_offset == room.log.log_end_offset


@pytest.mark.parametrize("damage", [b"", b"short", bytes(34)[:-1] + b"\x09" + bytes(34)])
def test_a_file_of_them_that_cannot_be_read_is_made_anew(room, damage):
    write(room, 1, "a")
    end(room, 1, ABORT)
    before = aborted(room)
    room.topics.close()
    if damage:
        room.storage.replace(f"orders-0/{room.files('.txnindex')[0]}", damage)

    notes = room.crash()

    assert aborted(room) == before
    assert any("txnindex cannot be read" in note for note in notes) == bool(damage)


def test_they_go_with_their_segments(room):
    for turn in range(12):
        write(room, 1, "x" * 200, sequence=turn)
        end(room, 1, ABORT)
    room.log.delete_records_before(room.log.log_end_offset)

    room.log.retain(room.now_ms)

    assert len(room.log.aborted) < 12
    assert all(entry.last_offset >= room.log.segments[0].base_offset for entry in room.log.aborted)
    assert len(room.files(".txnindex")) == len(room.log.segments) == 1


def test_the_producer_of_an_open_transaction_is_not_forgotten(room):
    write(room, 1, "a")
    room.append("b", producer_id=2, producer_epoch=0, base_sequence=0)

    assert room.log.producers.expire(room.now_ms + 10_000, 1) == 1

    assert room.log.last_stable_offset == 0


def test_a_batch_outside_of_the_open_transaction_is_refused(room):
    write(room, 1, "a")

    with pytest.raises(ApiError, match="has a transaction open") as caught:
        room.append("b", producer_id=1, producer_epoch=0, base_sequence=1)

    assert caught.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_an_earlier_life_or_of_an_earlier_coordinator_is_refused(room):
    write(room, 1, "a", epoch=3)
    end(room, 1, COMMIT, epoch=3, coordinator_epoch=5)

    with pytest.raises(ApiError) as caught:
        end(room, 1, ABORT, epoch=2, coordinator_epoch=5)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(ApiError) as caught:
        end(room, 1, ABORT, epoch=3, coordinator_epoch=4)
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_with_a_later_epoch_begins_the_sequence_anew(room):
    write(room, 1, "a", "b")
    end(room, 1, ABORT, epoch=1)

    with pytest.raises(ApiError) as caught:
        write(room, 1, "late", sequence=2)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(room, 1, "c", epoch=1) == 3


def test_compaction_drops_what_was_taken_back_and_keeps_what_is_not_decided():
    room = LogRoom(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")

    def put(producer, sequence, value):
        room.append(
            value, key=b"k", producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )

    put(1, 0, "kept " + "x" * 100)
    end(room, 1, COMMIT)
    put(1, 1, "gone " + "x" * 100)
    end(room, 1, ABORT)
    room.log.roll(room.now_ms)
    put(2, 0, "open " + "x" * 100)
    room.log.roll(room.now_ms)
    put(3, 0, "in the active segment")
    for _ in range(600):
        room.clock.advance(100)
        room.topics.tick(room.now_ms)

    values = [
        (record.value or b"")[:4].decode()
        for buffer in room.log.read(0, 1 << 20)
        for at, header in split_batches(buffer)
        if not header.is_control
        for record in read_batch(buffer, at)
    ]
    assert values == ["kept", "open", "in t"]
    assert aborted(room) == []
    room.check()
    room.crash()
    assert room.log.last_stable_offset == 4
