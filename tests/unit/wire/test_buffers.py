"""Large buffers are used again, but never one that somebody looks into."""

from __future__ import annotations

from kohort.wire.buffers import Buffers, is_free


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
