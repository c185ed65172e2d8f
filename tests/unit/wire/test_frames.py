"""A stream of bytes cut into frames, however it arrives."""

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
def test_frames_come_out_whole_whatever_the_pieces(step: int) -> None:
    bodies = [b"first", b"", b"a longer third frame", b"x"]
    stream = framed(*bodies)
    reader = FrameReader(max_bytes=100)

    out = [f for at in range(0, len(stream), step) for f in reader.feed(stream[at : at + step])]

    assert out == bodies
    assert reader.pending_bytes == 0


def test_large_pieces_of_a_large_frame_are_put_together() -> None:
    body = bytes(range(256)) * 200
    stream = framed(body, b"next")
    reader = FrameReader(max_bytes=1 << 20)
    assert reader.feed(stream[:20_000]) == []
    assert reader.pending_bytes == 20_000 - 4
    assert reader.feed(stream[20_000:20_010]) == []
    assert reader.feed(stream[20_010:40_000]) == []
    assert reader.feed(stream[40_000:]) == [body, b"next"]


def test_a_length_below_zero_is_refused_and_named() -> None:
    with pytest.raises(ProtocolError, match="a frame of -1 bytes"):
        FrameReader(max_bytes=100).feed(b"\xff\xff\xff\xff")


def test_what_is_no_kafka_client_is_refused_at_its_first_four_bytes() -> None:
    with pytest.raises(ProtocolError, match="a frame of 1195725856 bytes, more than the 104857600 accepted"):
        FrameReader(max_bytes=104_857_600).feed(b"GET / HTTP/1.1\r\n")


def test_a_length_above_the_limit_is_refused_before_its_bytes_arrive() -> None:
    reader = FrameReader(max_bytes=100)
    assert reader.feed(struct.pack(">i", 101)[:3]) == []
    with pytest.raises(ProtocolError, match="a frame of 101 bytes"):
        reader.feed(struct.pack(">i", 101)[3:])


def test_a_promise_of_many_bytes_costs_nothing_until_they_come() -> None:
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


def test_no_more_is_kept_than_the_bound_and_what_is_in_use_stays_as_it_is():
    buffers = Buffers(48 << 20)
    taken = []
    for n in range(8):
        view = buffers.take(10 << 20)
        view[:1] = bytes([n])
        taken.append(view)
        assert buffers.kept_bytes <= 48 << 20
    assert [view[0] for view in taken] == list(range(8))


def test_whether_a_buffer_is_free_is_found_without_changing_it():
    buffer = bytearray(b"abc")
    view = memoryview(buffer)
    assert not is_free(buffer)
    view.release()
    assert is_free(buffer)
    assert buffer == b"abc"


def test_a_buffer_is_taken_again_only_when_the_last_view_of_it_is_gone():
    buffers = Buffers(8 << 20)
    view = buffers.take(1_000_000)
    buffer, slice_of_it = view.obj, view[10:20]
    view.release()

    other = buffers.take(1_000_000)
    assert other.obj is not buffer

    slice_of_it.release()
    assert buffers.take(1_000_000).obj is buffer
