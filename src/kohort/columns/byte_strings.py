"""Many byte strings at once, as Python objects.

To slice each out costs four times as much as to make the object. So a kernel writes them one behind the other as an
array of MessagePack, and msgspec's decoder makes all of the objects in one call (ADR 9).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np

from kohort.columns.native.jit import kernel
from kohort.columns.native.primitives import copy, load64, part, store8

NIL, BIN8, BIN32, ARRAY32 = 0xC0, 0xC4, 0xC6, 0xDD
"""What a null, a byte string of up to 255 bytes, a longer one, and an array begin with in MessagePack."""
BIN8_MOST = 255
ARRAY_HEAD, BLOB_HEAD = 5, 5
ROOM: Final = 1 << 16
"""So much is written at a time, as long as no single one is larger: it is still in the processor's cache when it is
read."""


@part
def store_count(address: int, value: int) -> None:
    """Store a big-endian number of 32 bits."""
    store8(address, value >> 24)
    store8(address + 1, value >> 16)
    store8(address + 2, value >> 8)
    store8(address + 3, value)


@kernel
def pack(places: int, lengths: int, rows: int, out: int, room: int) -> int:
    """Write an array of as many byte strings as there is room for, of up to ``rows``; a length of -1 stands for null.
    How many bytes."""
    at, end, row = out + ARRAY_HEAD, out + room, 0
    while row < rows:
        length = load64(lengths + 8 * row)
        if at + BLOB_HEAD + length > end:
            break
        if length < 0:
            store8(at, NIL)
            at += 1
        else:
            if length <= BIN8_MOST:
                store8(at, BIN8)
                store8(at + 1, length)
                at += 2
            else:
                store8(at, BIN32)
                store_count(at + 1, length)
                at += BLOB_HEAD
            copy(at, load64(places + 8 * row), length)
            at += length
        row += 1
    store8(out, ARRAY32)
    store_count(out + 1, row)
    return at - out


_unpack: Final = msgspec.msgpack.Decoder(list[bytes | None]).decode


def byte_strings_at(places: Any, lengths: Any) -> list[bytes | None]:
    """Return the byte strings at these addresses, of these lengths (arrays of int64, at least one entry; -1: null)."""
    rows, longest = len(places), max(int(lengths.max()), 0)
    least = ARRAY_HEAD + BLOB_HEAD + longest
    scratch = np.empty(max(min(ROOM, ARRAY_HEAD + rows * (BLOB_HEAD + longest)), least), np.uint8)
    out, to, at, size_at = scratch.data, scratch.ctypes.data, places.ctypes.data, lengths.ctypes.data
    found: list[bytes | None] = []
    while (done := len(found)) < rows:
        size = pack(at + 8 * done, size_at + 8 * done, rows - done, to, len(scratch))
        found += _unpack(out[:size])
    return found
