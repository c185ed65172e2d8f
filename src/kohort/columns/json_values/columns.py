"""JSON values to columns, for all users of JSON: ``poll_arrow``, ``format("kohort")`` and pipelines.

Each value must be one JSON object. A NULL value (a tombstone) gives NULL in every column, and so does a missing field.
Other fields are skipped. A kernel reads flat objects (``flat_objects``). msgspec reads nested objects, arrays and
escaped text if values have the column's own type. The object reader reads all other values; for values that a faster
reader accepts it gives the same result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import Annotated, Any, Final, Optional, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.types as is_type

from kohort.columns.conversions import REASON_MOST, Decoded
from kohort.columns.conversions.blocks import plain_values
from kohort.columns.json_values.flat_objects import FlatColumns, flat_columns
from kohort.columns.json_values.object_reader import ObjectReader
from kohort.errors import UsageError

_NEGATIVE_ZERO: Final = re.compile(rb"[:,\[\s]-0").search
"""msgspec reads -0 as 0 in a floating-point column."""
_REFUSED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def typed_columns(values: pa.Array, schema: pa.Schema, zone: tzinfo) -> FlatColumns | None:
    """Return the columns of JSON objects in binary; None if msgspec does not support a column's type."""
    decode = _decoder(schema)
    if decode is None:
        return None
    may_be_zero = any("double" in str(kind) for kind in schema.types)
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


@lru_cache(maxsize=16)
def _decoder(schema: pa.Schema) -> Any:
    """Return msgspec's decoder of a schema; None if it does not support a column's type."""
    kinds = {field.name: str if _is_time(field.type) else _kind(field.type) for field in schema}
    row = _row_type(kinds)
    return None if row is None else msgspec.json.Decoder(row).decode


def _row_type(kinds: dict[str, Any]) -> Any:
    # msgspec 0.22 skips fields of a TypedDict with names that are not ASCII
    if None in kinds.values() or not kinds or not "".join(kinds).isascii():
        return None
    fields = {name: Optional[kind] for name, kind in kinds.items()}  # noqa: UP045 - of a type in a variable
    return TypedDict("Row", fields, total=False)  # type: ignore[operator]  # made when the schema is known


def _kind(kind: pa.DataType) -> Any:
    """Return msgspec's type for a column; None if the JSON type alone does not decide the value."""
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


FastReader = Callable[[pa.Array, pa.Schema, tzinfo], FlatColumns | None]
"""Fast reader of some values. Returns None for a schema or a block that it does not support."""


def check_json_schema(schema: pa.Schema) -> None:
    """Raise UsageError for duplicate columns, and for types that JSON does not support."""
    names = [name for name in schema.names if schema.names.count(name) > 1]
    if names:
        raise UsageError(f"the schema of the JSON values names {names[0]!r} twice")
    if not schema.names:
        raise UsageError("the schema of the JSON values has no column")
    for field in schema:
        try:
            ObjectReader(pa.schema([field]), UTC)
        except TypeError as error:
            raise UsageError(f"column {field.name!r}: {error} cannot be read from JSON") from None


def read_json(values: pa.Array, schema: pa.Schema, zone: tzinfo) -> Decoded:
    """Return the columns of ``schema``, one row for each value in binary.

    ``zone``: zone of timestamps without one. Raises TypeError for a type that JSON does not support.
    """
    return _read(values, schema, zone, (flat_columns, typed_columns))


def _read(values: pa.Array, schema: pa.Schema, zone: tzinfo, readers: tuple[FastReader, ...]) -> Decoded:
    if not readers:
        return read_records(values, schema, zone)
    accepted = readers[0](values, schema, zone)
    if accepted is None:
        return _read(values, schema, zone, readers[1:])
    if not len(accepted.left):
        return Decoded(accepted.columns, {})
    rest = _read(values.take(pa.array(accepted.left)), schema, zone, readers[1:])
    return Decoded(
        accepted.with_rest(rest.columns), {int(accepted.left[row]): why for row, why in rest.problems.items()}
    )


def read_records(values: pa.Array, schema: pa.Schema, zone: tzinfo) -> Decoded:
    """Read each value alone, without kernel or msgspec."""
    read = ObjectReader(schema, zone).read
    rows: list[list[Any]] = []
    problems: dict[int, str] = {}
    nothing: list[Any] = [None] * len(schema)
    for place, value in enumerate(values.to_pylist()):
        try:
            rows.append(nothing if value is None else read(value))
        except ValueError as error:
            problems[place] = str(error)[:REASON_MOST]
            rows.append(nothing)
    return Decoded([pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)], problems)


def json_columns(values: pa.Array, schema: pa.Schema) -> Decoded:
    """Return the columns of ``schema``, one row per value. A null in a non-nullable column is a problem.

    A timestamp without a zone is in UTC.
    """
    decoded = read_json(values.cast(pa.binary()), schema, UTC)
    for field, column in zip(schema, decoded.columns, strict=True):
        if not field.nullable and column.null_count:
            for row in np.flatnonzero(np.asarray(column.is_null())).tolist():
                decoded.problems.setdefault(row, f"no {field.name}")
    return decoded
