"""The columns of ``format("kohort")``: the Kafka connector's, in Spark's types and in the exact Arrow types."""

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
"""Whether the row may have been delivered before; made here, not the record's, and only for a schema that names it."""
_DECODED_NAME: Final = {"timestampType": "timestamp_type"}


def ddl(*, include_headers: bool) -> str:
    """Return the schema of a read for which the user gave none."""
    left_out = {REDELIVERED} | (set() if include_headers else {"headers"})
    return ", ".join(f"{n} {t}" for n, t in TYPES.items() if n not in left_out)


def check_schema(fields: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the column names of the user's schema. Raises ConfigError for a column or a type that the source lacks."""
    for name, kind in fields:
        if name not in TYPES:
            raise ConfigError(f"schema: {unknown_option(name, TYPES)}: the columns are {', '.join(TYPES)}")
        if kind != TYPES[name]:
            raise ConfigError(f"schema: column {name!r} is {TYPES[name]}, not {kind}")
    return tuple(name for name, _ in fields)


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """Return Spark's Arrow schema of these columns."""
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
    """Return what to ask of the client for these columns: the offset always, for it says where a range ends."""
    return list(dict.fromkeys(["offset", *(_DECODED_NAME.get(n, n) for n in names if n != REDELIVERED)]))


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of the client as a batch of ``schema``: its columns, cast where the unit or a name differs."""
    import pyarrow as pa

    arrays = []
    for field in schema:
        column = batch.column(_DECODED_NAME.get(field.name, field.name))
        arrays.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
