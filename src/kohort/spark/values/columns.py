"""Spark types and Arrow types of the columns of ``format("kohort")``.

The columns are the columns of Spark's Kafka connector, and ``redelivered``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kohort.config.options import unknown_option
from kohort.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
    "redelivered": "boolean",
}
REDELIVERED: Final = "redelivered"
"""Boolean column: true if the record may have been delivered before. Computed only if the read schema has it."""
_DECODED_NAME: Final = {"timestampType": "timestamp_type"}


def ddl(*, include_headers: bool) -> str:
    left_out = {REDELIVERED} | (set() if include_headers else {"headers"})
    return ", ".join(f"{n} {t}" for n, t in TYPES.items() if n not in left_out)


def check_schema(fields: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the column names of a read schema. Raises ConfigError for an unknown column or a wrong type."""
    for name, kind in fields:
        if name not in TYPES:
            raise ConfigError(
                f'schema: {unknown_option(name, TYPES)}: format("kohort") has the columns {", ".join(TYPES)}'
            )
        if kind != TYPES[name]:
            raise ConfigError(f"schema: column {name!r} must be {TYPES[name]}, not {kind}")
    return tuple(name for name, _ in fields)


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    types: dict[str, Any] = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        REDELIVERED: pa.bool_(),
    }
    return pa.schema([pa.field(name, types[name]) for name in names])


def client_columns(names: Sequence[str]) -> list[str]:
    """Return the columns that the client must fetch for these Spark columns. The column offset is always included."""
    return list(dict.fromkeys(["offset", *(_DECODED_NAME.get(n, n) for n in names if n != REDELIVERED)]))


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert an Arrow batch of the client to ``schema``: rename columns, and cast columns of another type."""
    import pyarrow as pa

    arrays = []
    for field in schema:
        column = batch.column(_DECODED_NAME.get(field.name, field.name))
        arrays.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
