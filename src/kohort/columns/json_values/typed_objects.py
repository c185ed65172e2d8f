"""JSON objects to columns by msgspec, for values that the kernel leaves: nested objects, arrays, escaped text.

msgspec takes a value only where it has the column's own type, so a value that it takes has the same result in the
object reader, which decides on all others. Times and decimals are its text and numbers, converted in blocks.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from functools import lru_cache
from typing import Annotated, Any, Final, Optional, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.types as is_type

from kohort.columns.conversions.blocks import plain_values
from kohort.columns.json_values.flat_objects import FlatColumns

_NEGATIVE_ZERO: Final = re.compile(rb"[:,\[\s]-0").search
"""msgspec reads -0 as 0 in a column of floating point."""
_REFUSED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def typed_columns(values: pa.Array, schema: pa.Schema, zone: tzinfo) -> FlatColumns | None:
    """Return the columns of JSON objects, given as binary; None for types that msgspec cannot tell apart."""
    decode = _decoder(schema)
    if decode is None:
        return None
    may_be_zero = _has_floating(schema)
    rows: list[dict[str, Any] | None] = []
    left = np.zeros(len(values), bool)
    for place, value in enumerate(values.to_pylist()):
        row = None
        if value is not None and not (may_be_zero and _NEGATIVE_ZERO(value)):
            try:
                row = decode(value)
            except _REFUSED:
                left[place] = True
        elif value is not None:
            left[place] = True
        rows.append(row)
    read = pa.schema([pa.field(f.name, pa.string() if _is_time(f.type) else f.type) for f in schema])
    try:
        made = pa.array([row or {} for row in rows], pa.struct(list(read)))
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        return None
    columns = []
    for i, field in enumerate(schema):
        column = made.field(i)
        if _is_time(field.type):
            column, unsure = plain_values(column, field.type, zone)
            left |= unsure
        columns.append(column)
    return FlatColumns(columns, np.flatnonzero(left))


def _is_time(kind: pa.DataType) -> bool:
    return bool(is_type.is_timestamp(kind) or is_type.is_date32(kind))


def _has_floating(schema: pa.Schema) -> bool:
    return any("double" in str(kind) for kind in schema.types)


@lru_cache(maxsize=16)
def _decoder(schema: pa.Schema) -> Any:
    """Return msgspec's decoder of a schema; None for a schema with a type that it cannot tell apart."""
    kinds = {field.name: str if _is_time(field.type) else _kind(field.type) for field in schema}
    row = _row_type(kinds)
    return None if row is None else msgspec.json.Decoder(row).decode


def _row_type(kinds: dict[str, Any]) -> Any:
    """Return msgspec's type of objects with these fields; None if msgspec cannot read one of them exactly.

    msgspec 0.22 passes over fields of a TypedDict whose names are not ASCII.
    """
    if None in kinds.values() or not kinds or not "".join(kinds).isascii():
        return None
    fields = {name: Optional[kind] for name, kind in kinds.items()}  # noqa: UP045 - of a type in a variable
    return TypedDict("Row", fields, total=False)  # type: ignore[operator]  # made when the schema is known


def _kind(kind: pa.DataType) -> Any:
    """Return msgspec's type for a column; None for a type that needs more than a look at the JSON's own."""
    if is_type.is_integer(kind):
        signed = is_type.is_signed_integer(kind)
        bits = min(kind.bit_width - 1 if signed else kind.bit_width, 63)
        return Annotated[int, msgspec.Meta(ge=-(1 << bits) if signed else 0, le=(1 << bits) - 1)]
    if is_type.is_float64(kind):
        return float
    if is_type.is_boolean(kind):
        return bool
    if is_type.is_string(kind):
        return str
    if is_type.is_list(kind):
        item = _kind(kind.value_type)
        return None if item is None else list[Optional[item]]  # type: ignore[valid-type]  # noqa: UP045
    if is_type.is_struct(kind):
        return _row_type({field.name: _kind(field.type) for field in kind})
    return None
