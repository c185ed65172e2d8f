"""Flat JSON objects to columns in one pass of a kernel; rejected rows go to slower readers.

The kernel accepts text without escapes, numbers, true, false and null, in the types of the columns. Times and decimals
are text and numbers that Arrow converts later. It rejects nested or escaped values, duplicate fields, values of another
type and malformed JSON, so a row has the same outcome in each reader. It never reads past the end of a row.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_type

from kohort.columns.conversions.blocks import plain_values
from kohort.columns.kernels import gather
from kohort.columns.native.jit import kernel
from kohort.columns.native.primitives import load8, load64, part, store8, store64

# Columns table: a row of int64 with the column count, then for each column address and length of its name, and kind.
NAME_AT, NAME_LENGTH, KIND = range(3)
COLUMN_FIELDS = 3
INTEGER, NUMBER, BOOLEAN, TEXT = range(1, 5)
# Special lengths: field missing, field null. For an integer or a boolean the position is the value itself.
ABSENT, NULL = -2, -1

SPACE, TAB, NEWLINE, RETURN = 0x20, 0x09, 0x0A, 0x0D
QUOTE, BACKSLASH, COLON, COMMA, OPEN, CLOSE = 0x22, 0x5C, 0x3A, 0x2C, 0x7B, 0x7D
MINUS, PLUS, POINT, ZERO, NINE, SMALL_E, LARGE_E = 0x2D, 0x2B, 0x2E, 0x30, 0x39, 0x65, 0x45
SMALL_F, SMALL_N, SMALL_T = 0x66, 0x6E, 0x74
# Little-endian bytes of these words.
TRUE, NULL_WORD, ALSE = 0x65757274, 0x6C6C756E, 0x65736C61
DIGITS_MOST, NUMBER_MOST, EXPONENT_MOST = 18, 200, 2
ONES, HIGHS = 0x0101_0101_0101_0101, -0x7F7F_7F7F_7F7F_7F80
SPACES, QUOTES, BACKSLASHES = 0x2020_2020_2020_2020, 0x2222_2222_2222_2222, 0x5C5C_5C5C_5C5C_5C5C


@part
def skip_space(at: int, end: int) -> int:
    while at < end:
        byte = load8(at)
        if byte != SPACE and byte != TAB and byte != NEWLINE and byte != RETURN:
            return at
        at += 1
    return at


@part
def text_end(at: int, end: int) -> int:
    """Return the position of the closing quote; 0 if an escape or a control character comes first."""
    while end - at >= 8:
        word = load64(at)
        quotes, slashes = word ^ QUOTES, word ^ BACKSLASHES
        found = ((word - SPACES) & ~word) | ((quotes - ONES) & ~quotes) | ((slashes - ONES) & ~slashes)
        if found & HIGHS != 0:
            break
        at += 8
    while at < end:
        byte = load8(at)
        if byte == QUOTE:
            return at
        if byte == BACKSLASH or byte < SPACE:
            return 0
        at += 1
    return 0


@part
def digits_end(at: int, end: int) -> int:
    while at < end:
        byte = load8(at)
        if byte < ZERO or byte > NINE:
            return at
        at += 1
    return at


@part
def whole_end(at: int, end: int) -> int:
    """Return the end of the integer part of a number; 0 if it is missing or has a leading zero."""
    first = at + 1 if at < end and load8(at) == MINUS else at
    after = digits_end(first, end)
    if after == first or (after - first > 1 and load8(first) == ZERO):
        return 0
    return after


@part
def number_end(start: int, end: int) -> int:
    """Return the end of a number; 0 if it is not a JSON number or may overflow a double."""
    at = whole_end(start, end)
    if at != 0 and at < end and load8(at) == POINT:
        after = digits_end(at + 1, end)
        at = after if after > at + 1 else 0
    if at != 0 and at < end and (load8(at) == SMALL_E or load8(at) == LARGE_E):
        at += 1
        if at < end and (load8(at) == PLUS or load8(at) == MINUS):
            at += 1
        after = digits_end(at, end)
        at = after if 0 < after - at <= EXPONENT_MOST else 0
    return at if at - start <= NUMBER_MOST else 0


@part
def whole_number(at: int, after: int) -> int:
    """Return the value of an integer of at most 18 digits."""
    negative = load8(at) == MINUS
    value = 0
    for place in range(at + 1 if negative else at, after):
        value = value * 10 + (load8(place) - ZERO)
    return -value if negative else value


@part
def is_word(at: int, end: int, word: int) -> bool:
    """Return True if the next four bytes are ``word``."""
    if end - at < 4:
        return False
    found: bool = load8(at) | load8(at + 1) << 8 | load8(at + 2) << 16 | load8(at + 3) << 24 == word
    return found


@part
def column_of(columns: int, guess: int, name: int, length: int) -> int:
    """Return the column with this name, searching from ``guess``; -1: none."""
    count = load64(columns)
    for turn in range(count):
        column = guess + turn if guess + turn < count else guess + turn - count
        entry = columns + 8 * COLUMN_FIELDS * (1 + column)
        if load64(entry + 8 * NAME_LENGTH) != length:
            continue
        known, i = load64(entry + 8 * NAME_AT), 0
        while i < length and load8(known + i) == load8(name + i):
            i += 1
        if i == length:
            return column
    return -1


@part
def take(at: int, end: int, kind: int, place: int, length: int) -> int:
    """Store one value for a column of this kind (0: skip it). Return its end; 0: rejected."""
    if at >= end:
        return 0
    byte = load8(at)
    content, size, is_kind = 0, NULL, kind == 0
    if byte == QUOTE:
        content, is_kind = at + 1, is_kind or kind == TEXT
        after = text_end(content, end)
        size = after - content
        after = after + 1 if after != 0 else 0
    elif byte == MINUS or (byte >= ZERO and byte <= NINE):
        after = number_end(at, end)
        content, size, is_kind = at, after - at, is_kind or kind == NUMBER
        if kind == INTEGER and after != 0 and whole_end(at, end) == after and after - at <= DIGITS_MOST:
            content, size, is_kind = whole_number(at, after), 0, load8(at) != MINUS or load8(at + 1) != ZERO
    elif byte == SMALL_N:
        after, is_kind = at + 4 if is_word(at, end, NULL_WORD) else 0, True
    elif byte == SMALL_T or byte == SMALL_F:  # noqa: SIM109 - for numba
        is_true = byte == SMALL_T
        is_there = is_word(at, end, TRUE) if is_true else is_word(at + 1, end, ALSE)
        after = (at + 4 if is_true else at + 5) if is_there else 0
        content, size, is_kind = int(is_true), 0, is_kind or kind == BOOLEAN
    else:
        return 0
    if after == 0 or not is_kind:
        return 0
    if kind != 0:
        store64(place, content)
        store64(length, size)
    return after


@part
def read_object(at: int, end: int, columns: int, cells: int, step: int) -> bool:
    """Read one object; return False to reject it. ``cells``: first cell of the row; ``step``: bytes between columns."""
    count = load64(columns)
    places, lengths = cells, cells + step * count
    at = skip_space(at, end)
    if at >= end or load8(at) != OPEN:
        return False
    at = skip_space(at + 1, end)
    if at < end and load8(at) == CLOSE:
        return skip_space(at + 1, end) == end
    guess = 0
    while at < end and load8(at) == QUOTE:
        stop = text_end(at + 1, end)
        if stop == 0:
            return False
        column = column_of(columns, guess, at + 1, stop - at - 1)
        at = skip_space(stop + 1, end)
        if at >= end or load8(at) != COLON:
            return False
        at = skip_space(at + 1, end)
        kind = 0
        if column >= 0:
            guess = column + 1 if column + 1 < count else 0
            kind = load64(columns + 8 * (COLUMN_FIELDS * (1 + column) + KIND))
            if load64(lengths + step * column) != ABSENT:
                return False
        at = take(at, end, kind, places + step * max(column, 0), lengths + step * max(column, 0))
        if at == 0:
            return False
        at = skip_space(at, end)
        if at < end and load8(at) == CLOSE:
            return skip_space(at + 1, end) == end
        if at >= end or load8(at) != COMMA:
            return False
        at = skip_space(at + 1, end)
    return False


@kernel
def walk(starts: int, data: int, rows: int, columns: int, cells: int, accepted: int) -> int:
    """Read ``rows`` objects between the 32-bit ``starts`` in ``data``; return the number accepted.

    ``cells``: ``rows`` positions for each column, then as many lengths, initially ABSENT. ``accepted``: one byte per
    row, 1 if accepted.
    """
    found = 0
    for row in range(rows):
        both = load64(starts + 4 * row)
        begin, end = both & 0xFFFF_FFFF, (both >> 32) & 0xFFFF_FFFF
        if read_object(data + begin, data + end, columns, cells + 8 * row, 8 * rows):
            store8(accepted + row, 1)
            found += 1
    return found


SAMPLE: Final = 64
"""Number of rows that are tested first: if most are rejected, the kernel is not used."""
INT32_MAX: Final = (1 << 31) - 1


class FlatColumns(NamedTuple):
    """Columns with null in rejected rows, and the numbers of these rows."""

    columns: list[pa.Array]
    left: Any

    def with_rest(self, rest: list[pa.Array]) -> list[pa.Array]:
        """Return the columns with the rejected rows filled from ``rest``."""
        if not len(self.left):
            return self.columns
        rows = len(self.columns[0])
        places = np.arange(rows)
        places[self.left] = rows + np.arange(len(self.left))
        pieces = zip(self.columns, rest, strict=True)
        return [pa.concat_arrays([accepted, late]).take(pa.array(places)) for accepted, late in pieces]


def is_flat(schema: pa.Schema) -> bool:
    """Return True if the kernel supports the types of all columns."""
    return all(_kind(field.type) for field in schema)


def flat_columns(values: pa.Array, schema: pa.Schema, zone: tzinfo) -> FlatColumns | None:
    """Return the columns of JSON objects in binary.

    Returns None for an unsupported type, for mostly nested values, and for a block with a value that Arrow rejects.
    """
    rows = len(values)
    if not rows or values.type != pa.binary() or not is_flat(schema):
        return None
    if rows > 2 * SAMPLE and _walked(values.slice(0, SAMPLE), schema)[0].sum() < SAMPLE // 2:
        return None
    accepted, places, lengths = _walked(values, schema)
    if values.null_count:
        accepted &= np.asarray(values.is_valid())
    lengths[:, ~accepted] = NULL
    try:
        blocks = [_column(field, places[i], lengths[i], zone) for i, field in enumerate(schema)]
    except pa.ArrowInvalid:
        return None
    for _, left in blocks:
        accepted &= ~left
    return FlatColumns([column for column, _ in blocks], np.flatnonzero(~accepted))


def _walked(values: pa.Array, schema: pa.Schema) -> tuple[Any, Any, Any]:
    """Return a mask of accepted rows, and positions and lengths of all columns."""
    rows, names = len(values), [name.encode() for name in schema.names]
    text = np.frombuffer(b"".join(names) or b"\0", np.uint8)
    columns = np.zeros((1 + len(names), COLUMN_FIELDS), np.int64)
    columns[0] = len(names)
    at = text.ctypes.data
    for i, (name, field) in enumerate(zip(names, schema, strict=True), 1):
        columns[i] = at, len(name), _kind(field.type)
        at += len(name)
    cells = np.empty((2, len(names), rows), np.int64)
    places, lengths = cells
    lengths[:] = ABSENT
    accepted = np.zeros(rows, np.uint8)
    _, starts, data = values.buffers()
    begin, at = starts.address + 4 * values.offset, data.address if data is not None else 0
    walk(begin, at, rows, columns.ctypes.data, cells.ctypes.data, accepted.ctypes.data)
    return accepted.astype(bool), places, lengths


def _kind(kind: pa.DataType) -> int:
    """Return the kernel's number for a type; 0 for an unsupported type."""
    if is_type.is_signed_integer(kind):
        return INTEGER
    if is_type.is_float32(kind) or is_type.is_float64(kind) or is_type.is_decimal128(kind):
        return NUMBER
    if is_type.is_boolean(kind):
        return BOOLEAN
    return TEXT if is_type.is_string(kind) or is_type.is_timestamp(kind) or is_type.is_date32(kind) else 0


def _column(field: pa.Field, places: Any, lengths: Any, zone: tzinfo) -> tuple[pa.Array, Any]:
    """Return a column and a mask of unconverted rows.

    Raises pa.ArrowInvalid for a number that does not fit, and for text that is not UTF-8.
    """
    kind = _kind(field.type)
    if kind in (INTEGER, BOOLEAN):
        missing = lengths < 0
        made = pa.array(places, mask=missing) if missing.any() else pa.array(places)
        return made.cast(field.type), np.zeros(len(places), bool)
    text = _text(places, lengths)
    if kind == NUMBER and is_type.is_floating(field.type):
        column = text.cast(field.type)
        return column, np.asarray(pc.fill_null(pc.is_inf(column), False))
    text.validate(full=True)
    return plain_values(text, field.type, zone)


def _text(places: Any, lengths: Any) -> pa.Array:
    rows, nulls = len(lengths), int((lengths < 0).sum())
    size = int(lengths.clip(0).sum()) if nulls else int(lengths.sum())
    if size > INT32_MAX:
        raise pa.ArrowInvalid("more text than a column can hold")
    starts, data = pa.allocate_buffer(4 * (rows + 1)), pa.allocate_buffer(size)
    bits = pa.py_buffer(np.zeros((rows + 7) // 8, np.uint8)) if nulls else None
    address = bits.address if bits is not None else 0
    column = np.array([starts.address, 0, data.address, address], np.int64)
    gather(places.ctypes.data, lengths.ctypes.data, rows, column.ctypes.data)
    return pa.Array.from_buffers(pa.string(), rows, [bits, starts, data], nulls)
