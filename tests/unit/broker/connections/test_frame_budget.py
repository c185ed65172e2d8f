"""Memory limit of large requests that are being received."""

import struct

from kohort.broker.connections.budgets import GRACE_MS, SMALL_FRAME_BYTES
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import BrokerStage, produce_request

MIB = 1 << 20
HUGE = 100 * 1000 * 1000


def begin(peer, size: int, sent: int = 100_000) -> None:
    peer.send_bytes(struct.pack(">i", size) + bytes(10))
    more(peer, sent - 10)


def more(peer, size: int) -> int:
    sent = 0
    while sent < size and not peer.paused and peer.closed is None:
        peer.send_bytes(bytes(min(50_000, size - sent)))
        sent += min(50_000, size - sent)
    return sent


def pending_bytes(stage: BrokerStage) -> int:
    return sum(c.reader.pending_bytes for c in stage.broker._connections.values())


def test_twenty_incomplete_huge_requests_use_the_memory_of_one():
    stage = BrokerStage()
    peers = [stage.connect() for _ in range(20)]
    for peer in peers:
        begin(peer, HUGE, 10 * MIB)

    assert [peer.paused for peer in peers] == [False] + [True] * 19
    assert pending_bytes(stage) < 12 * MIB


def test_small_requests_are_served_while_huge_ones_arrive():
    stage = BrokerStage()
    honest = stage.connect()
    honest.create("a")
    for _ in range(20):
        begin(stage.connect(), HUGE)

    assert honest.ask(MetadataRequest(topics=[]), 12).brokers
    assert honest.produce("a", b"x" * 1_000_000).error_code == 0


def test_slow_ordinary_request_is_read_beside_a_huge_one():
    stage = BrokerStage()
    honest = stage.connect()
    honest.create("a")
    begin(stage.connect(), HUGE)
    data = honest.request_bytes(produce_request("a", build_batch([NewRecord(None, b"x" * 1_000_000, (), 1)])), 9)

    for at in range(0, len(data), 100_000):
        assert not honest.paused
        honest.send_bytes(data[at : at + 100_000])

    assert honest.take().responses


def test_large_request_waits_until_the_previous_large_request_is_complete():
    stage = BrokerStage(queued_max_request_bytes=4 * MIB)
    first, second = stage.connect(), stage.connect()
    begin(first, 2 * MIB)
    begin(second, 2 * MIB)
    assert (first.paused, second.paused) == (False, True)

    more(first, 2 * MIB)

    assert first.closed is not None, "a frame of zeros is not a valid request"
    assert not second.paused
    assert stage.broker._frame_budget.used_bytes == 2 * MIB


def test_large_request_waits_until_the_client_of_the_previous_one_disconnects():
    stage = BrokerStage(queued_max_request_bytes=4 * MIB)
    first, second = stage.connect(), stage.connect()
    begin(first, 2 * MIB)
    begin(second, 2 * MIB)

    first.leave()

    assert not second.paused
    second.leave()
    assert stage.broker._frame_budget.used_bytes == 0
    assert stage.broker._frame_budget.waiting == 0


def test_connection_of_a_slow_large_request_is_closed_if_another_large_request_waits():
    stage = BrokerStage(queued_max_request_bytes=4 * MIB)
    first, second = stage.connect(), stage.connect()
    begin(first, 2 * MIB)
    stage.advance(60_000)
    assert first.closed is None, "no other request waits"
    begin(second, 2 * MIB)

    stage.advance(1)

    assert first.closed == (
        "127.0.0.1: a request of 2097152 bytes arrives too slowly while other requests wait (queued.max.request.bytes)"
    )
    assert not second.paused
    stage.advance(GRACE_MS * 10)
    assert second.closed is None, "no other request waits any more"


def test_request_larger_than_the_budget_is_read_alone():
    stage = BrokerStage(queued_max_request_bytes=1)
    peer = stage.connect()
    peer.create("a")

    assert peer.produce("a", b"x" * 1_000_000).error_code == 0


def test_no_large_request_waits_without_a_memory_limit():
    stage = BrokerStage(queued_max_request_bytes=-1)
    peers = [stage.connect() for _ in range(20)]
    for peer in peers:
        begin(peer, HUGE)

    assert not any(peer.paused for peer in peers)
    assert stage.broker.wake_at_ms is None or stage.broker.wake_at_ms > stage.now_ms


def test_small_requests_need_no_frame_budget():
    stage = BrokerStage(queued_max_request_bytes=1)
    peers = [stage.connect() for _ in range(20)]
    for peer in peers:
        begin(peer, SMALL_FRAME_BYTES, 5000)

    assert not any(peer.paused for peer in peers)


def test_large_request_pipelined_after_a_waiting_fetch_is_not_read_completely(peer, stage):
    from support.machines.broker_stage import fetch_request

    peer.create("a")
    peer.send(fetch_request("a", max_wait_ms=500), 12)
    begin(peer, HUGE, 10 * MIB)

    assert peer.paused
    assert pending_bytes(stage) < MIB
    stage.advance(500)
    assert not peer.paused


def test_connection_that_waits_for_the_budget_is_not_closed_as_idle():
    stage = BrokerStage(queued_max_request_bytes=4 * MIB, connections_max_idle_ms=1000)
    first, second = stage.connect(), stage.connect()
    begin(first, 2 * MIB)
    begin(second, 2 * MIB)
    stage.advance(900)
    more(first, 1000)
    stage.advance(900)

    assert second.closed is None
