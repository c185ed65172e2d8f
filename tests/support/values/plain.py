"""Results of decoding as plain values that compare with ``==`` and read well: times and decimals as text."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.types as is_type

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plain(column: pa.Array) -> list[Any]:
    """Return each value: timestamps in UTC, with Z if they have a zone; years that Python lacks as a number."""
    kind = column.type
    if is_type.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist()
        return [None if n is None else _timestamp(n, "Z" if kind.tz else "") for n in micros]
    if is_type.is_date(kind):
        return [None if n is None else _date(n) for n in column.cast(pa.int32()).to_pylist()]
    if is_type.is_time(kind) or is_type.is_decimal(kind):
        return [None if value is None else str(value) for value in column.to_pylist()]
    if is_type.is_floating(kind):
        return [value if value is None or math.isfinite(value) else str(value) for value in column.to_pylist()]
    if is_type.is_string(kind):  # Spark's may hold bytes that are not UTF-8
        texts = column.cast(pa.binary()).to_pylist()
        return [None if text is None else text.decode(errors="replace") for text in texts]
    return list(column.to_pylist())


def _timestamp(micros: int, end: str) -> str:
    try:
        return (EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat(" ") + end
    except OverflowError:
        return f"{micros} us"


def _date(days: int) -> str:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return f"day {days}"


INT_LIST = pa.list_(pa.field("element", pa.int32()))
TEXT_LIST = pa.list_(pa.field("element", pa.string()))
ARROW_TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(38,18)": pa.decimal128(38, 18),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "date": pa.date32(),
    "time": pa.time64("ns"),
    "array<int>": INT_LIST,
    "array<string>": TEXT_LIST,
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "struct<x:int,y:string>": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    "array<struct<x:int,t:array<string>>>": pa.list_(
        pa.field("element", pa.struct([("x", pa.int32()), ("t", TEXT_LIST)]))
    ),
}
"""Arrow's types by Spark's names."""
