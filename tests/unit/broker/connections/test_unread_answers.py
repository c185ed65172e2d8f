"""Memory limit of unread responses, whose records are read from the log when sent."""

import struct

import pytest

from kohort.broker.connections.budgets import PIECE_BYTES, SMALL_PIECE_BYTES
from kohort.broker.io import Close, Congested, Drained, Received, Send, Tick
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.topics import DeleteTopicsRequest
from support.machines.broker_stage import BrokerStage, fetch_request, values_of

MIB = 1 << 20
VALUE = b"v" * 900_000


def stage_with_a_large_topic(count: int = 10, **options: object) -> BrokerStage:
    stage = BrokerStage(**options)
    peer = stage.connect()
    peer.create("large")
    for _ in range(count):
        peer.produce("large", VALUE)
    return stage


def large_fetch(max_bytes: int = 50 * MIB, version: int = 12):
    request = fetch_request("large", max_bytes=max_bytes, version=version)
    request.topics[0].partitions[0].partition_max_bytes = max_bytes
    return request


def ask(stage: BrokerStage, peer, max_bytes: int = 50 * MIB) -> list:
    data = peer.request_bytes(large_fetch(max_bytes), 12)
    return list(stage.broker.handle(Received(peer.number, data), stage.now_ms))


def sent_to(peer, outputs) -> int:
    return sum(len(b) for o in outputs if isinstance(o, Send) and o.connection == peer.number for b in o.buffers)


def test_large_response_is_sent_over_several_events():
    stage = stage_with_a_large_topic()
    peer = stage.connect()
    peer.send(large_fetch(), 12)
    assert peer.take() is None
    assert stage.broker.wake_at_ms == 0

    stage.advance(0)

    (partition,) = peer.take().responses[0].partitions
    assert values_of(partition.records) == [VALUE] * 10


def test_client_gets_at_most_a_mebibyte_of_a_response_per_event():
    stage = stage_with_a_large_topic()
    peer = stage.connect()

    handed = [sent_to(peer, ask(stage, peer))]
    while stage.broker.wake_at_ms == 0:
        handed.append(sent_to(peer, stage.broker.handle(Tick(), stage.now_ms)))

    assert len(handed) > 8
    assert max(handed) <= PIECE_BYTES


def test_client_that_does_not_read_uses_at_most_a_mebibyte_of_memory():
    stage = stage_with_a_large_topic(40)
    peer = stage.connect()
    ask(stage, peer)
    stage.give(Congested(peer.number))
    for _ in range(5):
        ask(stage, peer)
        stage.advance(10)

    assert 0 < stage.broker.state.unread.held_bytes < PIECE_BYTES + 100


def test_sending_continues_when_the_client_reads_again():
    stage = stage_with_a_large_topic()
    peer = stage.connect()
    peer.send(large_fetch(), 12)
    stage.give(Congested(peer.number))
    stage.advance(1000)
    assert peer.take() is None

    for _ in range(10):
        stage.give(Drained(peer.number))
        stage.give(Congested(peer.number))
    stage.give(Drained(peer.number))

    assert values_of(peer.take().responses[0].partitions[0].records) == [VALUE] * 10
    assert stage.broker.state.unread.held_bytes == 0


def test_other_clients_are_served_while_a_large_response_is_sent():
    stage = stage_with_a_large_topic()
    slow, other = stage.connect(), stage.connect()
    slow.send(large_fetch(), 12)

    assert other.ask(MetadataRequest(topics=[]), 12).brokers
    assert slow.take() is None


def test_client_gets_fewer_bytes_per_event_above_half_of_the_unread_limit():
    stage = stage_with_a_large_topic(10, queued_max_request_bytes=8 * MIB)
    for _ in range(5):
        peer = stage.connect()
        ask(stage, peer)
        stage.give(Congested(peer.number))

    late = stage.connect()
    at_once = sent_to(late, ask(stage, late))

    assert 0 < at_once <= SMALL_PIECE_BYTES


def test_three_hundred_clients_that_do_not_read_stay_within_the_limit():
    stage = stage_with_a_large_topic(10, queued_max_request_bytes=64 * MIB)
    peers = [stage.connect() for _ in range(300)]
    for peer in peers:
        ask(stage, peer)
        stage.give(Congested(peer.number))

    unread = stage.broker.state.unread
    assert unread.most_held_bytes <= 64 * MIB
    assert len(unread) == 300
    assert unread.ended == 0


def test_connection_with_the_oldest_unread_response_is_closed_above_the_limit():
    stage = stage_with_a_large_topic(10, queued_max_request_bytes=4 * MIB)
    peers = [stage.connect() for _ in range(40)]
    for peer in peers:
        peer.send(large_fetch(), 12)
        stage.give(Congested(peer.number))
        assert stage.broker.state.unread.held_bytes <= 4 * MIB

    ended = [peer for peer in peers if peer.closed]
    assert ended == peers[: len(ended)]
    assert len(ended) == stage.broker.state.unread.ended > 0
    assert "does not read its responses" in ended[0].closed
    assert "queued.max.request.bytes" in ended[0].closed


def test_connection_of_a_slow_but_steady_reader_is_not_the_first_to_be_closed():
    stage = stage_with_a_large_topic(10, queued_max_request_bytes=4 * MIB)
    slow = stage.connect()
    slow.send(large_fetch(), 12)
    stage.give(Congested(slow.number))
    for _ in range(30):
        peer = stage.connect()
        ask(stage, peer)
        stage.give(Congested(peer.number))
        stage.give(Drained(slow.number))
        stage.give(Congested(slow.number))

    assert slow.closed is None


def test_single_connection_may_exceed_the_limit_of_unread_responses():
    stage = BrokerStage(queued_max_request_bytes=1)
    peer = stage.connect()
    peer.send(MetadataRequest(topics=[]), 12)
    stage.give(Congested(peer.number))

    assert peer.closed is None
    assert peer.take().brokers


def test_no_connection_is_closed_without_a_limit_of_unread_responses():
    stage = stage_with_a_large_topic(10, queued_max_request_bytes=-1)
    peers = [stage.connect() for _ in range(40)]
    for peer in peers:
        assert sent_to(peer, ask(stage, peer)) > SMALL_PIECE_BYTES
        stage.give(Congested(peer.number))

    assert not any(peer.closed for peer in peers)


def test_idle_connection_with_an_unread_response_is_closed_at_once():
    stage = stage_with_a_large_topic(10, connections_max_idle_ms=1000)
    peer = stage.connect()
    ask(stage, peer)
    stage.give(Congested(peer.number))
    stage.clock.advance(1000)

    outputs = stage.broker.handle(Tick(), stage.now_ms)

    assert [o.at_once for o in outputs if isinstance(o, Close) and o.connection == peer.number] == [True]
    assert stage.broker.state.unread.held_bytes == 0


def test_response_from_the_log_of_a_deleted_topic_closes_the_connection():
    stage = stage_with_a_large_topic()
    peer = stage.connect()
    peer.send(large_fetch(), 12)
    stage.give(Congested(peer.number))
    stage.connect().ask(DeleteTopicsRequest(topic_names=["large"]), 5)

    outputs = stage.broker.handle(Drained(peer.number), stage.now_ms)

    assert sent_to(peer, outputs) == 0
    (close,) = [o for o in outputs if isinstance(o, Close)]
    assert "the rest of a response cannot be read" in close.reason
    assert stage.connect().ask(MetadataRequest(topics=[]), 12).brokers


def test_response_of_version_4_is_checked_for_zstd_batches_before_it_is_sent():
    stage = stage_with_a_large_topic()
    peer = stage.connect()

    peer.send(large_fetch(version=4), 4)

    records = peer.take().responses[0].partitions[0].records
    assert values_of(records) == [VALUE]


def test_request_after_a_large_response_waits_for_the_end_of_the_response():
    stage = stage_with_a_large_topic()
    peer = stage.connect()
    first, second = peer.request_bytes(large_fetch(), 12), peer.request_bytes(MetadataRequest(topics=[]), 12)
    peer.send_bytes(first + second)

    stage.advance(0)

    assert [type(answer).__name__ for answer in peer.take_all()] == ["FetchResponse", "MetadataResponse"]


@pytest.mark.parametrize("max_bytes", [1, 900_000, 1_000_000, 3 * MIB])
def test_frame_length_of_a_response_equals_its_sent_bytes(max_bytes):
    stage = stage_with_a_large_topic()
    peer = stage.connect()
    outputs = ask(stage, peer, max_bytes)
    while stage.broker.wake_at_ms == 0:
        outputs += stage.broker.handle(Tick(), stage.now_ms)

    data = b"".join(bytes(b) for o in outputs if isinstance(o, Send) for b in o.buffers)
    assert struct.unpack_from(">i", data)[0] == len(data) - 4
