"""JSON values to columns, in the types asked for: flat objects by a kernel, all else in one parse by Arrow's reader.

Each value must be one JSON object; a NULL value (a tombstone) gives NULL in every column, and so does a field that an
object lacks. Fields that were not asked for are skipped.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from kohort.errors import UndecodableValue, UsageError

NOTHING: Final = b"{}"
INT32_MAX: Final = (1 << 31) - 1


def check_json_schema(schema: pa.Schema) -> None:
    """Raise UsageError for columns that cannot be told apart, and for types that JSON has no way to say."""
    names = [name for name in schema.names if schema.names.count(name) > 1]
    if names:
        raise UsageError(f"the schema of the JSON values names {names[0]!r} twice")
    if not schema.names:
        raise UsageError("the schema of the JSON values has no column")
    for field in schema:
        try:
            _columns(pa.array([NOTHING]), pa.schema([field.with_nullable(True)]))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"column {field.name!r} of type {field.type} cannot be read from JSON: {error}") from error


def json_columns(
    values: pa.Array, offsets: pa.Array, schema: pa.Schema, *, topic: str, partition: int
) -> list[pa.Array]:
    """Return the columns of ``schema``, one row for each value.

    Raises UndecodableValue for the first value that does not fit, with its offset.
    """
    if not len(values):
        return [pa.array([], field.type) for field in schema]
    try:
        return _flat_columns(values, schema) or _columns(values, schema)
    except (pa.ArrowInvalid, ValueError):
        at, problem = _first_bad(values, schema)
    raise UndecodableValue(problem, topic=topic, partition=partition, offset=offsets[at].as_py())


def _flat_columns(values: pa.Array, schema: pa.Schema) -> list[pa.Array] | None:
    """Return what the kernel is sure of, and Arrow's judgement of the rest; None where the kernel is of no use."""
    from kohort.columns.json_values.flat_objects import flat_columns

    flat = flat_columns(values, schema)
    if flat is None:
        return None
    rest = _columns(values.take(pa.array(flat.left)), schema) if len(flat.left) else []
    columns = flat.with_judged(rest)
    _check_nulls(schema, columns)
    return columns


def _check_nulls(schema: pa.Schema, columns: list[pa.Array]) -> None:
    """Raise ValueError for a NULL where the schema allows none."""
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            raise ValueError(f"no {field.name}")


def _columns(values: pa.Array, schema: pa.Schema) -> list[pa.Array]:
    """Raise pa.ArrowInvalid or ValueError if any value does not fit."""
    lines = pc.fill_null(values, pa.scalar(NOTHING, values.type)).cast(pa.large_string())
    trimmed = pc.utf8_trim_whitespace(lines)
    # Rows are told apart by this: between an object that ended and one that begins nothing can be left over.
    if not pc.all(pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))).as_py():
        raise ValueError("not a JSON object")
    nothing, newline = (pa.scalar(text, trimmed.type) for text in ("", "\n"))
    text = pc.binary_join_element_wise(trimmed, nothing, newline).buffers()[2]  # one text, laid out by Arrow itself
    table = pa.json.read_json(
        pa.BufferReader(text),
        # In one block, lines within values do no harm, and nothing has to look for them.
        pa.json.ReadOptions(use_threads=False, block_size=min(len(text) + 1, INT32_MAX)),
        pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    if table.num_rows != len(values):
        raise ValueError("not one JSON object")
    columns = []
    for field in schema:
        column = table.column(field.name).combine_chunks()
        columns.append(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    _check_nulls(schema, columns)
    return columns


def _first_bad(values: pa.Array, schema: pa.Schema) -> tuple[int, str]:
    """Return which value is the first that does not fit, and what is wrong with it. There is one."""
    good, bad = 0, len(values)  # a prefix of `good` values fits, one of `bad` does not
    problem = ""
    while bad - good > 1:
        middle = (good + bad) // 2
        if _problem(values.slice(good, middle - good), schema):
            bad = middle
        else:
            good = middle
    problem = _problem(values.slice(good, 1), schema)
    return good, f"the value is not JSON of the schema asked for: {problem}"


def _problem(values: pa.Array, schema: pa.Schema) -> str:
    try:
        _columns(values, schema)
    except (pa.ArrowInvalid, ValueError) as error:
        return str(error) or type(error).__name__
    return ""
