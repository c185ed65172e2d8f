"""Throttling of clients above their quotas.

The expected numbers are those of Apache Kafka 4.3.
"""

from __future__ import annotations

import pytest

from kohort.broker.connections.connection import PAUSE_BYTES
from kohort.broker.io import Connected
from kohort.errors import ErrorCode
from kohort.wire.codec import encode_bytes
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import BrokerStage, fetch_request, produce_request
from support.machines.quotas import set_quotas

ANYTHING = MetadataRequest(topics=[])


@pytest.fixture
def stage():
    return BrokerStage()


@pytest.fixture
def admin(stage):
    peer = stage.connect()
    peer.create("orders")
    return peer


def produce_of(peer, frame_bytes, *, acks=-1):
    batch = build_batch([NewRecord(None, b"")])
    bare = len(peer.request_bytes(produce_request("orders", batch, acks=acks), 9, answered=False)) - 4
    fitting = (build_batch([NewRecord(None, bytes(frame_bytes - bare - i))]) for i in range(10))
    for batch in fitting:
        request = produce_request("orders", batch, acks=acks)
        if len(peer.request_bytes(request, 9, answered=False)) - 4 == frame_bytes:
            return request
    raise AssertionError


def ask(peer, request, version):
    return peer.ask(request, version).throttle_time_ms


# ------------------------------------------------------------ produce


def test_producer_is_throttled_while_its_rate_exceeds_the_quota(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, producer_byte_rate=1000)
    peer = stage.connect()
    request = produce_of(peer, 5031)

    throttled = []
    for wait_ms in (27, 22, 23, 0):
        throttled.append(ask(peer, request, 9))
        stage.advance(wait_ms + throttled[-1])

    assert throttled == [0, 35, 5009, 10_008]


def test_throttled_client_is_not_served_during_its_throttle_time(stage, admin):
    set_quotas(admin, {"user": "ANONYMOUS"}, producer_byte_rate=1000)
    peer = stage.connect()
    throttle_ms = ask(peer, produce_of(peer, 15_000), 9)
    assert throttle_ms == 5000

    peer.send(ANYTHING, 12)
    stage.advance(throttle_ms - 1)
    assert peer.take() is None

    stage.advance(1)
    assert peer.take() is not None


def test_other_clients_are_served_during_a_throttle(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, producer_byte_rate=1000)
    peer = stage.connect()
    assert ask(peer, produce_of(peer, 15_000), 9)

    assert stage.connect().ask(ANYTHING, 12).throttle_time_ms == 0
    assert admin.ask(ANYTHING, 12, client_id="another").throttle_time_ms == 0


def test_connections_of_one_client_share_its_quota(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, producer_byte_rate=1000)
    first, second = stage.connect(), stage.connect()

    assert ask(first, produce_of(first, 8000), 9) == 0
    assert ask(second, produce_of(second, 8000), 9) == 6000
    assert ask(first, produce_of(first, 8000), 9) == 14_000


def test_producer_with_acks_0_is_throttled(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, producer_byte_rate=1000)
    peer = stage.connect()
    peer.send(produce_of(peer, 15_000, acks=0), 9, answered=False)
    peer.send(ANYTHING, 12)

    stage.advance(4999)
    assert peer.take() is None
    stage.advance(1)
    assert peer.take() is not None


def test_rejected_produce_requests_count_for_the_quota(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, producer_byte_rate=1000)
    peer = stage.connect()
    answer = peer.ask(produce_request("nowhere", build_batch([NewRecord(None, bytes(20_000))])), 9)

    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.throttle_time_ms > 10_000


def test_reading_stops_for_a_throttled_client(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, producer_byte_rate=1000)
    peer = stage.connect()
    throttle_ms = ask(peer, produce_of(peer, 15_000), 9)
    assert not peer.paused

    batch = build_batch([NewRecord(None, bytes(PAUSE_BYTES))])
    peer.send(produce_request("orders", batch), 9)
    assert peer.paused

    stage.advance(throttle_ms)
    assert peer.take().responses[0].partition_responses[0].error_code == 0
    assert not peer.paused


def test_throttled_client_may_disconnect(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, producer_byte_rate=1000)
    peer = stage.connect()
    assert ask(peer, produce_of(peer, 15_000), 9)
    peer.leave()

    stage.advance(10_000)
    assert len(stage.broker.state.connections) == 1
    assert not stage.broker.state.quotas.in_flight


def test_raised_or_removed_quota_applies_at_once(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, producer_byte_rate=1000)
    peers = [stage.connect() for _ in range(3)]
    request = produce_of(peers[0], 9000)
    assert ask(peers[0], request, 9) == 0

    set_quotas(admin, {"client-id": "tester"}, producer_byte_rate=1500)
    assert ask(peers[0], request, 9) == 2000, "bytes before the change of the quota count"
    set_quotas(admin, {"client-id": "tester"}, producer_byte_rate=None)
    assert ask(peers[1], request, 9) == 0
    assert not stage.broker.state.cluster.quotas.any_on_requests


def test_response_that_waits_for_a_flush_counts_for_the_quota_when_sent(stage, admin):
    admin.create("safe", flush_messages="1")
    set_quotas(admin, {"client-id": "tester"}, producer_byte_rate=1000)
    peer = stage.connect()
    answer = peer.ask(produce_request("safe", build_batch([NewRecord(None, bytes(15_000))])), 9)

    assert 5000 < answer.throttle_time_ms < 5200


def test_throttle_is_logged_with_client_and_quota(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, producer_byte_rate=1000)
    peer = stage.connect()
    stage.log_lines()
    ask(peer, produce_of(peer, 15_000), 9)

    assert stage.log_lines() == [
        "127.0.0.1: client 'tester' of user 'ANONYMOUS' is throttled for 5000 ms (producer_byte_rate=1000)"
    ]


# ------------------------------------------------------------ fetch


def test_fetch_above_the_quota_returns_no_records_and_is_not_counted(stage, admin):
    admin.produce("orders", bytes(4902))
    set_quotas(admin, {"client-id": "tester"}, consumer_byte_rate=1000)
    peer = stage.connect()
    request = fetch_request("orders")
    first = peer.ask(request, 12)
    size = len(encode_bytes(first, 12)) + 4
    assert first.throttle_time_ms == 0

    stage.advance(4)
    second = peer.ask(request, 12)
    assert (second.responses, second.throttle_time_ms) == ([], 2 * size - 10_004)

    stage.advance(second.throttle_time_ms)
    third = peer.ask(request, 12)
    assert third.throttle_time_ms == 0
    assert third.responses[0].partitions[0].records == first.responses[0].partitions[0].records


def test_fetch_session_does_not_change_when_its_fetch_is_throttled(stage, admin):
    admin.produce("orders", bytes(4902))
    set_quotas(admin, {"client-id": "tester"}, consumer_byte_rate=1000)
    peer = stage.connect()
    opened = peer.ask(fetch_request("orders", session_epoch=0), 12)
    assert opened.session_id
    assert opened.throttle_time_ms == 0

    throttled = peer.ask(fetch_request("orders", session_id=opened.session_id, session_epoch=1), 12)
    assert (throttled.session_id, throttled.error_code, throttled.responses) == (opened.session_id, 0, [])
    assert throttled.throttle_time_ms > 0

    stage.advance(throttled.throttle_time_ms)
    again = peer.ask(fetch_request("orders", session_id=opened.session_id, session_epoch=2), 12)
    assert again.responses[0].partitions[0].records == opened.responses[0].partitions[0].records


def test_throttled_first_fetch_opens_no_session(stage, admin):
    admin.produce("orders", bytes(4902))
    set_quotas(admin, {"client-id": "tester"}, consumer_byte_rate=100)
    throttled = stage.connect().ask(fetch_request("orders", session_epoch=0), 12)

    assert (throttled.session_id, throttled.responses) == (0, [])
    assert throttled.throttle_time_ms > 40_000
    assert not len(stage.broker.state.sessions)


def test_fetch_response_has_at_most_the_bytes_of_one_quota_window(stage, admin):
    for _ in range(8):
        admin.produce("orders", bytes(2000))
    set_quotas(admin, {"client-id": "tester"}, consumer_byte_rate=1000)
    answer = stage.connect().ask(fetch_request("orders"), 12)

    assert 8000 < len(answer.responses[0].partitions[0].records) <= 10_000


def test_waiting_fetch_counts_for_the_quota_when_it_is_answered(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, consumer_byte_rate=10)
    peer = stage.connect()
    peer.send(fetch_request("orders", max_wait_ms=5000), 12)
    assert peer.take() is None

    admin.send(produce_request("orders", build_batch([NewRecord(None, bytes(1000))])), 9, client_id="another")
    answer = peer.take()
    assert answer.responses == []
    assert answer.throttle_time_ms > 90_000


# ------------------------------------------------------------ request time


def test_throttle_time_of_the_request_quota_is_at_most_one_quota_sample(stage, admin):
    clock = iter(range(0, 10**12, 60_000_000))
    stage.broker.state.quotas.thread_time_ns = lambda: next(clock)
    set_quotas(admin, {"client-id": "tester"}, request_percentage=1)
    peer = stage.connect()

    assert ask(peer, ANYTHING, 12) == 0, "60 ms of processor time within ten seconds"
    assert ask(peer, ANYTHING, 12) == 1000, "2000 ms, limited to one quota sample"
    peer.send(HeartbeatRequest(group_id="g", member_id="m"), 4)
    assert peer.take() is None
    stage.advance(1000)
    assert peer.take().throttle_time_ms == 1000


def test_request_time_of_a_long_request_includes_all_steps(stage, admin):
    ticks = iter(range(0, 10**12, 60_000_000))
    stage.broker.state.quotas.thread_time_ns = lambda: next(ticks)
    set_quotas(admin, {"client-id": "tester"}, request_percentage=1)
    names = [CreatableTopic(name=f"t{i}", num_partitions=1, replication_factor=1) for i in range(100)]
    peer = stage.connect()
    peer.send(CreateTopicsRequest(topics=names, validate_only=True), 7)
    stage.advance(1)

    assert peer.take().throttle_time_ms == 1000


def test_request_time_is_zero_without_a_clock(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, request_percentage=0.001)
    peer = stage.connect()

    assert [ask(peer, ANYTHING, 12) for _ in range(20)] == [0] * 20


def test_client_is_throttled_even_if_the_response_has_no_throttle_time_field(stage, admin):
    clock = iter(range(0, 10**12, 10**9))
    stage.broker.state.quotas.thread_time_ns = lambda: next(clock)
    set_quotas(admin, {"client-id": "tester"}, request_percentage=1)
    peer = stage.connect()
    peer.ask(ApiVersionsRequest(), 0)
    peer.send(ANYTHING, 12)

    assert peer.take() is None
    stage.advance(1000)
    assert peer.take() is not None


# ------------------------------------------------------------ topic mutations


def create(peer, version, *topics, validate_only=False):
    request_topics = [CreatableTopic(name=n, num_partitions=p, replication_factor=1) for n, p in topics]
    return peer.ask(CreateTopicsRequest(topics=request_topics, validate_only=validate_only), version)


def codes(answer):
    return [(t.name, t.error_code, t.error_message) for t in answer.topics]


def test_create_topics_is_rejected_when_the_mutation_quota_is_used_up(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, controller_mutation_rate=1)
    peer = stage.connect()
    answer = create(peer, 7, ("a", 4), ("b", 4), ("c", 4), ("d", 4), ("orders", 1))

    assert codes(answer)[:4] == [("a", 0, None), ("b", 0, None), ("c", 0, None), ("d", 89, None)]
    assert answer.topics[4].error_code == ErrorCode.TOPIC_ALREADY_EXISTS, (
        "a rejected topic does not count for the quota"
    )
    assert answer.throttle_time_ms == 1000
    stage.advance(1000)
    assert codes(create(peer, 7, ("d", 4))) == [("d", 0, None)]


def test_older_create_topics_version_is_throttled_instead_of_rejected(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, controller_mutation_rate=1)
    peer = stage.connect()
    answer = create(peer, 5, ("a", 12), ("b", 3))

    assert codes(answer) == [("a", 0, None), ("b", 0, None)]
    assert answer.throttle_time_ms == 4000
    assert not codes(create(stage.connect(), 5, ("c", 1)))[0][1]


def test_validate_only_counts_for_the_mutation_quota(stage, admin):
    set_quotas(admin, {"client-id": "tester"}, controller_mutation_rate=1)
    peer = stage.connect()
    assert codes(create(peer, 7, ("a", 12), validate_only=True)) == [("a", 0, None)]
    answer = create(peer, 7, ("a", 1))

    assert (codes(answer), answer.throttle_time_ms) == ([("a", 89, None)], 1000)


def test_added_and_deleted_partitions_count_for_the_mutation_quota(stage, admin):
    for name in ("a", "b"):
        admin.create(name, 6)
    set_quotas(admin, {"client-id": "tester"}, controller_mutation_rate=1)
    peer = stage.connect()

    def grow(version, count):
        request_topic = CreatePartitionsTopic(name="orders", count=count, assignments=None)
        answer = peer.ask(CreatePartitionsRequest(topics=[request_topic]), version)
        return answer.results[0].error_code, answer.throttle_time_ms

    assert grow(3, 13) == (0, 0)
    assert grow(3, 14) == (89, 1000)
    stage.advance(1000)
    assert grow(2, 14) == (0, 1000)
    stage.advance(1000)
    answer = peer.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=n) for n in ("a", "b")]), 6)
    assert [r.error_code for r in answer.responses] == [0, 89]
    assert answer.throttle_time_ms == 6000
    stage.advance(6000)
    older = peer.ask(DeleteTopicsRequest(topic_names=["b"]), 4)
    assert ([r.error_code for r in older.responses], older.throttle_time_ms) == ([0], 6000)


# ------------------------------------------------------------ connections


def test_connections_above_the_rate_are_served_later_in_order_of_arrival():
    stage = BrokerStage(max_connection_creation_rate=1)
    peers = [stage.connect(f"10.0.0.{i}") for i in range(12)]
    for peer in peers:
        peer.send(ANYTHING, 12)

    assert [peer.take() is not None for peer in peers] == [True] * 10 + [False] * 2
    assert [peer.paused for peer in peers] == [False] * 10 + [True] * 2
    stage.advance(1000)
    assert [peer.take() is not None for peer in peers[10:]] == [True, False]
    stage.advance(1000)
    assert peers[11].take() is not None
    assert not peers[11].paused


def test_listener_has_its_own_connection_rate_and_limit():
    stage = BrokerStage(
        listeners="PLAINTEXT://127.0.0.1:9092,OUTSIDE://127.0.0.1:9093",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
        **{"listener.name.outside.max.connections": "12", "listener.name.outside.max.connection.creation.rate": "1"},
    )
    closed = []
    for number in range(1000, 1013):
        outputs = stage.broker.handle(Connected(number, "10.0.0.1", "OUTSIDE"), stage.now_ms)
        closed += [o.reason for o in outputs if hasattr(o, "note")]

    assert closed == [
        "10.0.0.1: connection rejected: 12 connections to OUTSIDE are open already "
        "(listener.name.outside.max.connections)"
    ]
    stage.connect().ask(ANYTHING, 12)
    assert stage.broker.wake_at_ms <= stage.now_ms + 1000


def test_connection_above_the_rate_of_its_address_is_closed_after_a_delay(stage, admin):
    set_quotas(admin, {"ip": "10.0.0.7"}, connection_creation_rate=1)
    set_quotas(admin, {"ip": None}, connection_creation_rate=2)
    peers = [stage.connect("10.0.0.7") for _ in range(11)]
    peers[10].send(ANYTHING, 12)
    stage.advance(999)
    assert [peer.closed for peer in peers] == [None] * 11

    stage.advance(1)
    assert peers[10].closed == "10.0.0.7: connection rejected: more than 1 connections per second from this address"
    assert peers[10].take() is None
    assert peers[0].ask(ANYTHING, 12)
    others = [stage.connect("10.0.0.8") for _ in range(21)]
    stage.advance(1000)
    assert [peer.closed is None for peer in others] == [True] * 20 + [False]


def test_rejected_connection_does_not_count_for_the_rate(stage, admin):
    set_quotas(admin, {"ip": "10.0.0.7"}, connection_creation_rate=2)
    for _ in range(60):
        stage.connect("10.0.0.7")
    stage.advance(10_600)
    later = stage.connect("10.0.0.7")
    stage.advance(1000)

    assert later.closed is None
