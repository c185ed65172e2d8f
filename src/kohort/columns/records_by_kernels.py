"""Record objects by kernels: a kernel finds the keys and values, and msgspec creates all bytes objects at once.

Slicing each key and value costs four times as much as creating the record. So a kernel writes the keys or values as a
MessagePack array, and msgspec's decoder creates all bytes objects in one call (ADR 9). Needs numba.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from itertools import repeat
from typing import Any, Final

import msgspec
import numpy as np

from kohort.columns import kernels
from kohort.columns.batches import USUAL, OffsetRange, ReadOptions, raise_first
from kohort.columns.native.jit import kernel
from kohort.columns.native.primitives import copy, load64, part, store8
from kohort.columns.plain import PROBLEMS, BrokenRecord, parse_headers
from kohort.columns.section_tables import CHUNK_BYTES, SectionTable, section_tables
from kohort.errors import CorruptRecord
from kohort.model import Header, Record
from kohort.wire.codec import Buffer

NIL, BIN8, BIN32, ARRAY32 = 0xC0, 0xC4, 0xC6, 0xDD
"""First bytes in MessagePack of null, byte strings up to 255 bytes, longer ones, and arrays."""
BIN8_MOST = 255
ARRAY_HEAD, BLOB_HEAD = 5, 5
ROOM: Final = 1 << 16
"""Size in bytes of the MessagePack buffer, small enough for the processor's cache; larger for a larger byte string."""


@part
def store_count(address: int, value: int) -> None:
    store8(address, value >> 24)
    store8(address + 1, value >> 16)
    store8(address + 2, value >> 8)
    store8(address + 3, value)


@kernel
def pack(places: int, lengths: int, rows: int, out: int, room: int) -> int:
    """Write a MessagePack array of the first byte strings that fit ``room`` bytes; return its size. Length -1: null."""
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
    """Return the byte strings at ``places`` with ``lengths`` (arrays of int64, not empty; length -1: null)."""
    rows, longest = len(places), max(int(lengths.max()), 0)
    least = ARRAY_HEAD + BLOB_HEAD + longest
    scratch = np.empty(max(min(ROOM, ARRAY_HEAD + rows * (BLOB_HEAD + longest)), least), np.uint8)
    out, to, at, size_at = scratch.data, scratch.ctypes.data, places.ctypes.data, lengths.ctypes.data
    found: list[bytes | None] = []
    while (done := len(found)) < rows:
        size = pack(at + 8 * done, size_at + 8 * done, rows - done, to, len(scratch))
        found += _unpack(out[:size])
    return found


def located_records(buf: Buffer, span: OffsetRange, options: ReadOptions = USUAL) -> list[Record]:
    """Return the result of ``records.records_of``. Raises CorruptRecord."""
    out: list[Record] = []
    try:
        for table in section_tables(buf, span, options, CHUNK_BYTES):
            out += table_records(table)
    except CorruptRecord as error:
        raise_first(error, span, lambda before: located_records(buf, before, options))
    return out


def table_records(table: SectionTable) -> list[Record]:
    noted = np.empty((kernels.ROOM, table.room), np.int64)
    first = noted.ctypes.data
    rows = table.walked({array: first + 8 * table.room * array for array in range(kernels.ROOM)})[kernels.ROOM]
    if rows == 0:
        return []
    noted = noted[:, :rows]
    records = map(
        Record,
        repeat(table.span.topic),
        repeat(table.span.partition),
        noted[kernels.OFFSETS].tolist(),
        noted[kernels.TIMES].tolist(),
        byte_strings_at(noted[kernels.KEY_AT], noted[kernels.KEY_LENGTH]),
        byte_strings_at(noted[kernels.VALUE_AT], noted[kernels.VALUE_LENGTH]),
        row_headers(table, noted),
        of_batches(table, kernels.TIME_TYPE),
        of_batches(table, kernels.LEADER_EPOCH),
    )
    return list(records)


def of_batches(table: SectionTable, field: int) -> Iterable[int]:
    """Return a field of the section table for each record of its batch."""
    values = table.rows[:, field]
    first = int(values[0])
    if (values == first).all():
        return repeat(first)
    each: list[int] = np.repeat(values, table.rows[:, kernels.ROWS]).tolist()
    return each


def row_headers(table: SectionTable, noted: Any) -> Iterable[tuple[Header, ...]]:
    """Return the headers of each record, decoded only if present."""
    places, ends = noted[kernels.HEADERS_AT], noted[kernels.HEADERS_END]
    rows = np.flatnonzero(places)
    if not len(rows):
        return repeat(())
    headers: list[tuple[Header, ...]] = [()] * len(places)
    for row, at, end in zip(rows.tolist(), places[rows].tolist(), ends[rows].tolist(), strict=True):
        try:
            headers[row] = parse_headers(ctypes.string_at(at, end - at))
        except BrokenRecord as broken:
            raise table.corrupt_row(PROBLEMS[broken.problem], row) from None
    return headers
