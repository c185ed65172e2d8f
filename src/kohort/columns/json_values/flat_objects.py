"""Flat JSON objects to columns in one pass of a kernel, which leaves any row it is not sure of to the object reader.

The kernel takes text without escapes, numbers, true, false and null, in the types of the columns. Times and decimals
are its text and numbers, converted in blocks. A nested or escaped value, a duplicate field, a value of another type and
malformed JSON are left, so a row has the same outcome either way.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_type

from kohort.columns.conversions.blocks import plain_values
from kohort.columns.json_values.walk import ABSENT, BOOLEAN, COLUMN_FIELDS, INTEGER, NULL, NUMBER, TEXT, walk
from kohort.columns.kernels import gather

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
