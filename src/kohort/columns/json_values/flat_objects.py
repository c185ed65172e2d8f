"""JSON objects without anything nested to columns, in one pass, with a verdict on each row: sure, or not.

The kernel takes what is plainly sound: text without escapes, numbers, true, false and null, in the types asked for.
What is nested, escaped, said twice, of another type or not JSON at all it leaves to a reader of all of JSON, which is
the judge of it; so a row has the same outcome whichever way it goes.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kohort.columns.json_values.walk import ABSENT, BOOLEAN, COLUMN_FIELDS, INTEGER, NULL, NUMBER, TEXT, walk
from kohort.columns.kernels import gather

SAMPLE: Final = 64
"""Rows that are looked at first: where most are not flat, the rest is not walked."""
INT32_MAX: Final = (1 << 31) - 1


class FlatColumns(NamedTuple):
    """The columns, with null in the rows that are left to a judge, and which rows these are."""

    columns: list[pa.Array]
    left: Any

    def with_judged(self, judged: list[pa.Array]) -> list[pa.Array]:
        """Return the columns, with what the judge says of the rows that were left, in their order."""
        if not len(self.left):
            return self.columns
        rows = len(self.columns[0])
        places = np.arange(rows)
        places[self.left] = rows + np.arange(len(self.left))
        pieces = zip(self.columns, judged, strict=True)
        return [pa.concat_arrays([sure, late]).take(pa.array(places)) for sure, late in pieces]


def is_flat(schema: pa.Schema) -> bool:
    """Tell whether all columns are of types that the kernel knows."""
    return all(_kind(field.type) for field in schema)


def flat_columns(values: pa.Array, schema: pa.Schema) -> FlatColumns | None:
    """Return the columns of JSON objects, given as binary; None where a column is none for the kernel, where this is no
    gain, or where Arrow refuses a value."""
    rows = len(values)
    if not rows or values.type != pa.binary() or not is_flat(schema):
        return None
    if rows > 2 * SAMPLE and _walked(values.slice(0, SAMPLE), schema)[0].sum() < SAMPLE // 2:
        return None
    sure, places, lengths = _walked(values, schema)
    if values.null_count:
        sure &= np.asarray(values.is_valid())
    left = np.flatnonzero(~sure)
    if len(left):
        lengths[:, left] = NULL
    try:
        columns = [_column(field, places[i], lengths[i]) for i, field in enumerate(schema)]
    except pa.ArrowInvalid:
        return None
    return FlatColumns(columns, left)


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
    """Return what the kernel calls a type; 0 for one that it does not know."""
    import pyarrow.types as is_type

    if is_type.is_signed_integer(kind):
        return INTEGER
    if is_type.is_float32(kind) or is_type.is_float64(kind):
        return NUMBER
    if is_type.is_boolean(kind):
        return BOOLEAN
    return TEXT if is_type.is_string(kind) else 0


def _column(field: pa.Field, places: Any, lengths: Any) -> pa.Array:
    """Raise pa.ArrowInvalid for a number that does not fit, and for text that is not UTF-8."""
    kind = _kind(field.type)
    if kind in (INTEGER, BOOLEAN):
        missing = lengths < 0
        made = pa.array(places, mask=missing) if missing.any() else pa.array(places)
        return made.cast(field.type)
    text = _text(places, lengths)
    if kind == NUMBER:
        return text.cast(field.type)
    text.validate(full=True)
    return text


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
