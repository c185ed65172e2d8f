"""Idempotent producers: repeats are answered, gaps are refused, restarts are survived.

The rules: protocol/producers.md#repeats-and-gaps.
"""

import pytest

from kohort.errors import ApiError, ErrorCode
from kohort.log.partition import Appended
from kohort.log.producers import Producers
from kohort.wire.record_batch import parse_batch_header
from support.machines.log_stage import LogRoom, batch, values_from

SEQUENCE_MAX = 2**31 - 1


@pytest.fixture
def room():
    room = LogRoom()
    yield room
    room.check()


def send(room, sequence, *values, epoch=0, pid=7):
    return room.append(*(values or (f"s{sequence}",)), producer_id=pid, producer_epoch=epoch, base_sequence=sequence)


def refusal(room, sequence, *values, epoch=0):
    with pytest.raises(ApiError) as error:
        send(room, sequence, *values, epoch=epoch)
    return error.value.code


def test_sequences_follow_each_other_per_producer(room):
    assert send(room, 0, "a", "b").base_offset == 0
    assert send(room, 2, "c").base_offset == 2
    assert send(room, 0, "d", pid=8).base_offset == 3

    assert refusal(room, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert values_from(room.log, 0) == ["a", "b", "c", "d"]


def test_a_repeat_of_one_of_the_last_five_batches_gets_its_first_answer(room):
    for sequence in range(7):
        send(room, sequence)

    for sequence in range(2, 7):
        assert send(room, sequence) == Appended(sequence, sequence, -1, 0, duplicate=True)
    assert room.log.log_end_offset == 7


def test_an_older_repeat_is_out_of_order(room):
    for sequence in range(7):
        send(room, sequence)

    assert refusal(room, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_only_overlaps_another_is_no_repeat(room):
    send(room, 0, "a", "b")

    assert refusal(room, 0, "a") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(room, 1, "b", "c") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_begins_with_zero_and_fences_the_old_one(room):
    send(room, 0)

    assert refusal(room, 1, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(room, 0, epoch=1).base_offset == 1
    assert refusal(room, 1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(room, 0, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(room, 1, epoch=1).base_offset == 2


def test_an_unknown_producer_may_begin_anywhere(room):
    assert send(room, 41).base_offset == 0
    assert send(room, 42).base_offset == 1


def test_the_sequence_wraps_to_zero(room):
    send(room, SEQUENCE_MAX - 1, "a", "b", "c")

    producer = room.log.producers.get(7)
    assert producer.last_sequence == 0
    assert send(room, 1).base_offset == 3
    assert send(room, SEQUENCE_MAX - 1, "a", "b", "c").duplicate


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_the_last_batch_is_known_after_a_restart(room, how):
    send(room, 0, "a")
    send(room, 1, "b", "c")
    getattr(room, how)()

    assert send(room, 1, "b", "c") == Appended(1, 2, -1, 0, duplicate=True)
    assert refusal(room, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(room, 3, "d").base_offset == 3


def test_each_batch_in_flight_is_known_after_a_clean_restart(room):
    for sequence in range(7):
        send(room, sequence)
    send(room, 40, pid=8, epoch=2)

    room.restart()

    for sequence in range(2, 7):
        assert send(room, sequence) == Appended(sequence, sequence, -1, 0, duplicate=True)
    assert refusal(room, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(room, 40, pid=8, epoch=2).duplicate
    assert send(room, 7).base_offset == 8


def test_each_batch_in_flight_is_known_after_a_crash_behind_a_new_segment(room):
    """Found by seed 1079 of the simulator: the snapshot of the roll names the last batch alone."""
    sequence = 0
    while len(room.log.segments) < 3:
        send(room, sequence)
        sequence += 1
    first = room.log.segments[-1].base_offset
    room.log.flush()
    room.clock.advance(60_000)
    room.topics.tick(room.now_ms)  # the recovery point is written down

    room.crash()

    for repeated in range(sequence - 5, sequence):
        assert send(room, repeated) == Appended(repeated, repeated, -1, 0, duplicate=True)
    assert first == sequence - 1, "only one of them lies behind the snapshot"
    assert refusal(room, sequence - 6) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_was_written_in_an_earlier_epoch_is_not_known_again(room):
    send(room, 0)
    send(room, 1)
    send(room, 0, epoch=1)

    room.restart()

    assert len(room.log.producers.get(7).batches) == 1


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_producers_of_older_segments_are_known_after_a_restart(room, how):
    send(room, 0, pid=1)
    room.fill(30)
    send(room, 0, pid=2)
    assert len(room.log.segments) > 2

    getattr(room, how)()

    assert sorted(pid for pid, _ in room.log.producers) == [1, 2]
    assert send(room, 1, pid=1).base_offset == 32


def test_without_snapshots_the_whole_log_is_read_again(room):
    send(room, 0, pid=1)
    room.fill(30)
    room.topics.close()
    for name in room.files(".snapshot"):
        del room.storage._folders["orders-0"][name]

    room.crash()

    assert [pid for pid, _ in room.log.producers] == [1]


def test_a_damaged_snapshot_is_deleted_and_made_up_for(room):
    send(room, 0, pid=1)
    room.topics.close()
    (name,) = room.files(".snapshot")
    room.storage._folders["orders-0"][name][-1] ^= 1

    notes = room.crash()

    assert notes == [f"orders-0: deleted {name}, which cannot be read: its CRC is wrong"]
    assert [pid for pid, _ in room.log.producers] == [1]


def test_what_a_crash_cuts_is_forgotten_by_its_producer(room):
    send(room, 0)
    size = room.log.size_bytes
    send(room, 1)
    del room.storage._folders["orders-0"][f"{0:020d}.log"][size + 10 :]

    room.crash()

    assert send(room, 1) == Appended(1, 1, -1, 0)


def test_few_snapshots_are_kept(room):
    for _ in range(5):
        room.fill(20)
        room.restart()

    assert len(room.files(".snapshot")) <= 2


def test_a_silent_producer_is_forgotten_by_the_brokers_clock(room):
    send(room, 0)
    room.append("old data", at_ms=0, producer_id=8, producer_epoch=0, base_sequence=0)
    room.clock.advance(43_200_000)
    room.topics.tick(room.now_ms)
    assert len(room.log.producers) == 2
    send(room, 1)

    room.clock.advance(43_200_000)
    room.topics.tick(room.now_ms)

    assert [pid for pid, _ in room.log.producers] == [7]


def test_a_snapshot_is_kafkas_file():
    producers = Producers()
    header = parse_batch_header(batch(["a", "b"], producer_id=5, producer_epoch=3, base_sequence=10))
    producers.record(header, 100, -1, 1_700_000_000_000)

    data = producers.build_snapshot()

    assert data[:2] == b"\x00\x01"
    assert data[6:].hex() == (
        "00000001000000000000000500030000000b0000000000000065000000010000018bcfe56800ffffffffffffffffffffffff"
    )
    again = Producers.parse_snapshot(data).get(5)
    assert (again.epoch, again.last_sequence, again.batches[-1][:4]) == (3, 11, (10, 11, 100, 101))


@pytest.mark.parametrize("cut", [0, 5, 9, 20])
def test_what_is_no_snapshot_is_refused(cut):
    with pytest.raises(ValueError, match=r".+"):
        Producers.parse_snapshot(Producers().build_snapshot()[:cut] + b"x" * (cut > 9))
