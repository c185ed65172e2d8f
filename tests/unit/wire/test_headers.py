"""Headers of requests and responses, in both forms."""

from __future__ import annotations

import struct

import pytest

from kohort.errors import ProtocolError, UnsupportedVersion
from kohort.wire.codec import JOIN_LIMIT, decode, encode_bytes
from kohort.wire.headers import (
    RequestHeader,
    build_request,
    build_response,
    correlation_of,
    parse_response,
)
from kohort.wire.messages.api_versions import ApiVersionsResponse
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kohort.wire.messages.group_classic import HeartbeatRequest, HeartbeatResponse
from kohort_lab.machines.request_headers import parse_request_header


def unframed(buffers: list[bytes | bytearray | memoryview]) -> bytes:
    whole = b"".join(buffers)
    assert struct.unpack_from(">i", whole)[0] == len(whole) - 4
    return whole[4:]


@pytest.mark.parametrize("version", [0, 3, 4])
@pytest.mark.parametrize("client_id", [None, "", "kohort", "größe"])
def test_request_header_round_trips(version: int, client_id: str | None) -> None:
    header = RequestHeader(12, version, -7, client_id)
    request = HeartbeatRequest(group_id="g", generation_id=3)

    body = unframed(build_request(header, request))

    read, start = parse_request_header(body)
    assert read == header
    assert decode(HeartbeatRequest, version, body, start) == (request, len(body))


def test_client_id_is_never_compact() -> None:
    body = unframed(build_request(RequestHeader(12, 4, 1, "me"), HeartbeatRequest()))
    assert body.startswith(b"\x00\x0c\x00\x04\x00\x00\x00\x01\x00\x02me\x00")


def test_unknown_header_tags_are_skipped() -> None:
    body = b"\x00\x0c\x00\x04\x00\x00\x00\x01\xff\xff" + b"\x01\x05\x02ab" + encode_bytes(HeartbeatRequest(), 4)
    assert parse_request_header(body)[1] == 15


def test_apiversions_response_has_short_header_at_every_version() -> None:
    answer = ApiVersionsResponse(error_code=35)
    for version in range(5):
        body = unframed(build_response(9, answer, version))
        assert body == b"\x00\x00\x00\x09" + encode_bytes(answer, version)
        assert parse_response(body, ApiVersionsResponse, version) == (9, answer)


def test_flexible_responses_have_header_tags() -> None:
    short = unframed(build_response(9, HeartbeatResponse(), 3))
    long = unframed(build_response(9, HeartbeatResponse(), 4))
    assert short == b"\x00\x00\x00\x09" + encode_bytes(HeartbeatResponse(), 3)
    assert long == b"\x00\x00\x00\x09\x00" + encode_bytes(HeartbeatResponse(), 4)
    assert parse_response(long, HeartbeatResponse, 4) == (9, HeartbeatResponse())
    assert correlation_of(long) == 9


def test_header_of_unknown_version_is_parsed() -> None:
    body = struct.pack(">hhih", 18, 99, 1, -1) + b"\x00" + b"whatever version 99 may be"
    assert parse_request_header(body) == (RequestHeader(18, 99, 1, None), 11)


def test_unknown_api_key_raises_unsupported_version() -> None:
    with pytest.raises(UnsupportedVersion, match=r"unknown API key 999 \(version 1, client id 'me'\)"):
        parse_request_header(struct.pack(">hhih", 999, 1, 1, 2) + b"me")


@pytest.mark.parametrize("cut", range(14))
def test_truncated_request_header_is_rejected(cut: int) -> None:
    body = unframed(build_request(RequestHeader(12, 4, 1, "mine"), HeartbeatRequest()))
    with pytest.raises(ProtocolError, match="RequestHeader"):
        parse_request_header(body[:cut])


@pytest.mark.parametrize(
    ("tail", "problem"),
    [
        (struct.pack(">h", -2), "a length of -2"),
        (struct.pack(">h", 500) + b"ab", "a length of 500 with 2 bytes left"),
        (struct.pack(">h", 1) + b"\xff", "utf-8"),
    ],
)
def test_malformed_client_id_is_rejected(tail: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem) as raised:
        parse_request_header(struct.pack(">hhi", 12, 0, 1) + tail)
    assert raised.value.path == "RequestHeader.client_id"


@pytest.mark.parametrize("tags", [b"\x01\x00\x7f", b"\xff\xff\xff\xff\x0f", b"\x01\x00\xff\xff\xff\xff\x1f"])
def test_malformed_header_tags_are_rejected(tags: bytes) -> None:
    with pytest.raises(ProtocolError) as raised:
        parse_request_header(struct.pack(">hhih", 12, 4, 1, -1) + tags)
    assert raised.value.path == "RequestHeader.tags"


def test_response_with_extra_bytes_is_rejected() -> None:
    body = unframed(build_response(9, HeartbeatResponse(), 3)) + b"?"
    with pytest.raises(ProtocolError, match="1 bytes beyond the end of version 3"):
        parse_response(body, HeartbeatResponse, 3)


def test_response_without_correlation_id_is_rejected() -> None:
    with pytest.raises(ProtocolError, match="a response of 3 bytes"):
        correlation_of(b"abc")


def test_framed_fetch_response_has_uncopied_batches() -> None:
    batches = [memoryview(bytes(JOIN_LIMIT * 2)), memoryview(bytes(JOIN_LIMIT * 3))]
    response = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=list(batches))])]
    )

    buffers = build_response(1, response, 12)

    assert [b for b in buffers if len(b) > JOIN_LIMIT] == batches
    assert all(any(b is batch for b in buffers) for batch in batches)
    read = parse_response(unframed(buffers), FetchResponse, 12)[1].responses[0].partitions[0].records
    assert read == b"".join(batches)
