import resource
import socket
import struct
from contextlib import ExitStack, suppress

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.record_batch import NewRecord, build_batch
from support.processes.served_broker import Served
from support.raw.group_member import RawMember
from support.raw.raw_client import RawClient

MIB = 1 << 20


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


NOT_KAFKA = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BAD = {
    "an http request": NOT_KAFKA,
    "a negative length": struct.pack(">i", -1),
    "an absurd length": struct.pack(">i", 0x7FFFFFFF),
    "an empty frame": frame(b""),
    "a frame shorter than its header": frame(b"\x00\x03\x00"),
    "an unknown api": frame(struct.pack(">hhih", 4711, 0, 1, -1)),
    "an unknown version": frame(struct.pack(">hhih", 0, 99, 1, -1)),
    "a negative version": frame(struct.pack(">hhih", 3, -1, 1, -1)),
    "a client id beyond the frame": frame(struct.pack(">hhih", 3, 1, 1, 500)),
    "a client id that is no text": frame(struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe" + struct.pack(">i", 0)),
    "an array of two billion topics": frame(struct.pack(">hhihi", 3, 1, 1, -1, 0x7FFFFFFF)),
    "a body that ends too soon": frame(struct.pack(">hhih", 12, 3, 1, -1) + b"\x00\x05abc"),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_malformed_bytes_close_only_their_connection(bootstrap, client, bad):
    with RawClient(bootstrap) as stranger:
        stranger.send_bytes(bad)
        assert stranger.is_closed_by_peer()

    assert client.metadata("still-here").error_code == 0


def test_incomplete_frame_does_not_block_the_broker(bootstrap, client):
    with RawClient(bootstrap) as stranger:
        stranger.send_bytes(struct.pack(">i", 1000) + b"\x00\x03")
        assert client.metadata("still-here").error_code == 0


def test_newer_api_versions_request_gets_the_supported_versions(client):
    client.send_bytes(struct.pack(">ihhih", 10, 18, 99, 5, -1))
    client._requests.append((5, ApiVersionsRequest(), 0))

    answer = client.take()

    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(r.api_key, r.min_version, r.max_version) for r in answer.api_keys] == [(18, 0, 5)]


def test_batch_with_wrong_crc_is_rejected(client):
    client.create("crc")
    broken = bytearray(build_batch([NewRecord(None, b"value")]))
    broken[-3] ^= 0xFF

    assert client.produce("crc", batch=bytes(broken)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert client.read_all("crc") == []


def test_commit_from_a_stale_generation_is_rejected(client):
    client.create("stale")
    member = RawMember(client, "stale", ["stale"])
    member.join()
    member.sync({member.member_id: {"stale": [0]}})

    assert member.commit("stale", 0, 5, generation=member.generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert member.commit("stale", 0, 5) == 0


# ---------------------------------------------------------------- memory, on a process of its own


def test_memory_is_bounded_for_hostile_connections():
    with Served("--quiet") as served:
        with RawClient(served.bootstrap) as client:
            client.create("big")
            client.produce("big", bytes(MIB - 1000))
        before = served.memory_bytes()
        strangers = [RawClient(served.bootstrap) for _ in range(40)]
        for stranger in strangers:  # each promises 100 MB and sends little
            stranger.send_bytes(struct.pack(">i", 100_000_000) + b"x" * 1000)
        partition = FetchPartition(partition=0, partition_max_bytes=64 * MIB)
        request = FetchRequest(
            max_bytes=64 * MIB, session_epoch=-1, topics=[FetchTopic(topic="big", partitions=[partition])]
        )
        greedy = [RawClient(served.bootstrap) for _ in range(5)]
        for one in greedy:  # each asks for a thousand megabytes and reads nothing
            one.send_bytes(b"".join(one.request_bytes(request, 12) for _ in range(1000)))
        with RawClient(served.bootstrap) as client:
            for _ in range(20):
                assert client.metadata("big").error_code == 0
            grown = served.memory_bytes() - before

        assert grown < 64 * MIB
        assert len(greedy[0].take().responses[0].partitions[0].records) > MIB - 1000
        for one in [*strangers, *greedy]:
            one.close()


def test_last_file_handles_are_reserved_for_logs(tmp_path):
    limit = 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        served = Served(data=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with served, RawClient(served.bootstrap) as honest:
        honest.create("a")
        host, _, port = served.bootstrap.rpartition(":")
        strangers = [socket.create_connection((host, int(port)), timeout=20) for _ in range(150)]

        assert strangers[-1].recv(1) == b"", "the broker closed it"
        assert honest.produce("a", b"v").error_code == 0
        for stranger in strangers:
            stranger.close()
        served.stop()
        lines = [line for line in served.log.splitlines() if "the last file handles are reserved for logs" in line]
        assert 1 <= len(lines) <= 2
        assert "WARNING" in lines[0]


def test_slow_readers_and_incomplete_requests_use_little_memory(tmp_path):
    value = b"v" * 900_000
    request_partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 * MIB)
    fetch = FetchRequest(
        max_bytes=50 * MIB, session_epoch=-1, topics=[FetchTopic(topic="large", partitions=[request_partition])]
    )
    with Served(data=tmp_path) as served, RawClient(served.bootstrap) as honest, ExitStack() as open_peers:

        def connect() -> RawClient:
            return open_peers.enter_context(RawClient(served.bootstrap))

        honest.create("large")
        for _ in range(58):
            honest.produce("large", value)
        silent = [connect() for _ in range(40)]
        for peer in silent:
            for _ in range(3):
                peer.send(fetch, 12)
        assert honest.produce("large", value).error_code == 0
        (partition,) = silent[-1].take().responses[0].partitions
        assert len(partition.records) > 49 * 1000 * 1000, "it reads after all, and has its answer whole"
        for peer in [connect() for _ in range(20)]:
            peer.socket.settimeout(0.2)
            peer.send_bytes(struct.pack(">i", 100 * 1000 * 1000))
            with suppress(TimeoutError):  # the broker may not read
                peer.send_bytes(bytes(16 * MIB))
        assert honest.produce("large", value).error_code == 0

        assert served.most_memory_bytes() < 200 * MIB
