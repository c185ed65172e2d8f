"""Limit of the number of stored idempotent producers."""

import pytest

from kohort.errors import ErrorCode
from kohort.log.producers import ORDER_MS, RECOUNT_MS, RETRY_WINDOW_MS
from kohort.wire.messages.topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import BrokerStage
from support.raw.transactional import Transactional, committed_values

REFUSED = ErrorCode.NOT_ENOUGH_REPLICAS
DAY_MS = 86_400_000


@pytest.fixture
def stage():
    return BrokerStage(kohort_producer_max_ids=100, connections_max_idle_ms=-1)


@pytest.fixture
def peer(stage):
    peer = stage.connect()
    peer.create("orders", 3)
    return peer


def send(peer, producer_id, sequence=0, partition=0):
    batch = build_batch(
        [NewRecord(None, b"%d-%d" % (producer_id, sequence), (), peer.stage.now_ms)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )
    return peer.produce("orders", batch=batch, partition=partition)


def code(peer, producer_id, sequence=0, partition=0):
    return send(peer, producer_id, sequence, partition).error_code


def producer_count(stage):
    topics = stage.broker.state.topics
    return sum(len(log.producers) for topic in topics for log in topic.partitions)


def attack(peer, count=1_000, first=10_000):
    """Send one batch from each of ``count`` invented producer ids; return the error codes."""
    return [code(peer, first + i, partition=i % 3) for i in range(count)]


def test_new_producer_ids_above_the_limit_are_rejected(stage, peer):
    first = send(peer, 1)
    codes = attack(peer)

    assert codes == [0] * 99 + [REFUSED] * 901
    assert producer_count(stage) == 100
    assert code(peer, 1, 1) == 0
    assert send(peer, 1, 0).base_offset == first.base_offset, "a repeated batch of a stored producer is recognized"
    assert code(peer, 1, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, (
        "a sequence gap of a stored producer is recognized"
    )
    assert peer.produce("orders", b"without an id").error_code == 0
    room = stage.broker.state.topics.producer_room
    assert (room.at_most, room.refused) == (100, 901)
    assert any("kohort.producer.max.ids" in line for line in stage.log_lines())


def test_rejected_producer_gets_the_reason(peer):
    attack(peer, 100)
    batch = build_batch([NewRecord(None, b"x", (), 0)], producer_id=1, producer_epoch=0, base_sequence=0)

    refused = peer.produce("orders", batch=batch)

    assert "kohort.producer.max.ids" in refused.error_message


def test_silent_producers_expire_to_admit_new_producers(stage, peer):
    assert code(peer, 1) == 0
    attack(peer, 100)
    assert code(peer, 2) == REFUSED
    stage.advance(RETRY_WINDOW_MS - 1)
    assert code(peer, 1, 1) == 0, "a stored producer can append"
    assert code(peer, 2) == REFUSED, "clients may still retry batches of the silent producers"

    stage.advance(RECOUNT_MS)

    assert code(peer, 2) == 0
    assert producer_count(stage) == 100 - 12, "an eighth of the limit is freed"
    assert code(peer, 1, 3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a producer that appends does not expire"


def test_longest_silent_producers_expire_first(stage, peer):
    for producer_id in range(50):
        assert code(peer, 100 + producer_id) == 0
    stage.advance(DAY_MS // 4)
    for producer_id in range(50):
        assert code(peer, 200 + producer_id) == 0
    stage.advance(DAY_MS // 8)

    assert code(peer, 1) == 0

    assert producer_count(stage) == 100 - 12
    assert code(peer, 249, 7) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the producer is stored"
    assert code(peer, 102, 7) == 0, "the producer has expired and may start with any sequence"


def test_rejected_producer_is_not_admitted_within_the_next_minute(stage, peer):
    """If a producer were admitted after a rejection, its second pipelined batch would be appended before the first."""
    attack(peer, 100)
    assert code(peer, 2, 0) == REFUSED
    peer.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")]), 6)
    peer.create("orders", 3)
    stage.advance(RECOUNT_MS)
    assert code(peer, 1) == 0, "the deleted producers leave room for new ones"

    assert code(peer, 2, 1) == REFUSED
    assert (code(peer, 2, 0), code(peer, 2, 1)) == (0, 0)

    assert code(peer, 3, 7) == REFUSED
    stage.advance(ORDER_MS)
    assert code(peer, 3, 7) == 0, "as in Kafka, a producer that is not stored may start with any sequence"


def test_producer_of_an_open_transaction_is_never_expired(stage, peer):
    peer.create("payments")
    producer = Transactional(peer, timeout_ms=900_000)
    assert producer.init() == 0
    producer.send("payments", b"paid")
    assert producer.add("orders", 0, 1, 2) == 0
    assert set(attack(peer)) == {0, REFUSED}

    assert producer.end(commit=True) == 0

    assert committed_values(peer, "payments") == [b"paid"]
    assert producer_count(stage) == 100, "a marker in a partition without records of the producer stores no producer"


def test_deleted_topic_removes_its_producers(stage, peer):
    attack(peer, 100)
    assert code(peer, 1) == REFUSED
    stage.advance(RECOUNT_MS)
    peer.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")]), 6)
    peer.create("orders", 3)

    assert code(peer, 1) == 0
    assert producer_count(stage) == 1


def test_producers_in_the_log_count_for_the_limit_after_a_restart(stage, peer):
    attack(peer, 100)
    stage.restart()
    again = stage.connect()

    assert code(again, 1) == REFUSED
    assert code(again, 10_000, 1) == 0


def test_interval_of_producer_expiry_checks_is_configurable():
    stage = BrokerStage(producer_id_expiration_ms=5_000, producer_id_expiration_check_interval_ms=1_000)
    peer = stage.connect()
    peer.create("orders", 3)
    attack(peer, 10)
    stage.advance(4_000)
    assert producer_count(stage) == 10

    stage.advance(2_000)

    assert producer_count(stage) == 0


def test_no_producer_is_rejected_without_a_limit():
    peer = BrokerStage(kohort_producer_max_ids=-1).connect()
    peer.create("orders", 3)

    assert set(attack(peer)) == {0}
