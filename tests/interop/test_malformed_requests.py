"""Requests that cannot be read, to Apache Kafka and to our broker: both end the connection, or both answer.

The limits on arrays and tagged fields are those of Kafka 4.4; our own limit, on all arrays of a request together, is
lower (docs/limits.md).
"""

from __future__ import annotations

import struct

import pytest

from support.raw.raw_client import RawClient

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.timeout(300)]
METADATA, OFFSET_FETCH, HEARTBEAT, API_VERSIONS = 3, 9, 12, 18
ELEMENTS, TAGS = 1_000_000, 10_000


def header(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 7, -1)


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def tags(count: int) -> bytes:
    """Return ``count`` unknown tagged fields without content."""
    return uvarint(count) + b"".join(uvarint(100 + n) + b"\0" for n in range(count))


def of_partitions(count: int, claimed_count: int | None = None) -> bytes:
    """The start of an OffsetFetch about ``count`` partitions of one topic."""
    numbers = struct.pack(">i", count if claimed_count is None else claimed_count) + bytes(4 * count)
    return header(OFFSET_FETCH, 2) + b"\0\1g" + struct.pack(">ih", 1, 1) + b"t" + numbers


NAMES = b"\2a\2b"
"""The client's software, as ApiVersions 3 has it."""
CLOSED = {
    "a count of two billion": header(METADATA, 1) + struct.pack(">i", 0x7FFFFFFF),
    "a count beyond the bytes that are left": header(METADATA, 1) + struct.pack(">ih", 2, 1) + b"t",
    "a compact count of two billion": header(METADATA, 9) + b"\0" + uvarint(0x7FFFFFFF) + b"\0" * 8,
    "a million elements and one": of_partitions(ELEMENTS + 1),
    "a text longer than what is left": header(METADATA, 1) + struct.pack(">ih", 1, 500) + b"abc",
    "a compact text longer than what is left": header(API_VERSIONS, 3) + b"\0" + uvarint(500) + b"abc\0",
    "a null that may not be": header(HEARTBEAT, 0) + struct.pack(">hih", -1, 1, 0),
    "ten thousand tagged fields and one": header(API_VERSIONS, 3) + b"\0" + NAMES + tags(TAGS + 1),
    "as many in the header": header(API_VERSIONS, 3) + tags(TAGS + 1) + NAMES + b"\0",
    "a tagged field longer than what is left": header(API_VERSIONS, 3) + b"\0" + NAMES + b"\1\x64\x7fabc",
    "a number of six bytes": header(API_VERSIONS, 3) + b"\0" + NAMES + b"\xff" * 6,
    "nothing where the body should be": header(METADATA, 1),
}
ANSWERED = {
    "ten thousand tagged fields": header(API_VERSIONS, 3) + b"\0" + NAMES + tags(TAGS),
    "as many in the header": header(API_VERSIONS, 3) + tags(TAGS) + NAMES + b"\0",
    "fifty thousand elements": of_partitions(50_000),
    "bytes behind the end": header(METADATA, 1) + struct.pack(">i", 0) + b"more",
}


@pytest.mark.parametrize("request_bytes", CLOSED.values(), ids=CLOSED.keys())
def test_what_cannot_be_read_ends_its_connection(either: str, request_bytes: bytes) -> None:
    with RawClient(either) as raw:
        raw.send_bytes(struct.pack(">i", len(request_bytes)) + request_bytes)
        assert raw.is_closed_by_peer()


@pytest.mark.parametrize("request_bytes", ANSWERED.values(), ids=ANSWERED.keys())
def test_what_is_within_the_limits_is_answered(either: str, request_bytes: bytes) -> None:
    with RawClient(either) as raw:
        raw.send_bytes(struct.pack(">i", len(request_bytes)) + request_bytes)
        (_, correlation_id) = struct.unpack(">ii", raw._exactly(8))
        assert correlation_id == 7
