"""Frames and requests of a connection, and reasons to close it."""

import struct

from kohort.broker.io import Congested, Drained
from kohort.notes import Level
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.messages.metadata import MetadataRequest
from support.machines.broker_stage import BrokerStage, fetch_request


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def test_request_may_arrive_byte_by_byte(peer):
    for byte in peer.request_bytes(MetadataRequest(topics=[]), 12):
        peer.send_bytes(bytes([byte]))

    assert peer.take().brokers[0].node_id == 1
    assert peer.closed is None


def test_pipelined_requests_are_answered_in_order(peer):
    peer.create("a")
    first = peer.request_bytes(MetadataRequest(topics=[]), 12)
    second = peer.request_bytes(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)

    peer.send_bytes(first + second)

    assert [type(peer.take()).__name__ for _ in range(2)] == ["MetadataResponse", "ApiVersionsResponse"]


def test_pipelined_request_waits_for_the_response_of_a_waiting_fetch(peer, stage):
    peer.create("a")
    peer.send(fetch_request("a", max_wait_ms=500), 12)
    peer.send(MetadataRequest(topics=[]), 12)
    assert peer.take() is None

    stage.advance(500)

    assert [type(peer.take()).__name__ for _ in range(2)] == ["FetchResponse", "MetadataResponse"]


def test_reading_pauses_for_a_client_with_many_unserved_requests(peer, stage):
    peer.create("a")
    peer.send(fetch_request("a", max_wait_ms=500), 12)

    for _ in range(70):
        peer.send(HeartbeatRequest(group_id="g" * 5000, member_id="m"), 3)
    assert peer.paused

    stage.advance(500)
    assert not peer.paused
    assert len(peer.take_all()) == 71


def test_unknown_api_closes_only_its_connection(peer, stage):
    other = stage.connect()

    peer.send_bytes(frame(struct.pack(">hhih", 999, 0, 1, -1)))

    assert peer.closed == "127.0.0.1: API 999 (unknown) is not served"
    assert peer.close_level is Level.WARNING
    assert other.ask(MetadataRequest(topics=[]), 12).brokers


def test_unserved_kafka_api_is_named_in_the_log(peer):
    peer.send_bytes(frame(struct.pack(">hhih", 76, 0, 1, -1)))

    assert "API 76 (unknown) is not served" in peer.closed


def test_unserved_api_version_closes_the_connection(peer):
    peer.send_bytes(frame(struct.pack(">hhih", 3, 99, 1, -1)))

    assert peer.closed == "127.0.0.1: Metadata version 99 is not served, only 0 to 13"


def test_malformed_body_is_reported_with_api_version_and_field(peer):
    header = struct.pack(">hhih", 12, 3, 1, -1)

    peer.send_bytes(frame(header + struct.pack(">h", 500) + b"short"))

    assert peer.closed == (
        "127.0.0.1: malformed Heartbeat version 3: HeartbeatRequest.group_id: a length of 500 with 5 bytes left"
    )


def test_array_length_beyond_the_frame_is_rejected_before_allocation(peer):
    header = struct.pack(">hhih", 3, 1, 1, -1)

    peer.send_bytes(frame(header + struct.pack(">i", 0x7FFFFFF0)))

    assert "MetadataRequest.topics" in peer.closed


def test_bytes_after_the_end_of_a_request_are_ignored(stage):
    peers = [stage.connect(), stage.connect()]
    peers[0].create("a")
    for peer in [*peers, *peers]:
        for version in (12, 13):
            request = peer.request_bytes(MetadataRequest(topics=None), version)
            assert request.endswith(b"\x00\x01\x00\x00")
            # librdkafka from 2.1 on writes the null array of topics with four bytes
            peer.send_bytes(frame(request[4:-4] + b"\x00\x00\x00\x00\x01\x00\x00"))
            assert [topic.name for topic in peer.take().topics] == ["a"]

    assert not any(peer.closed for peer in peers)


def test_frame_shorter_than_a_header_closes_the_connection(peer):
    peer.send_bytes(frame(b"abc"))

    assert "3 bytes is too short" in peer.closed


def test_frame_length_above_the_limit_closes_the_connection(peer):
    peer.send_bytes(struct.pack(">i", 0x7FFFFFFF))

    assert "2147483647 bytes" in peer.closed


def test_negative_frame_length_closes_the_connection(peer):
    peer.send_bytes(struct.pack(">i", -5))

    assert "-5 bytes" in peer.closed


def test_frame_above_socket_request_max_bytes_closes_the_connection():
    peer = BrokerStage(socket_request_max_bytes=100).connect()

    peer.send_bytes(struct.pack(">i", 101))

    assert "more than the 100 accepted" in peer.closed


def test_join_group_of_17_mib_closes_the_connection_before_its_body_arrives(peer):
    peer.send_bytes(struct.pack(">ih", 17 << 20, 11))

    assert "JoinGroup request of 17825792 bytes exceeds the limit of 16777216 bytes" in peer.closed


def test_request_of_17_mib_with_an_unknown_api_key_closes_the_connection(peer):
    peer.send_bytes(struct.pack(">i", 17 << 20))
    peer.send_bytes(struct.pack(">h", 999))

    assert "API 999 request of 17825792 bytes" in peer.closed


def test_produce_of_17_mib_is_read(peer):
    peer.send_bytes(struct.pack(">ih", 17 << 20, 0))

    assert peer.closed is None


def test_message_max_bytes_above_16_mib_raises_the_limit_of_requests_without_records():
    peer = BrokerStage(message_max_bytes=18 << 20).connect()

    peer.send_bytes(struct.pack(">ih", 17 << 20, 14))

    assert peer.closed is None


def test_idle_connection_is_closed_unless_its_fetch_waits():
    stage = BrokerStage(connections_max_idle_ms=1000)
    idle, waiting = stage.connect(), stage.connect()
    waiting.create("a")
    waiting.send(fetch_request("a", max_wait_ms=1900), 12)

    stage.advance(1500)

    assert idle.closed == "127.0.0.1: idle for 1000 ms"
    assert idle.close_level is Level.DEBUG, "Kafka does not log closed idle connections"
    assert waiting.closed is None
    stage.advance(500)
    assert waiting.take() is not None


def test_client_that_does_not_read_gets_no_responses(peer, stage):
    stage.give(Congested(peer.number))
    peer.send(MetadataRequest(topics=[]), 12)
    assert peer.take() is None

    stage.give(Drained(peer.number))

    assert peer.take() is not None


def test_large_responses_to_pipelined_requests_are_sent_over_several_events(peer, stage):
    peer.create("a", max_message_bytes="3000000")
    peer.produce("a", b"x" * 900_000)
    requests = [peer.request_bytes(fetch_request("a"), 12) for _ in range(10)]

    peer.send_bytes(b"".join(requests))

    at_once = len(peer.take_all())
    assert at_once < 10
    assert stage.broker.wake_at_ms == 0
    stage.give(Congested(peer.number))
    few = len(peer.take_all())
    stage.advance(1000)
    assert peer.take() is None, "a congested client gets no further bytes"
    stage.give(Drained(peer.number))
    stage.advance(1)
    rest = len(peer.take_all())
    assert at_once + few + rest == 10


def test_bytes_received_after_the_connection_was_closed_are_dropped(peer):
    peer.send_bytes(struct.pack(">i", -5))

    peer.send_bytes(b"still talking")

    assert peer.take() is None


def test_disconnect_within_a_request_is_logged(peer, stage):
    peer.send_bytes(struct.pack(">i", 1000) + b"half")

    peer.leave()

    assert stage.log_lines() == ["127.0.0.1: disconnected after 4 bytes of a request"]


def test_response_to_a_disconnected_client_is_dropped(peer, stage):
    peer.create("a")
    peer.send(fetch_request("a", max_wait_ms=500), 12)

    peer.leave()
    stage.advance(1000)

    assert peer.take() is None
    assert len(stage.broker.state.purgatory) == 0
