"""Buffers of a connection for large and small response frames."""

from __future__ import annotations

import struct

import pytest

from kohort.client.requests.connections import IN_PLACE_FROM, IN_PLACE_MOST, SCRATCH_BYTES, FrameBuffers
from kohort.errors import ProtocolError
from kohort.wire.codec import Buffer


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def pour(buffers: FrameBuffers, data: bytes, most: int = 1 << 30) -> list[Buffer]:
    frames: list[Buffer] = []
    while data:
        room = buffers.room()
        count = min(len(room), len(data), most)
        room[:count] = data[:count]
        frames += buffers.arrived(count)
        data = data[count:]
    return frames


def pattern(size: int, seed: int = 1) -> bytes:
    return bytes((n * seed) & 0xFF for n in range(256)) * (size // 256) + bytes(size % 256)


@pytest.mark.parametrize("most", [3, 1000, 70_000, 1 << 30])
def test_response_frames_of_any_size_are_complete_and_in_order(most):
    bodies = [b"small", pattern(300_000 if most > 3 else 200), b"", pattern(IN_PLACE_FROM, 3), b"x" * 5000, b"last"]
    if most == 3:
        bodies.pop(3)
    buffers = FrameBuffers(1 << 30)

    frames = pour(buffers, b"".join(map(framed, bodies)), most)

    assert [bytes(f) for f in frames] == bodies


def test_large_response_frame_is_read_into_its_own_buffer():
    buffers, body = FrameBuffers(1 << 30), pattern(2_500_000)
    data = framed(body)
    assert pour(buffers, data[:SCRATCH_BYTES]) == []
    assert len(buffers.room()) == len(data) - SCRATCH_BYTES, "the buffer ends with the frame"

    (frame,) = pour(buffers, data[SCRATCH_BYTES:])

    assert isinstance(frame, memoryview)
    assert isinstance(frame.obj, bytearray)
    assert frame.obj[: len(frame)] == body
    assert len(buffers.room()) == SCRATCH_BYTES


def test_frame_buffer_is_reused_after_last_view_is_deleted():
    buffers = FrameBuffers(1 << 30)
    (first,) = pour(buffers, framed(pattern(900_000)))
    slice_of_first = memoryview(first)[10:20]
    kept = bytes(slice_of_first)
    buffer = first.obj

    (second,) = pour(buffers, framed(pattern(900_000, 7)))
    assert second.obj is not buffer, "a view of the first frame still exists"
    assert bytes(slice_of_first) == kept

    del first
    (third,) = pour(buffers, framed(pattern(900_000, 9)))
    assert third.obj is not buffer
    slice_of_first.release()
    (fourth,) = pour(buffers, framed(pattern(500_000, 11)))
    assert fourth.obj is buffer
    assert bytes(fourth) == pattern(500_000, 11)


def test_too_large_frame_length_reserves_no_buffer():
    buffers = FrameBuffers(1 << 30)
    assert pour(buffers, struct.pack(">i", IN_PLACE_MOST + 1) + b"begun") == []
    assert len(buffers.room()) == SCRATCH_BYTES


def test_invalid_frame_length_raises_protocol_error():
    with pytest.raises(ProtocolError, match="more than the 100 accepted"):
        pour(FrameBuffers(100), framed(bytes(101)))
