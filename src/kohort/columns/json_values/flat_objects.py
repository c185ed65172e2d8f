"""Flat JSON objects to columns in one pass of a kernel, which leaves any row it is not sure of to the object reader.

The kernel takes text without escapes, numbers, true, false and null, in the types of the columns. Times and decimals
are its text and numbers, converted in blocks. A nested or escaped value, a duplicate field, a value of another type and
malformed JSON are left, so a row has the same outcome either way. Nothing is read past the end of a row.
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

# What is wanted: a row of int64 with the number of columns, and one for each, with the address and the length of its
# name.
NAME_AT, NAME_LENGTH, KIND = range(3)
COLUMN_FIELDS = 3
INTEGER, NUMBER, BOOLEAN, TEXT = range(1, 5)
# Instead of a length: no such field, or the field is null. An integer, and a boolean, has its value for a place.
ABSENT, NULL = -2, -1

SPACE, TAB, NEWLINE, RETURN = 0x20, 0x09, 0x0A, 0x0D
QUOTE, BACKSLASH, COLON, COMMA, OPEN, CLOSE = 0x22, 0x5C, 0x3A, 0x2C, 0x7B, 0x7D
MINUS, PLUS, POINT, ZERO, NINE, SMALL_E, LARGE_E = 0x2D, 0x2B, 0x2E, 0x30, 0x39, 0x65, 0x45
SMALL_F, SMALL_N, SMALL_T = 0x66, 0x6E, 0x74
# The bytes of these words, the first one lowest.
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
    """Return where the closing quote is; 0 where there is none, or an escape or a control character before it."""
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
    """Return where the whole part of a number ends; 0 where there is none, or one that begins with a needless zero."""
    first = at + 1 if at < end and load8(at) == MINUS else at
    after = digits_end(first, end)
    if after == first or (after - first > 1 and load8(first) == ZERO):
        return 0
    return after


@part
def number_end(start: int, end: int) -> int:
    """Return where a number ends; 0 for what is not the number of JSON's grammar, or may be too large for a double."""
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
    """Return the value of the digits of a whole number of at most 18 digits."""
    negative = load8(at) == MINUS
    value = 0
    for place in range(at + 1 if negative else at, after):
        value = value * 10 + (load8(place) - ZERO)
    return -value if negative else value


@part
def is_word(at: int, end: int, word: int) -> bool:
    """Tell whether the four bytes here are those of ``word``."""
    if end - at < 4:
        return False
    found: bool = load8(at) | load8(at + 1) << 8 | load8(at + 2) << 16 | load8(at + 3) << 24 == word
    return found


@part
def column_of(columns: int, guess: int, name: int, length: int) -> int:
    """Return which column has this name, the guessed one looked at first; -1: none."""
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
    """Note one value for a column of this kind (0: not wanted). Where it ends; 0 for what is not sure."""
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
def is_sure(at: int, end: int, columns: int, cells: int, step: int) -> bool:
    """Walk one object, and tell whether all of it is plainly sound. ``cells``: where its row is in the first column;
    ``step``: to the next one."""
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
def walk(starts: int, data: int, rows: int, columns: int, cells: int, sure: int) -> int:
    """Walk ``rows`` objects between the 32-bit ``starts`` in ``data``, and return how many are sure. ``cells``: first
    ``rows`` places for each column, then as many lengths, ABSENT beforehand; ``sure``: a byte for each row, 1 where it
    is."""
    found = 0
    for row in range(rows):
        both = load64(starts + 4 * row)
        begin, end = both & 0xFFFF_FFFF, (both >> 32) & 0xFFFF_FFFF
        if is_sure(data + begin, data + end, columns, cells + 8 * row, 8 * rows):
            store8(sure + row, 1)
            found += 1
    return found


SAMPLE: Final = 64
"""Rows that are looked at first: where most are not flat, the rest is not walked."""
INT32_MAX: Final = (1 << 31) - 1


class FlatColumns(NamedTuple):
    """The columns, null in the rows that are left to the object reader, and the numbers of these rows."""

    columns: list[pa.Array]
    left: Any

    def with_rest(self, rest: list[pa.Array]) -> list[pa.Array]:
        """Return the columns with the rows that were left, in their order."""
        if not len(self.left):
            return self.columns
        rows = len(self.columns[0])
        places = np.arange(rows)
        places[self.left] = rows + np.arange(len(self.left))
        pieces = zip(self.columns, rest, strict=True)
        return [pa.concat_arrays([sure, late]).take(pa.array(places)) for sure, late in pieces]


def is_flat(schema: pa.Schema) -> bool:
    """Return whether the kernel knows the types of all columns."""
    return all(_kind(field.type) for field in schema)


def flat_columns(values: pa.Array, schema: pa.Schema, zone: tzinfo) -> FlatColumns | None:
    """Return the columns of JSON objects, given as binary; None for a type that the kernel does not know, for mostly
    nested values, and for a block with a value that Arrow refuses."""
    rows = len(values)
    if not rows or values.type != pa.binary() or not is_flat(schema):
        return None
    if rows > 2 * SAMPLE and _walked(values.slice(0, SAMPLE), schema)[0].sum() < SAMPLE // 2:
        return None
    sure, places, lengths = _walked(values, schema)
    if values.null_count:
        sure &= np.asarray(values.is_valid())
    lengths[:, ~sure] = NULL
    try:
        blocks = [_column(field, places[i], lengths[i], zone) for i, field in enumerate(schema)]
    except pa.ArrowInvalid:
        return None
    for _, left in blocks:
        sure &= ~left
    return FlatColumns([column for column, _ in blocks], np.flatnonzero(~sure))


def _walked(values: pa.Array, schema: pa.Schema) -> tuple[Any, Any, Any]:
    """Return which rows are sure; where each column's content lies (or what it is), and how long it is."""
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
    sure = np.zeros(rows, np.uint8)
    _, starts, data = values.buffers()
    walk(
        starts.address + 4 * values.offset,
        data.address if data is not None else 0,
        rows,
        columns.ctypes.data,
        cells.ctypes.data,
        sure.ctypes.data,
    )
    return sure.astype(bool), places, lengths


def _kind(kind: pa.DataType) -> int:
    """Return the kernel's number for a type; 0 for an unsupported type."""
    if is_type.is_signed_integer(kind):
        return INTEGER
    if is_type.is_float32(kind) or is_type.is_float64(kind):
        return NUMBER
    if is_type.is_boolean(kind):
        return BOOLEAN
    if is_type.is_decimal128(kind):
        return NUMBER
    return TEXT if is_type.is_string(kind) or is_type.is_timestamp(kind) or is_type.is_date32(kind) else 0


def _column(field: pa.Field, places: Any, lengths: Any, zone: tzinfo) -> tuple[pa.Array, Any]:
    """Return a column, and which rows are left. Raises pa.ArrowInvalid for a number that does not fit, and for text
    that is not UTF-8."""
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
