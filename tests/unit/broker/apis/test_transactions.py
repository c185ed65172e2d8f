"""Requests of transactional producers and of their administrators."""

from contextlib import contextmanager

import pytest

from kohort.errors import ErrorCode, StorageError
from kohort.log.catalogue import OFFSETS_TOPIC
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.transactions import (
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kohort.wire.record_batch import NewRecord, build_batch
from kohort_lab.sim.checks.durability import check_replay, items_on
from kohort_lab.sim.checks.group_invariants import InvariantBroken, check_log
from support.machines.broker_stage import BrokerStage
from support.raw.transactional import Transactional, committed_offset, committed_values, fetched, latest

UNCOMMITTED = 0


@pytest.fixture(params=["before KIP-890", "after KIP-890"])
def producer(peer, request):
    peer.create("a")
    peer.create("b")
    made = Transactional(peer, new=request.param == "after KIP-890")
    assert made.init() == 0
    return made


def state_of(peer, transactional_id="t"):
    answer = peer.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
    return answer.transaction_states[0]


def test_find_coordinator_returns_the_node_of_a_transactional_id(peer):
    answer = peer.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), 4)

    assert (answer.coordinators[0].error_code, answer.coordinators[0].node_id) == (0, 1)


def test_read_committed_fetch_returns_only_committed_records(peer, producer):
    producer.send("a", b"1", b"2")
    assert committed_values(peer, "a") == []
    assert (latest(peer, "a"), latest(peer, "a", isolation=UNCOMMITTED)) == (0, 2)

    assert producer.end(commit=True) == 0

    assert committed_values(peer, "a") == [b"1", b"2"]
    assert latest(peer, "a") == 3, "the marker has an offset of its own"


def test_read_committed_fetch_lists_aborted_transactions(peer, producer):
    producer.send("a", b"1")
    producer.end(commit=True)
    producer.send("a", b"gone")
    producer.end(commit=False)
    producer.send("a", b"2")
    producer.end(commit=True)

    assert committed_values(peer, "a") == [b"1", b"2"]
    (aborted,) = fetched(peer, "a").aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (producer.producer_id, 2)
    assert fetched(peer, "a", 4).aborted_transactions == [], "no transaction was aborted from this offset on"
    assert fetched(peer, "a", isolation=UNCOMMITTED).aborted_transactions is None


def test_transaction_over_two_topics_commits_its_records_in_both_topics(peer, producer):
    producer.send("a", b"left")
    producer.send("b", b"right")
    assert committed_values(peer, "a") == committed_values(peer, "b") == []

    producer.end(commit=True)

    assert (committed_values(peer, "a"), committed_values(peer, "b")) == ([b"left"], [b"right"])


def test_list_offsets_by_time_for_read_committed_finds_no_records_of_open_transactions(peer, producer):
    from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    def at(isolation):
        request_partition = ListOffsetsPartition(partition_index=0, timestamp=1_700_000_000_000)
        topics = [ListOffsetsTopic(name="a", partitions=[request_partition])]
        answer = peer.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics), 4)
        return answer.topics[0].partitions[0].offset

    producer.send("a", b"1")
    assert (at(0), at(1)) == (0, -1)
    producer.end(commit=True)
    assert (at(0), at(1)) == (0, 0)


def test_read_committed_fetch_waits_for_the_end_of_an_open_transaction(stage, peer, producer):
    producer.send("a", b"first")
    other = Transactional(stage.connect(), "other", new=producer.new)
    other.init()
    other.send("a", b"second")
    other.end(commit=True)
    assert committed_values(peer, "a") == [], "committed records behind an open transaction are not readable"

    from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    waiting = stage.connect()
    request_topic = FetchTopic(topic="a", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
    waiting.send(
        FetchRequest(max_wait_ms=60_000, min_bytes=1, isolation_level=1, session_epoch=-1, topics=[request_topic]), 12
    )
    producer.send("a", b"third")
    assert waiting.take() is None, "records of an open transaction do not wake the fetch"

    producer.end(commit=True)

    assert waiting.take() is not None
    assert committed_values(peer, "a") == [b"first", b"second", b"third"]


def test_transactional_offsets_are_committed_with_their_transaction(peer, producer):
    assert producer.commit_offsets("g", "a", 10) == 0
    assert committed_offset(peer, "g", "a") == (0, -1)
    assert committed_offset(peer, "g", "a", stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)

    producer.end(commit=True)

    assert committed_offset(peer, "g", "a", stable=True) == (0, 10)


def test_transactional_offsets_are_dropped_with_an_aborted_transaction(peer, producer):
    producer.commit_offsets("g", "a", 10)
    producer.end(commit=True)
    producer.commit_offsets("g", "a", 20)
    producer.end(commit=False)

    assert committed_offset(peer, "g", "a", stable=True) == (0, 10)


def test_transactional_offset_commit_of_an_unknown_member_is_rejected(peer, producer):
    assert producer.commit_offsets("g", "a", 10, generation=3, member="m") == ErrorCode.ILLEGAL_GENERATION
    assert producer.end(commit=False) == 0


@pytest.mark.parametrize("cleanly", [True, False])
def test_open_and_decided_transactions_survive_a_restart(stage, peer, producer, cleanly):
    producer.send("a", b"gone")
    producer.end(commit=False)
    producer.send("a", b"kept")
    producer.end(commit=True)
    producer.send("a", b"open")
    producer.commit_offsets("g", "a", 7)

    stage.restart(cleanly=cleanly)
    peer = producer.peer = stage.connect()

    assert committed_values(peer, "a") == [b"kept"]
    assert committed_offset(peer, "g", "a", stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert state_of(peer).transaction_state == "Ongoing"
    producer.send("a", b"more")
    assert producer.end(commit=True) == 0
    assert committed_values(peer, "a") == [b"kept", b"open", b"more"]
    assert committed_offset(peer, "g", "a", stable=True) == (0, 7)


def test_transaction_past_its_timeout_is_aborted_and_its_producer_epoch_rejected(stage, peer, producer):
    producer.send("a", b"slow")
    producer.commit_offsets("g", "a", 5)

    stage.advance(producer.timeout_ms + 1)

    assert state_of(peer).transaction_state == "CompleteAbort"
    assert committed_values(peer, "a") == []
    assert committed_offset(peer, "g", "a", stable=True) == (0, -1)
    refusal = ErrorCode.INVALID_TXN_STATE if producer.new else ErrorCode.PRODUCER_FENCED
    assert producer.end(commit=True) == refusal
    assert producer.write("a", b"late").error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_producer_recovers_by_init_producer_id_after_its_transaction_timed_out(stage, peer, producer):
    producer.send("a", b"slow")
    timed_out_epoch = producer.epoch
    stage.advance(producer.timeout_ms + 1)

    assert producer.init(recover=True) == 0

    assert producer.epoch == timed_out_epoch + 1
    producer.send("a", b"next")
    assert producer.end(commit=True) == 0
    assert committed_values(peer, "a") == [b"next"]


def test_abort_after_the_timeout_returns_the_next_epoch_to_a_kip_890_producer(stage, peer, producer):
    producer.send("a", b"slow")
    timed_out_epoch = producer.epoch
    stage.advance(producer.timeout_ms + 1)

    if not producer.new:
        assert producer.end(commit=False) == ErrorCode.PRODUCER_FENCED
        return
    assert producer.end(commit=False) == 0
    assert producer.epoch == timed_out_epoch + 1
    producer.send("a", b"next")
    assert producer.end(commit=True) == 0
    assert committed_values(peer, "a") == [b"next"]


def test_producer_whose_transaction_timed_out_is_fenced_by_a_second_producer(stage, producer):
    producer.send("a", b"slow")
    stage.advance(producer.timeout_ms + 1)
    second = Transactional(stage.connect(), new=producer.new)
    assert second.init() == 0

    assert producer.init(recover=True) == ErrorCode.PRODUCER_FENCED
    assert producer.end(commit=False) == ErrorCode.PRODUCER_FENCED


def test_second_producer_fences_the_first_and_aborts_its_transaction(stage, peer, producer):
    producer.send("a", b"of the first")
    second = Transactional(stage.connect(), new=producer.new)

    assert second.init() == ErrorCode.CONCURRENT_TRANSACTIONS, (
        "the open transaction of the first producer is aborted first"
    )
    assert second.init() == 0

    assert second.producer_id == producer.producer_id
    assert second.epoch > producer.epoch
    assert producer.end(commit=True) == ErrorCode.PRODUCER_FENCED
    assert producer.init(recover=True) == ErrorCode.PRODUCER_FENCED
    assert producer.write("a", b"zombie").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    second.send("a", b"of the second")
    second.end(commit=True)
    assert committed_values(peer, "a") == [b"of the second"]


def test_transactional_batch_without_transactional_id_is_rejected(peer, producer):
    batch = build_batch(
        [NewRecord(None, b"v", (), 0)],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        is_transactional=True,
    )

    refused = peer.produce("a", batch=batch)

    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refused.error_message == "a transactional batch needs a transactional id in the request"


def test_write_to_a_partition_outside_the_transaction_succeeds_only_for_kip_890_producers(peer, producer):
    if producer.new:
        assert producer.write("a", b"joins by writing").error_code == 0
        return
    assert producer.write("a", b"no").error_code == ErrorCode.INVALID_TXN_STATE
    assert producer.commit_offsets("g", "a", 1, adds=False) == ErrorCode.INVALID_TXN_STATE
    producer.add("b", 0)
    assert producer.write("a", b"no").error_code == ErrorCode.INVALID_TXN_STATE
    producer.end(commit=True)
    producer.add("a", 0)
    producer.end(commit=True)
    assert producer.write("a", b"after its end").error_code == ErrorCode.INVALID_TXN_STATE


def test_repeated_end_txn_succeeds_without_a_second_marker(peer, producer):
    producer.send("a", b"1")
    before = producer.producer_id, producer.epoch
    assert producer.end(commit=True) == 0
    after = producer.producer_id, producer.epoch
    size = latest(peer, "a")
    again = EndTxnRequest(transactional_id="t", producer_id=before[0], producer_epoch=before[1], committed=True)

    answer = peer.ask(again, 5 if producer.new else 3)

    assert answer.error_code == 0
    if producer.new:
        assert (answer.producer_id, answer.producer_epoch) == after == (before[0], before[1] + 1)
    assert latest(peer, "a") == size, "no second marker"
    contrary = EndTxnRequest(transactional_id="t", producer_id=before[0], producer_epoch=before[1], committed=False)
    assert peer.ask(contrary, 5 if producer.new else 3).error_code == ErrorCode.INVALID_TXN_STATE


def test_empty_transaction_can_be_aborted_only_by_kip_890_producers(peer, producer):
    epoch = producer.epoch
    assert producer.end(commit=True) == ErrorCode.INVALID_TXN_STATE
    if producer.new:
        assert producer.end(commit=False) == 0
        assert producer.epoch == epoch + 1
        producer.send("a", b"1")
        assert producer.end(commit=True) == 0
    else:
        assert producer.end(commit=False) == ErrorCode.INVALID_TXN_STATE


def test_producer_recovers_from_an_error_with_the_next_epoch(peer, producer):
    epoch = producer.epoch

    assert producer.init(recover=True) == 0

    assert producer.epoch == epoch + 1
    producer.epoch = epoch
    assert producer.init(recover=True) == 0, "a repeated request returns the same epoch"
    assert producer.epoch == epoch + 1
    producer.init()
    producer.epoch = epoch
    assert producer.init(recover=True) == ErrorCode.PRODUCER_FENCED


def test_producer_with_exhausted_epochs_gets_a_new_id(stage, peer, producer):
    producer_id = producer.producer_id
    transactions = stage.broker.state.cluster.transactions
    from dataclasses import replace

    worn = replace(transactions.get("t"), epoch=0x7FFE)
    transactions._write("t", worn, stage.now_ms)
    producer.epoch = 0x7FFE
    producer.sequences.clear()

    producer.send("a", b"1")
    assert producer.end(commit=True) == 0
    if not producer.new:
        assert producer.init() == 0

    assert producer.producer_id != producer_id
    assert producer.epoch == 0
    producer.send("a", b"2")
    assert producer.end(commit=True) == 0
    assert committed_values(peer, "a") == [b"1", b"2"]


@contextmanager
def no_aborts_listed(stage, folder):
    taken = stage.storage.open

    def refusing(name):
        if name.startswith(f"{folder}/") and name.endswith(".txnindex"):
            raise StorageError("the disk is full")
        return taken(name)

    stage.storage.open = refusing
    yield
    stage.storage.open = taken


def test_failed_marker_write_is_retried_and_delays_the_next_transaction(stage, peer, producer):
    producer.send("a", b"1")
    log = stage.broker.state.topics.log("a", 0)
    with no_aborts_listed(stage, "a-0"):
        assert producer.end(commit=False) == 0, "the abort is decided before its markers are written"
        assert state_of(peer).transaction_state == "PrepareAbort"
        fresh = Transactional(peer, new=producer.new)
        assert fresh.init() == ErrorCode.CONCURRENT_TRANSACTIONS

    stage.advance(1_000)

    assert state_of(peer).transaction_state == "CompleteAbort"
    assert fresh.init() == 0
    assert committed_values(peer, "a") == []
    assert log.last_stable_offset == log.log_end_offset


def test_aborted_offsets_stay_pending_until_the_marker_is_written_again(stage, peer, producer):
    producer.commit_offsets("g", "a", 10)
    coordinator, topics = stage.broker.state.coordinator, stage.broker.state.topics
    partition = coordinator.partition_of("g")
    with no_aborts_listed(stage, f"{OFFSETS_TOPIC}-{partition}"):
        assert producer.end(commit=False) == 0, "the abort is decided before its markers are written"
        assert committed_offset(peer, "g", "a", stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        check_replay(stage.broker)
        with pytest.raises(InvariantBroken, match="replaying the log"):
            check_log(coordinator, partition, items_on(topics.log(OFFSETS_TOPIC, partition)))

    stage.advance(1_000)

    assert committed_offset(peer, "g", "a", stable=True) == (0, -1)
    check_replay(stage.broker)


def test_deleted_topic_does_not_delay_the_end_of_a_transaction(peer, producer):
    producer.send("a", b"1")
    producer.send("b", b"2")
    peer.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1000), 6)

    assert producer.end(commit=True) == 0

    assert committed_values(peer, "b") == [b"2"]


def test_transactions_are_listed_and_described(stage, peer, producer):
    producer.send("a", b"1")
    stage.advance(5_000)

    listed = peer.ask(ListTransactionsRequest(), 2).transaction_states
    assert [(t.transactional_id, t.producer_id, t.transaction_state) for t in listed] == [
        ("t", producer.producer_id, "Ongoing")
    ]
    described = state_of(peer)
    assert described.transaction_start_time_ms == stage.now_ms - 5_000
    assert [(t.topic, t.partitions) for t in described.topics] == [("a", [0])]
    assert state_of(peer, "nobody").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    def found(version=2, **filters):
        return [t.transactional_id for t in peer.ask(ListTransactionsRequest(**filters), version).transaction_states]

    assert found(state_filters=["Ongoing"]) == found(producer_id_filters=[producer.producer_id]) == ["t"]
    assert found(duration_filter=4_000) == found(transactional_id_pattern="t.*") == ["t"]
    assert found(state_filters=["Empty"]) == found(duration_filter=6_000) == found(transactional_id_pattern="u") == []
    assert peer.ask(ListTransactionsRequest(state_filters=["Odd"]), 0).unknown_state_filters == ["Odd"]


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999}", "(" * 5_000 + "a" + ")" * 5_000, "(a)\\1"])
def test_invalid_pattern_of_transactional_ids_is_rejected(peer, pattern):
    answer = peer.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)

    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert peer.closed is None


def test_expensive_pattern_of_transactional_ids_does_not_stall_the_broker(peer):
    assert Transactional(peer, transactional_id="a" * 40 + "!").init() == 0

    answer = peer.ask(ListTransactionsRequest(transactional_id_pattern="(a+)+$"), 2)

    assert answer.transaction_states == []


def test_administrator_ends_a_hanging_transaction_with_a_marker(peer, producer):
    producer.send("a", b"hangs")
    topics = [WritableTxnMarkerTopic(name="a", partition_indexes=[0, 9])]
    marker = WritableTxnMarker(producer_id=producer.producer_id, producer_epoch=producer.epoch, topics=topics)

    answer = peer.ask(WriteTxnMarkersRequest(markers=[marker]), 1)

    codes = [(p.partition_index, p.error_code) for p in answer.markers[0].topics[0].partitions]
    assert codes == [(0, 0), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert committed_values(peer, "a") == []
    assert latest(peer, "a") == 2


def test_unused_transactional_id_expires():
    stage = BrokerStage(transactional_id_expiration_ms=60_000, connections_max_idle_ms=-1)
    peer = stage.connect()
    peer.create("a")
    producer = Transactional(peer)
    producer.init()
    producer.send("a", b"1")
    producer.end(commit=True)

    stage.advance(3_600_000)

    assert state_of(peer).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    stage.restart()
    assert state_of(stage.connect()).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_invalid_transaction_timeout_is_rejected(peer, timeout_ms):
    assert Transactional(peer, timeout_ms=timeout_ms).init() == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_empty_transactional_id_is_rejected(peer):
    assert Transactional(peer, "").init() == ErrorCode.INVALID_REQUEST


def test_add_partitions_with_an_unknown_partition_adds_no_partition(peer, producer):
    from kohort.wire.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic

    answer = peer.ask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="a", partitions=[0, 9])],
        ),
        3,
    )

    codes = [p.partition_error_code for p in answer.results_by_topic_v3_and_below[0].results_by_partition]
    assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert state_of(peer).transaction_state == "Empty"
