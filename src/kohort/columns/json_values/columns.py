"""JSON values to columns, for each road that reads JSON: ``poll_arrow``, ``format("kohort")`` and pipelines.

Each value must be one JSON object; a NULL value (a tombstone) gives NULL in every column, and so does a field that an
object lacks. Other fields are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any

import numpy as np
import pyarrow as pa

from kohort.columns.conversions.decoded import REASON_MOST, Decoded
from kohort.columns.json_values.flat_objects import FlatColumns, flat_columns
from kohort.columns.json_values.object_reader import ObjectReader
from kohort.columns.json_values.typed_objects import typed_columns
from kohort.errors import UndecodableValue, UsageError

Way = Callable[[pa.Array, pa.Schema, tzinfo], FlatColumns | None]
"""A fast reader of a subset of values. It returns None for a schema or a block that it does not support."""


def check_json_schema(schema: pa.Schema) -> None:
    """Raise UsageError for duplicate columns, and for types that JSON cannot give."""
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
    """Return the columns of ``schema``, one row for each value, given as binary.

    ``zone``: of timestamps without one. Raises TypeError for a type that JSON cannot give.
    """
    return _read(values, schema, zone, (flat_columns, typed_columns))


def _read(values: pa.Array, schema: pa.Schema, zone: tzinfo, ways: tuple[Way, ...]) -> Decoded:
    """Read values by the first of ``ways``, the remaining rows by the next, and the last rows one by one."""
    if not ways:
        return read_records(values, schema, zone)
    sure = ways[0](values, schema, zone)
    if sure is None:
        return _read(values, schema, zone, ways[1:])
    if not len(sure.left):
        return Decoded(sure.columns, {})
    rest = _read(values.take(pa.array(sure.left)), schema, zone, ways[1:])
    return Decoded(sure.with_rest(rest.columns), {int(sure.left[row]): why for row, why in rest.problems.items()})


def read_records(values: pa.Array, schema: pa.Schema, zone: tzinfo) -> Decoded:
    """Read each value by itself, with neither kernel nor msgspec."""
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
    """Return the columns of ``schema``, one row for each value. A null in a non-nullable column is a problem.

    A timestamp without a zone is in UTC.
    """
    decoded = read_json(values.cast(pa.binary()), schema, UTC)
    for field, column in zip(schema, decoded.columns, strict=True):
        if not field.nullable and column.null_count:
            for row in np.flatnonzero(np.asarray(column.is_null())).tolist():
                decoded.problems.setdefault(row, f"no {field.name}")
    return decoded


def raise_first_problem(decoded: Decoded, offsets: pa.Array, *, topic: str, partition: int) -> None:
    """Raise UndecodableValue for the first value that does not fit, with its offset."""
    if decoded.problems:
        at = min(decoded.problems)
        problem = f"the value is not JSON of the schema: {decoded.problems[at]}"
        raise UndecodableValue(problem, topic=topic, partition=partition, offset=offsets[at].as_py())
