"""Frames from a byte stream in any pieces, and reusable buffers."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from kohort.errors import ProtocolError
from kohort.wire.buffers import Buffers, is_free
from kohort.wire.frames import FrameReader


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 1000])
def test_frames_are_complete_for_any_chunking(step: int) -> None:
    bodies = [b"first", b"", b"a longer third frame", b"x"]
    stream = framed(*bodies)
    reader = FrameReader(max_bytes=100)

    out = [f for at in range(0, len(stream), step) for f in reader.feed(stream[at : at + step])]

    assert out == bodies
    assert reader.pending_bytes == 0


def test_large_frame_is_assembled_from_pieces() -> None:
    body = bytes(range(256)) * 200
    stream = framed(body, b"next")
    reader = FrameReader(max_bytes=1 << 20)
    assert reader.feed(stream[:20_000]) == []
    assert reader.pending_bytes == 20_000 - 4
    assert reader.feed(stream[20_000:20_010]) == []
    assert reader.feed(stream[20_010:40_000]) == []
    assert reader.feed(stream[40_000:]) == [body, b"next"]


def test_negative_frame_length_is_rejected() -> None:
    with pytest.raises(ProtocolError, match="a frame of -1 bytes"):
        FrameReader(max_bytes=100).feed(b"\xff\xff\xff\xff")


def test_other_protocol_is_rejected_at_first_four_bytes() -> None:
    with pytest.raises(ProtocolError, match="a frame of 1195725856 bytes, more than the 104857600 accepted"):
        FrameReader(max_bytes=104_857_600).feed(b"GET / HTTP/1.1\r\n")


def test_frame_above_limit_is_rejected_at_its_length() -> None:
    reader = FrameReader(max_bytes=100)
    assert reader.feed(struct.pack(">i", 101)[:3]) == []
    with pytest.raises(ProtocolError, match="a frame of 101 bytes"):
        reader.feed(struct.pack(">i", 101)[3:])


def test_frame_length_reserves_no_memory() -> None:
    reader = FrameReader(max_bytes=1 << 30)
    tracemalloc.start()
    try:
        reader.feed(struct.pack(">i", 1 << 30) + b"one")
        for _ in range(1000):
            reader.feed(b"x")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reader.pending_bytes == 1003
    assert peak < 20_000


def test_kept_buffers_are_limited_and_used_ones_unchanged():
    buffers = Buffers(48 << 20)
    taken = []
    for n in range(8):
        view = buffers.take(10 << 20)
        view[:1] = bytes([n])
        taken.append(view)
        assert buffers.kept_bytes <= 48 << 20
    assert [view[0] for view in taken] == list(range(8))


def test_is_free_does_not_change_the_buffer():
    buffer = bytearray(b"abc")
    view = memoryview(buffer)
    assert not is_free(buffer)
    view.release()
    assert is_free(buffer)
    assert buffer == b"abc"


def test_buffer_is_reused_after_its_last_view():
    buffers = Buffers(8 << 20)
    view = buffers.take(1_000_000)
    buffer, slice_of_it = view.obj, view[10:20]
    view.release()

    other = buffers.take(1_000_000)
    assert other.obj is not buffer

    slice_of_it.release()
    assert buffers.take(1_000_000).obj is buffer
