"""Idempotent producers: repeats, sequence gaps, restarts (protocol/producers.md#repeats-and-gaps)."""

import pytest

from kohort.config import BrokerConfig
from kohort.errors import ApiError, ErrorCode
from kohort.log.partition import AppendResult
from kohort.log.producers import RETRY_WINDOW_MS, ProducerRoom, Producers, ProducerSnapshots
from kohort.log.storage import MemoryStorage
from kohort.wire.record_batch import parse_batch_header
from support.machines.log_stage import LogStage, batch, values_from

SEQUENCE_MAX = 2**31 - 1


@pytest.fixture
def stage():
    stage = LogStage()
    yield stage
    stage.check()


def send(stage, sequence, *values, epoch=0, pid=7):
    return stage.append(*(values or (f"s{sequence}",)), producer_id=pid, producer_epoch=epoch, base_sequence=sequence)


def refusal(stage, sequence, *values, epoch=0):
    with pytest.raises(ApiError) as error:
        send(stage, sequence, *values, epoch=epoch)
    return error.value.code


def test_sequence_gap_is_rejected_per_producer(stage):
    assert send(stage, 0, "a", "b").base_offset == 0
    assert send(stage, 2, "c").base_offset == 2
    assert send(stage, 0, "d", pid=8).base_offset == 3

    assert refusal(stage, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert values_from(stage.log, 0) == ["a", "b", "c", "d"]


def test_repeat_of_last_five_batches_returns_first_result(stage):
    for sequence in range(7):
        send(stage, sequence)

    for sequence in range(2, 7):
        assert send(stage, sequence) == AppendResult(sequence, sequence, -1, 0, duplicate=True)
    assert stage.log.log_end_offset == 7


def test_older_repeat_is_out_of_order(stage):
    for sequence in range(7):
        send(stage, sequence)

    assert refusal(stage, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_overlapping_batch_is_not_a_repeat(stage):
    send(stage, 0, "a", "b")

    assert refusal(stage, 0, "a") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(stage, 1, "b", "c") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_new_epoch_starts_at_sequence_0_and_fences_old(stage):
    send(stage, 0)

    assert refusal(stage, 1, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(stage, 0, epoch=1).base_offset == 1
    assert refusal(stage, 1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(stage, 0, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(stage, 1, epoch=1).base_offset == 2


def test_unknown_producer_may_start_at_any_sequence(stage):
    assert send(stage, 41).base_offset == 0
    assert send(stage, 42).base_offset == 1


def test_sequence_wraps_to_zero(stage):
    send(stage, SEQUENCE_MAX - 1, "a", "b", "c")

    producer = stage.log.producers.get(7)
    assert producer.last_sequence == 0
    assert send(stage, 1).base_offset == 3
    assert send(stage, SEQUENCE_MAX - 1, "a", "b", "c").duplicate


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_last_batch_of_producer_survives_restart(stage, how):
    send(stage, 0, "a")
    send(stage, 1, "b", "c")
    getattr(stage, how)()

    assert send(stage, 1, "b", "c") == AppendResult(1, 2, -1, 0, duplicate=True)
    assert refusal(stage, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(stage, 3, "d").base_offset == 3


def test_in_flight_batches_survive_clean_restart(stage):
    for sequence in range(7):
        send(stage, sequence)
    send(stage, 40, pid=8, epoch=2)

    stage.restart()

    for sequence in range(2, 7):
        assert send(stage, sequence) == AppendResult(sequence, sequence, -1, 0, duplicate=True)
    assert refusal(stage, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(stage, 40, pid=8, epoch=2).duplicate
    assert send(stage, 7).base_offset == 8


def test_in_flight_batches_survive_crash_after_roll(stage):
    sequence = 0
    while len(stage.log.segments) < 3:
        send(stage, sequence)
        sequence += 1
    first = stage.log.segments[-1].base_offset
    stage.log.flush()
    stage.clock.advance(60_000)
    stage.topics.tick(stage.now_ms)  # write the recovery point

    stage.crash()

    for repeated in range(sequence - 5, sequence):
        assert send(stage, repeated) == AppendResult(repeated, repeated, -1, 0, duplicate=True)
    assert first == sequence - 1, "only one batch lies after the snapshot"
    assert refusal(stage, sequence - 6) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_of_earlier_epoch_are_not_recalled(stage):
    send(stage, 0)
    send(stage, 1)
    send(stage, 0, epoch=1)

    stage.restart()

    assert len(stage.log.producers.get(7).batches) == 1


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_producers_of_older_segments_survive_restart(stage, how):
    send(stage, 0, pid=1)
    stage.fill(30)
    send(stage, 0, pid=2)
    assert len(stage.log.segments) > 2

    getattr(stage, how)()

    assert sorted(pid for pid, _ in stage.log.producers) == [1, 2]
    assert send(stage, 1, pid=1).base_offset == 32


def test_missing_snapshots_replay_whole_log(stage):
    send(stage, 0, pid=1)
    stage.fill(30)
    stage.topics.close()
    for name in stage.files(".snapshot"):
        del stage.storage._folders["orders-0"][name]

    stage.crash()

    assert [pid for pid, _ in stage.log.producers] == [1]


def test_missing_snapshots_replay_closed_segments(stage):
    firsts = {}
    while len(stage.log.segments) < 4:
        pid = stage.log.log_end_offset
        send(stage, 0, "x" * 40, pid=pid)
        firsts[pid] = stage.log.segments[-1].base_offset
    assert len(set(firsts.values())) == 4
    stage.topics.close()
    for name in stage.files(".snapshot"):
        del stage.storage._folders["orders-0"][name]

    stage.crash()

    assert [pid for pid, _ in stage.log.producers] == list(firsts)


def test_first_batch_of_producer_is_recalled(stage):
    for sequence in range(3):
        send(stage, sequence)

    stage.restart()

    assert send(stage, 0) == AppendResult(0, 0, -1, 0, duplicate=True)


def room_of(most):
    config = BrokerConfig(kohort_producer_max_ids=most, producer_id_expiration_ms=86_400_000)
    producers = Producers()
    room = producers.room = ProducerRoom(config, lambda: [producers])
    return room, producers


def write(producers, pid, now_ms):
    header = parse_batch_header(batch(producer_id=pid, producer_epoch=0, base_sequence=0))
    producers.check(header, now_ms)
    producers.record(header, pid, now_ms, now_ms)


def test_limit_expires_longest_idle_producer():
    room, producers = room_of(4)
    for pid in range(4):
        write(producers, pid, pid)

    write(producers, 4, RETRY_WINDOW_MS + 4)

    assert [pid for pid, _ in producers] == [1, 2, 3, 4]
    assert (room.at_most, room.refused) == (4, 0)


def test_no_limit_keeps_every_producer():
    room, producers = room_of(-1)
    for pid in range(10):
        write(producers, pid, pid)

    assert (len(producers), room.refused) == (10, 0)


def test_zero_limit_rejects_every_producer():
    room, producers = room_of(0)

    with pytest.raises(ApiError):
        write(producers, 0, 0)
    assert room.refused == 1


@pytest.mark.parametrize("begin_ms", [0, 1_700_000_000_000])
def test_full_limit_is_recounted_every_second(begin_ms):
    room, producers = room_of(1)
    write(producers, 0, begin_ms)
    looked_ms = begin_ms + RETRY_WINDOW_MS - 1

    for now_ms in (looked_ms, looked_ms + 999):
        with pytest.raises(ApiError):
            write(producers, 1, now_ms)
    write(producers, 1, looked_ms + 1000)

    assert [pid for pid, _ in producers] == [1]
    assert room.refused == 2


def large(stage, *sequences, pid=7):
    for sequence in sequences:
        send(stage, sequence, "x" * 100_000, pid=pid)


def base_sequences(stage):
    return [batch.base_sequence for batch in stage.log.producers.get(7).batches]


def test_recall_reads_256_kilobytes_before_snapshot():
    stage = LogStage(segment_bytes="10000000")
    large(stage, *range(8))

    stage.restart()

    assert base_sequences(stage) == [5, 6, 7], "the last batch, and batches that begin in the 262,144 bytes before it"


def test_recall_budget_ignores_replayed_batches():
    stage = LogStage(segment_bytes="10000000")
    large(stage, *range(8))
    stage.restart()
    older = f"orders-0/{8:020d}.snapshot"
    kept = stage.storage.read(older)
    large(stage, 0, pid=8)
    stage.crash()  # rebuild the index, with an entry at the snapshot's offset
    stage.topics.close()
    stage.storage.replace(older, kept)
    stage.storage.replace(f"orders-0/{9:020d}.snapshot", b"damaged")

    stage.crash()

    assert sorted(pid for pid, _ in stage.log.producers) == [7, 8]
    assert base_sequences(stage) == [5, 6, 7]


def test_damaged_snapshot_is_deleted_and_replayed(stage):
    send(stage, 0, pid=1)
    stage.topics.close()
    (name,) = stage.files(".snapshot")
    stage.storage._folders["orders-0"][name][-1] ^= 1

    notes = stage.crash()

    assert notes == [f"orders-0: deleted the damaged {name}: CRC mismatch"]
    assert [pid for pid, _ in stage.log.producers] == [1]


def test_truncated_batches_leave_producer_state(stage):
    send(stage, 0)
    size = stage.log.size_bytes
    send(stage, 1)
    del stage.storage._folders["orders-0"][f"{0:020d}.log"][size + 10 :]

    stage.crash()

    assert send(stage, 1) == AppendResult(1, 1, -1, 0)


def test_two_snapshots_are_kept(stage):
    for _ in range(5):
        stage.fill(20)
        stage.restart()

    assert len(stage.files(".snapshot")) == 2


def test_idle_producer_expires_by_broker_clock(stage):
    send(stage, 0)
    stage.append("old data", at_ms=0, producer_id=8, producer_epoch=0, base_sequence=0)
    stage.clock.advance(43_200_000)
    stage.topics.tick(stage.now_ms)
    assert len(stage.log.producers) == 2
    send(stage, 1)

    stage.clock.advance(43_200_000)
    stage.topics.tick(stage.now_ms)

    assert [pid for pid, _ in stage.log.producers] == [7]


def test_snapshot_has_kafka_format():
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
def test_malformed_snapshot_is_rejected(cut):
    with pytest.raises(ValueError, match=r".+"):
        Producers.parse_snapshot(Producers().build_snapshot()[:cut] + b"x" * (cut > 9))


def name(offset):
    return f"{offset:020d}.snapshot"


def kept(*offsets):
    storage = MemoryStorage()
    storage.make_folder("orders-0")
    for offset in offsets:
        storage.replace(f"orders-0/{name(offset)}", Producers().build_snapshot())
    return storage, ProducerSnapshots(storage, "orders-0", sorted(offsets))


def there(storage):
    return [int(found.partition(".")[0]) for found in storage.files("orders-0")]


def test_two_latest_snapshots_stay_after_restart():
    storage, snapshots = kept(30, 10)

    snapshots.take(Producers(), 40)
    assert there(storage) == [30, 40]
    snapshots.take(Producers(), 50)
    assert there(storage) == [40, 50]


def test_repeated_snapshot_at_offset_counts_once():
    storage, snapshots = kept(10)

    snapshots.take(Producers(), 20)
    snapshots.take(Producers(), 20)

    assert there(storage) == [10, 20]


def test_latest_snapshots_are_by_offset():
    storage, snapshots = kept(10, 30)

    snapshots.take(Producers(), 20)
    assert there(storage) == [20, 30]
    snapshots.take(Producers(), 40)
    assert there(storage) == [30, 40]


@pytest.mark.parametrize(
    ("offset", "remaining"), [(10, [10, 20, 30]), (11, [20, 30]), (20, [20, 30]), (25, [30]), (30, [30]), (31, [])]
)
def test_forget_before_deletes_older_snapshots(offset, remaining):
    storage, snapshots = kept(10, 20, 30)

    snapshots.forget_before(offset)

    assert there(storage) == remaining
    snapshots.take(Producers(), 99)
    assert there(storage) == [*remaining, 99][-2:]
