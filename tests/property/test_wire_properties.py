"""The wire for all values: what is written reads back, and strangers' bytes raise one kind of error and cost little."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kohort.errors import CorruptRecord, ProtocolError
from kohort.steps import at_once
from kohort.wire.codec import decode, decode_in_steps, encode_bytes, encode_framed, encode_framed_in_steps
from kohort.wire.compression import Codec, TooLarge, compress, decompress
from kohort.wire.consumer_protocol import parse_assignment, parse_subscription
from kohort.wire.frames import FrameReader
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.record_batch import NewRecord, build_batch, check_crc, parse_batch_header, read_batch, split_batches
from kohort.wire.schema import Message
from kohort.wire.varints import read_varint, varint_bytes
from kohort_lab.machines.request_headers import parse_request_header
from support.wire_values import every_version, messages

MANY = settings(max_examples=150)
FEWER = settings(MANY, max_examples=60)

CASES = st.sampled_from(every_version())
CODECS = st.sampled_from(list(Codec))
PER_BYTE = 200
"""Bytes of Python objects that one byte of a body may become: a struct of three bytes is an object and two lists."""
AT_LEAST = 40_000
"""Cost of any rejected body: the error, its traceback, its message."""

RECORDS = st.lists(
    st.builds(
        NewRecord,
        key=st.none() | st.binary(max_size=50),
        value=st.none() | st.binary(max_size=300),
        headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
        timestamp_ms=st.integers(0, 2**62),
    ),
    min_size=1,
    max_size=10,
)


def peak_of(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def swallow(call: Callable[[], object], *allowed: type[Exception]) -> None:
    """Run ``call``; ignore the allowed errors."""
    with suppress(*allowed):
        call()


@MANY
@given(data=st.data())
def test_every_message_round_trips_at_every_version(data: st.DataObject) -> None:
    message, version = data.draw(CASES)
    value = data.draw(messages(message, version))
    body = encode_bytes(value, version)
    assert decode(message, version, body) == (value, len(body))
    assert decode(message, version, b"?" + body + b"?", 1) == (value, len(body) + 1)
    assert at_once(decode_in_steps(message, version, b"?" + body, 1)) == (value, len(body) + 1)
    in_steps = at_once(encode_framed_in_steps(b"", value, version))
    assert b"".join(in_steps) == b"".join(encode_framed(b"", value, version))


@MANY
@given(case=CASES, body=st.binary(max_size=200))
@example(case=(MetadataRequest, 9), body=b"\xff\xff\xff\xff\x0f")
@example(case=(MetadataRequest, 1), body=b"\x7f\xff\xff\xff" + bytes(50))
def test_random_message_raises_only_protocol_errors_in_little_memory(
    case: tuple[type[Message], int], body: bytes
) -> None:
    message, version = case

    def read() -> None:
        swallow(lambda: decode(message, version, body), ProtocolError)
        swallow(lambda: at_once(decode_in_steps(message, version, body)), ProtocolError)

    read()  # compile the reader before the measurement
    assert peak_of(read) < AT_LEAST + PER_BYTE * len(body)


@MANY
@given(data=st.data())
def test_changed_message_raises_only_protocol_errors_in_little_memory(data: st.DataObject) -> None:
    message, version = data.draw(CASES)
    body = bytearray(encode_bytes(data.draw(messages(message, version)), version))
    for _ in range(data.draw(st.integers(1, 4))):
        if body:
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    changed = bytes(body)

    def read() -> None:
        swallow(lambda: decode(message, version, changed), ProtocolError)

    read()
    assert peak_of(read) < AT_LEAST + PER_BYTE * len(changed)


@MANY
@given(body=st.binary(max_size=100))
def test_random_headers_and_subscriptions_raise_only_protocol_errors(body: bytes) -> None:
    swallow(lambda: parse_request_header(body), ProtocolError)
    swallow(lambda: parse_subscription(body), ProtocolError)
    swallow(lambda: parse_assignment(body), ProtocolError)


@FEWER
@given(bodies=st.lists(st.binary(max_size=40), max_size=6), cuts=st.lists(st.integers(0, 300), max_size=10))
def test_frames_are_equal_for_any_pieces_of_the_stream(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    edges = sorted({0, len(stream), *(c for c in cuts if c < len(stream))})
    reader = FrameReader(max_bytes=1000)
    out = [f for a, b in pairwise(edges) for f in reader.feed(stream[a:b])]
    assert out == bodies
    assert reader.pending_bytes == 0


@MANY
@given(value=st.integers(-(2**63), 2**63 - 1))
def test_varint_round_trips(value: int) -> None:
    written = varint_bytes(value)
    assert read_varint(b"?" + written + b"?", 1) == (value, 1 + len(written))


@FEWER
@given(records=RECORDS, codec=CODECS, base_offset=st.integers(0, 2**60))
def test_batch_round_trips(records: list[NewRecord], codec: Codec, base_offset: int) -> None:
    batch = build_batch(records, codec=codec, base_offset=base_offset)
    (found,) = split_batches(batch + batch[:-1])
    check_crc(batch, *found)
    assert [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in read_batch(batch)] == [
        (base_offset + i, r.timestamp_ms, r.key, r.value, list(r.headers)) for i, r in enumerate(records)
    ]


@MANY
@given(records=RECORDS, codec=CODECS, data=st.data())
def test_changed_batch_raises_only_corrupt_record_in_little_memory(
    records: list[NewRecord], codec: Codec, data: st.DataObject
) -> None:
    batch = bytearray(build_batch(records, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    room = 1 << 16

    def read() -> None:
        swallow(lambda: list(split_batches(batch)), CorruptRecord)
        swallow(lambda: check_crc(batch, 0, parse_batch_header(batch)), CorruptRecord)
        swallow(lambda: read_batch(batch, max_bytes=room), CorruptRecord)

    read()
    assert peak_of(read) < AT_LEAST + 2 * room + PER_BYTE * len(batch)


@FEWER
@given(codec=CODECS, data=st.binary(max_size=2000))
def test_compressed_bytes_round_trip_up_to_the_size_limit(codec: Codec, data: bytes) -> None:
    blob = compress(codec, data)
    assert decompress(codec, blob, len(data)) == data
    if data:
        with pytest.raises(TooLarge):
            decompress(codec, blob, len(data) - 1)


@MANY
@given(codec=CODECS, blob=st.binary(max_size=100), magic=st.sampled_from([0, 3, 7, 11, 16]))
def test_random_compressed_bytes_raise_only_corrupt_record_in_little_memory(
    codec: Codec, blob: bytes, magic: int
) -> None:
    """Random bytes alone, and after the first bytes of a compressed text."""
    blob = compress(codec, b"head " * 10)[:magic] + blob

    def read() -> None:
        swallow(lambda: decompress(codec, blob, 1 << 16), CorruptRecord)

    read()
    assert peak_of(read) < AT_LEAST + 4 * (1 << 16)


def test_memory_of_batch_with_empty_records_is_limited_by_its_bytes() -> None:
    """A batch has the most records if all are empty; their count is checked before a list is allocated."""
    batch = build_batch([NewRecord(None, None)] * 2000)
    assert peak_of(lambda: read_batch(batch)) < AT_LEAST + PER_BYTE * len(batch)
