"""Arrow schema of records: its columns, and the supported types of each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as is_type

from kohort.errors import UsageError

HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value")
"""Default columns. Headers need a second pass: request them by name."""
TYPES: Final = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "timestamp_type": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS_TYPE,
}
ALIASES: Final = {"timestampType": "timestamp_type"}
"""Names in Spark's own Kafka source."""


def record_schema(columns: Sequence[str] = COLUMNS) -> pa.Schema:
    """Return the schema of these columns in their usual types. Raises UsageError for an unknown column."""
    return _record_schema(tuple(columns))


@lru_cache(maxsize=16)
def _record_schema(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([pa.field(name, TYPES[column_of(name)]) for name in columns])


def column_of(name: str) -> str:
    """Return the column of a schema's field."""
    column = ALIASES.get(name, name)
    if column not in TYPES:
        raise UsageError(f"records have no column {name!r}, only {', '.join(TYPES)}")
    return column


def check_schema(schema: pa.Schema) -> None:
    """Raise UsageError for an unknown column or an unsupported type."""
    for field in schema:
        column = column_of(field.name)
        accepts, allowed = ACCEPTED[column]
        if not accepts(field.type):
            raise UsageError(f"column {field.name!r} has type {field.type}, expected {allowed}")


def is_blob(kind: Any) -> bool:
    """Return True if keys and values can have this type."""
    return bool(is_text(kind) or is_type.is_binary(kind) or is_type.is_large_binary(kind))


def is_text(kind: Any) -> bool:
    return bool(is_type.is_string(kind) or is_type.is_large_string(kind))


def is_wide(kind: Any) -> bool:
    """Return True for a byte-string type with 64-bit offsets."""
    return bool(is_type.is_large_string(kind) or is_type.is_large_binary(kind))


def is_topic(kind: Any) -> bool:
    return is_text(kind) or bool(is_type.is_dictionary(kind) and is_text(kind.value_type))


def is_time(kind: Any) -> bool:
    return bool(is_type.is_timestamp(kind) or kind == pa.int64())


def is_headers(kind: Any) -> bool:
    if not is_type.is_list(kind) or not is_type.is_struct(kind.value_type) or kind.value_type.num_fields != 2:
        return False
    key, value = kind.value_type.field(0), kind.value_type.field(1)
    is_named = (key.name, value.name) == ("key", "value")
    return bool(is_named and is_type.is_string(key.type) and is_type.is_binary(value.type))


ACCEPTED: Final = {
    "topic": (is_topic, "string, large_string or a dictionary of them"),
    "partition": (is_type.is_integer, "an integer"),
    "offset": (is_type.is_int64, "int64"),
    "timestamp": (is_time, "a timestamp, or int64 for milliseconds"),
    "timestamp_type": (is_type.is_integer, "an integer"),
    "key": (is_blob, "binary, string, large_binary or large_string"),
    "value": (is_blob, "binary, string, large_binary or large_string"),
    "headers": (is_headers, "list<struct<key: string, value: binary>>"),
}
