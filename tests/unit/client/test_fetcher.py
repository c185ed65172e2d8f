"""Fetches against a scripted leader: prefetch, order, errors, damage, moved positions."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.client import consumer as consumer_module
from kohort.client.reading.subscription import FetchState, Position
from kohort.errors import ApiError, CorruptRecord, ErrorCode, ProtocolError
from kohort.wire.messages.fetch import AbortedTransaction, FetchRequest, LeaderIdAndEpoch, PartitionData
from kohort.wire.messages.list_offsets import ListOffsetsRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.record_batch import NewRecord, build_batch
from kohort_lab.machines.scripted import HANG_UP, SILENCE
from support.machines.consumer_stage import User, tp
from support.machines.scripted_group import TOPIC_ID, ScriptedGroup, fetch_answer

E = ErrorCode
T0 = tp("t-0")


@pytest.fixture
def stage() -> ScriptedGroup:
    return ScriptedGroup()


def reader(stage: ScriptedGroup, **options: Any) -> User:
    user = stage.user(**options)
    user.machine.subscription.assign([T0])
    return user


def fetch_offsets(stage: ScriptedGroup) -> list[int]:
    return [p.fetch_offset for r in stage.sent(FetchRequest) for t in r.topics for p in t.partitions]


def values(first: int, last: int) -> list[bytes]:
    return [b"v%d" % n for n in range(first, last)]


def test_fetch_request_has_configured_limits(stage: ScriptedGroup):
    user = reader(
        stage, fetch_max_bytes=5000, max_partition_fetch_bytes=700, fetch_min_bytes=3, fetch_max_wait_ms=40,
        client_rack="r1", isolation_level="read_committed",
    )  # fmt: skip
    stage.until(lambda: user.records)

    request = stage.sent(FetchRequest)[0]
    assert (request.max_bytes, request.min_bytes, request.max_wait_ms) == (5000, 3, 40)
    assert (request.isolation_level, request.rack_id) == (1, "r1")
    partition = request.topics[0].partitions[0]
    assert request.topics[0].topic_id == TOPIC_ID
    assert (partition.partition_max_bytes, partition.current_leader_epoch, partition.fetch_offset) == (700, 3, 0)


def test_next_fetch_starts_before_records_are_returned(stage: ScriptedGroup):
    user = reader(stage)

    stage.loop.run(1000)

    assert user.records == []
    assert fetch_offsets(stage) == [0, 10]
    user.poll()
    assert user.values() == values(0, 10)


def test_only_one_fetch_is_in_flight_per_node(stage: ScriptedGroup):
    reader(stage)
    stage.fetch = lambda _: SILENCE

    stage.polls(5000)

    assert len(stage.sent(FetchRequest)) == 1


def test_node_with_full_prefetch_buffer_gets_no_fetch(stage: ScriptedGroup):
    user = reader(stage, prefetch_bytes=1)
    stage.loop.run(1000)
    assert fetch_offsets(stage) == [0]

    user.poll()
    stage.loop.run(1000)

    assert fetch_offsets(stage) == [0, 10]


def test_partition_with_full_prefetch_buffer_is_not_fetched(stage: ScriptedGroup):
    user = reader(stage, max_partition_fetch_bytes=1)
    stage.loop.run(5000)
    assert fetch_offsets(stage) == [0]

    user.machine.subscription.set_paused([T0], paused=True)
    stage.polls(1000)
    user.machine.subscription.set_paused([T0], paused=False)
    stage.loop.run(5000)
    assert fetch_offsets(stage) == [0], "resuming a partition frees no buffer space"

    user.poll()
    stage.loop.run(100)
    assert fetch_offsets(stage) == [0, 10]


def test_poll_with_max_records_returns_part_of_batch_and_advances_position(stage: ScriptedGroup):
    user = reader(stage)
    stage.loop.run(1000)

    assert [r.offset for r in user.poll(4)] == [0, 1, 2, 3]
    state = user.machine.subscription.state(T0)
    assert state.position == Position(4, 3)
    assert user.machine.lag() == {T0: 6}
    assert [r.offset for r in user.poll(100)] == [4, 5, 6, 7, 8, 9]
    assert state.position == Position(10, 3)


def test_record_by_record_iteration_advances_position(stage: ScriptedGroup):
    user = reader(stage)
    stage.loop.run(1000)
    machine = user.machine
    machine.enter_poll(stage.now_ms)
    machine.advance(stage.now_ms)
    fetched, _ = machine.open_batch()
    assert fetched is not None
    state = machine.subscription.state(T0)
    fetched.decode_records(check_crcs=True)

    for offset in range(9):
        record = machine.take_record(fetched)
        assert record is not None
        assert (record.offset, state.position) == (offset, Position(offset + 1, 3))
    machine.subscription.set_paused([T0], paused=True)
    assert machine.take_record(fetched) is None, "the partition is paused"
    machine.subscription.set_paused([T0], paused=False)
    last = machine.take_record(fetched)
    assert last is not None
    assert (last.offset, state.position) == (9, Position(10, 3))
    assert machine.take_record(fetched) is None, "the batch has no more records"


def test_records_of_paused_partition_are_returned_after_resume(stage: ScriptedGroup):
    user = reader(stage)
    stage.loop.run(1000)
    user.poll(4)

    user.machine.subscription.set_paused([T0], paused=True)
    assert user.poll() == []
    stage.polls(1000)
    user.machine.subscription.set_paused([T0], paused=False)

    assert [r.offset for r in user.poll()] == [4, 5, 6, 7, 8, 9]
    assert fetch_offsets(stage) == [0, 10]


def test_seek_drops_buffered_data_and_fetch_in_flight(stage: ScriptedGroup):
    user = reader(stage)
    stage.loop.run(1000)
    user.poll(4)

    user.machine.subscription.seek(T0, Position(8))
    stage.until(lambda: len(user.records) == 6, limit_ms=40_000)

    assert [r.offset for r in user.records] == [0, 1, 2, 3, 8, 9]


def test_seek_to_beginning_and_seek_to_end_move_position(stage: ScriptedGroup):
    stage.log_start = 2
    user = reader(stage)
    stage.loop.run(1000)
    user.machine.subscription.seek_to([], "latest")
    assert user.machine.subscription.state(T0).state is FetchState.AWAIT_RESET
    stage.loop.run(40_000)
    assert user.machine.subscription.state(T0).position == Position(10, 3)

    user.machine.subscription.seek_to([T0], "earliest")
    stage.loop.run(40_000)

    assert [r.offset for r in user.poll()] == list(range(2, 10))


# Fetch errors of a partition


@pytest.mark.parametrize(
    "code",
    [
        E.NOT_LEADER_OR_FOLLOWER,
        E.REPLICA_NOT_AVAILABLE,
        E.KAFKA_STORAGE_ERROR,
        E.FENCED_LEADER_EPOCH,
        E.OFFSET_NOT_AVAILABLE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_ID,
        E.INCONSISTENT_TOPIC_ID,
    ],
)
def test_leader_error_in_fetch_response_causes_metadata_refresh_and_retry(stage: ScriptedGroup, code: ErrorCode):
    user = reader(stage)
    stage.then(FetchRequest, code)

    stage.until(lambda: user.values() == values(0, 10))

    assert len(stage.sent(MetadataRequest)) >= 2


@pytest.mark.parametrize("answer", [E.UNKNOWN_LEADER_EPOCH, E.UNKNOWN_SERVER_ERROR, HANG_UP])
def test_fetch_request_is_retried_after_retriable_error(stage: ScriptedGroup, answer: object):
    user = reader(stage)
    stage.then(FetchRequest, answer)

    stage.until(lambda: user.values() == values(0, 10))


@pytest.mark.parametrize("code", [E.TOPIC_AUTHORIZATION_FAILED, E.CORRUPT_MESSAGE, E.INVALID_FETCH_SIZE])
def test_permanent_fetch_errors_are_raised(stage: ScriptedGroup, code: ErrorCode):
    reader(stage)
    stage.then(FetchRequest, code)

    with pytest.raises(ApiError, match=f"{code.name}: fetching t-0 at offset 0"):
        stage.polls(2000)


def test_leader_hint_in_fetch_response_is_used_at_once(stage: ScriptedGroup):
    user = reader(stage)

    def moved(_request: FetchRequest):
        stage.fetch = stage.serve_records
        stage.leader_epoch = 4
        leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=4)
        return fetch_answer(
            PartitionData(partition_index=0, error_code=E.NOT_LEADER_OR_FOLLOWER, current_leader=leader)
        )

    stage.fetch = moved
    started_ms = stage.now_ms
    stage.until(lambda: user.values() == values(0, 10))

    assert stage.now_ms - started_ms <= 100, "the fetch from the new leader waited for no back-off"
    assert stage.sent(FetchRequest)[1].topics[0].partitions[0].current_leader_epoch == 4


def test_position_out_of_range_is_reset_by_auto_offset_reset(stage: ScriptedGroup):
    user = reader(stage, auto_offset_reset="latest")
    stage.until(lambda: user.machine.subscription.state(T0).position is not None)
    user.machine.subscription.seek(T0, Position(99))
    stage.then(FetchRequest, E.OFFSET_OUT_OF_RANGE)
    stage.log_end = 12

    stage.until(lambda: user.machine.subscription.state(T0).position == Position(12, 3), limit_ms=40_000)


def test_offset_out_of_range_error_without_reset_policy_is_raised_once(stage: ScriptedGroup):
    user = reader(stage, auto_offset_reset="none")
    user.machine.subscription.seek(T0, Position(99))
    stage.then(FetchRequest, E.OFFSET_OUT_OF_RANGE)

    with pytest.raises(ApiError, match=r"OFFSET_OUT_OF_RANGE: offset 99 of t-0 is out of range, .* call seek\(\)"):
        stage.polls(1000)

    stage.polls(5000)
    user.machine.subscription.seek(T0, Position(7))
    stage.until(lambda: user.values() == values(7, 10))


def test_preferred_replica_gets_next_fetch(stage: ScriptedGroup):
    user = reader(stage)
    from kohort.model import Node

    def elsewhere(_request: FetchRequest):
        stage.fetch = stage.serve_records
        return fetch_answer(PartitionData(partition_index=0, high_watermark=10, preferred_read_replica=7))

    stage.fetch = elsewhere
    user.machine.metadata.learn_node(Node(7, "one", 9092))
    stage.until(lambda: user.values() == values(0, 10))

    connections = [s.connection for s in stage.one.received if isinstance(s.request, FetchRequest)]
    assert connections[0] != connections[1]


# Damaged batches

UNPARKED_MS = 40_000


def batch(first: int, last: int, **options: object) -> bytes:
    return build_batch([NewRecord(None, v) for v in values(first, last)], base_offset=first, **options)


def served(stage: ScriptedGroup, *batches: bytes, **options: object) -> None:
    def answer(request: FetchRequest):
        offset = request.topics[0].partitions[0].fetch_offset if request.topics else 10
        found = [data for data in batches if last_offset(data) >= offset]
        if not found:
            return SILENCE
        return fetch_answer(PartitionData(partition_index=0, high_watermark=10, records=b"".join(found), **options))

    stage.fetch = answer


def last_offset(data: bytes) -> int:
    return int.from_bytes(data[:8], "big") + int.from_bytes(data[23:27], "big")


def broken(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def test_records_before_corrupt_batch_are_returned_before_its_error(stage: ScriptedGroup):
    served(stage, batch(0, 4), broken(batch(4, 6)), batch(6, 10))
    user = reader(stage)
    stage.loop.run(1000)

    assert [r.offset for r in user.poll()] == [0, 1, 2, 3]
    stage.loop.run(UNPARKED_MS)  # the damaged batch was fetched again
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="t-0 at offset 4"):
            user.poll()
    assert user.machine.subscription.state(T0).position.offset == 4

    stage.fetch = stage.serve_records
    user.machine.subscription.seek(T0, Position(6))
    stage.until(lambda: len(user.records) == 8, limit_ms=40_000)


def test_damaged_batch_is_fetched_again(stage: ScriptedGroup):
    good = [batch(0, 4), batch(4, 6), batch(6, 10)]
    served(stage, good[0], broken(good[1]), good[2])
    user = reader(stage)
    stage.loop.run(1000)
    assert [r.offset for r in user.poll()] == [0, 1, 2, 3]

    served(stage, *good)
    assert user.poll() == []
    stage.until(lambda: len(user.records) == 10, UNPARKED_MS)

    assert user.values() == values(0, 10)
    assert fetch_offsets(stage)[:3] == [0, 10, 4]
    note = next(user.notes_besides_resets())
    assert note.text.startswith("t-0 at offset 4: CRC ")
    assert note.text.endswith("; fetching again, as the bytes may have been damaged in transit")


def test_batch_with_different_damage_in_each_fetch_raises_error_after_repetitions(stage: ScriptedGroup):
    damaged = [batch(0, 4)[:-1] + bytes([n]) for n in range(20)]

    def answer(request: FetchRequest):
        if request.topics[0].partitions[0].fetch_offset:
            return SILENCE
        return fetch_answer(PartitionData(partition_index=0, high_watermark=10, records=damaged.pop()))

    stage.fetch = answer
    user = reader(stage)

    with pytest.raises(CorruptRecord, match="t-0 at offset 0"):
        stage.polls(10 * UNPARKED_MS)
    assert len(damaged) == 20 - 1 - consumer_module.MAX_DAMAGED_FETCHES
    assert user.records == []


def test_fetch_with_invalid_response_is_repeated_once_then_raises_error(stage: ScriptedGroup):
    rubbish = (6).to_bytes(4, "big") + (4).to_bytes(4, "big") + b"??"
    times = 1

    def answer(request: FetchRequest):
        nonlocal times
        times -= 1
        return rubbish if times >= 0 else stage.serve_records(request)

    stage.fetch = answer
    user = reader(stage)
    stage.until(lambda: len(user.records) == 10)
    assert "the connection to one:9092 was lost" in next(user.notes_besides_resets()).text

    times = 2
    user.machine.subscription.seek(T0, Position(0))
    with pytest.raises(ProtocolError):
        stage.polls(40_000)


def test_corrupt_first_batch_raises_error_and_keeps_position(stage: ScriptedGroup):
    served(stage, broken(batch(0, 4)))
    user = reader(stage)
    stage.loop.run(1000)

    with pytest.raises(CorruptRecord, match="t-0 at offset 0"):
        stage.polls(UNPARKED_MS)

    assert user.machine.subscription.state(T0).position.offset == 0


def test_batch_with_invalid_header_is_not_fetched_repeatedly(stage: ScriptedGroup):
    bad = bytearray(batch(4, 6))
    bad[8:12] = (1).to_bytes(4, "big")
    served(stage, batch(0, 4), bytes(bad))
    user = reader(stage)
    stage.loop.run(5000)
    assert len(stage.sent(FetchRequest)) == 1

    assert [r.offset for r in user.poll()] == [0, 1, 2, 3]
    stage.loop.run(5000)
    for _ in range(3):
        with pytest.raises(CorruptRecord, match="t-0 at offset 4"):
            user.poll()
        stage.loop.run(1000)
    assert len(stage.sent(FetchRequest)) == 2


def test_fetch_response_that_contains_only_a_partial_batch_raises_error(stage: ScriptedGroup):
    served(stage, batch(0, 4)[:70])
    reader(stage)
    stage.loop.run(1000)

    with pytest.raises(CorruptRecord, match="70 bytes without one whole batch"):
        stage.polls(1000)


def test_partial_batch_at_end_of_fetch_response_is_fetched_again(stage: ScriptedGroup):
    served(stage, batch(0, 4), batch(4, 10)[:80])
    user = reader(stage)
    stage.loop.run(1000)

    assert [r.offset for r in user.poll()] == [0, 1, 2, 3]
    assert fetch_offsets(stage) == [0, 4]


def test_fetched_records_before_position_are_skipped(stage: ScriptedGroup):
    stage.committed = 3
    served(stage, batch(0, 10))
    user = stage.user("t", group_id="g")

    stage.until(lambda: user.records)

    assert [r.offset for r in user.records] == list(range(3, 10))


def test_records_of_aborted_transactions_are_skipped(stage: ScriptedGroup):
    served(
        stage,
        batch(0, 4, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True),
        batch(4, 6),
        last_stable_offset=6,
        aborted_transactions=[AbortedTransaction(producer_id=5, first_offset=0)],
    )
    user = reader(stage, isolation_level="read_committed")
    stage.until(lambda: user.records)

    assert [r.offset for r in user.records] == [4, 5]
    assert user.machine.lag() == {T0: 0}


# Start positions


def test_consumer_starts_at_committed_offset(stage: ScriptedGroup):
    stage.committed = 6
    user = stage.user("t", group_id="g")

    stage.until(lambda: user.values() == values(6, 10))

    assert stage.sent(ListOffsetsRequest) == []


@pytest.mark.parametrize(("policy", "timestamp"), [("earliest", -2), ("latest", -1)])
def test_consumer_without_committed_offset_starts_at_offset_of_reset_policy(
    stage: ScriptedGroup, policy: str, timestamp: int
):
    stage.user("t", group_id="g", auto_offset_reset=policy)

    stage.until(lambda: stage.sent(ListOffsetsRequest))

    (request,) = stage.sent(ListOffsetsRequest)
    partition = request.topics[0].partitions[0]
    assert (partition.timestamp, partition.current_leader_epoch, request.replica_id) == (timestamp, 3, -1)


def test_offset_reset_by_duration_subtracts_duration_from_current_time(stage: ScriptedGroup):
    user = reader(stage, auto_offset_reset="by_duration:PT1H")
    stage.until(lambda: user.values() == values(5, 10))

    timestamp = stage.sent(ListOffsetsRequest)[0].topics[0].partitions[0].timestamp
    assert 0 <= stage.now_ms - 3_600_000 - timestamp <= 1000


def test_offset_reset_is_retried_after_errors(stage: ScriptedGroup):
    user = reader(stage)
    stage.then(ListOffsetsRequest, E.NOT_LEADER_OR_FOLLOWER, E.OFFSET_NOT_AVAILABLE, HANG_UP)

    stage.until(lambda: user.values() == values(0, 10))

    assert len(stage.sent(ListOffsetsRequest)) == 4
