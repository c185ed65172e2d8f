"""``to_records``: convert any DataFrame into the record columns that the sink accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
JSON_OPTIONS: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of Spark's ``to_json``: keep NULL fields, and write microseconds instead of milliseconds."""
NOT_IN_A_PIPELINE: Final = "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"


def to_records(
    frame: DataFrame,
    *,
    value: str | Sequence[str] | None = None,
    key: str | None = None,
    headers: Mapping[str, str | Column] | str | None = None,
    topic: str | None = None,
    partition: str | None = None,
) -> DataFrame:
    """Convert a DataFrame into the columns key, value, headers, topic, partition for ``format("kohort")``.

    ``value``: a text or binary column, or a list of columns that become one JSON object (default: all columns).
    ``key``: a column; it is cast to text unless it is binary. ``headers``: the name of a column of headers, or a dict
    of header name to text or binary column. ``topic``, ``partition``: column names; without one, the result has no
    such column. Raises UsageError for a struct, array or map as key, value or header.

    Records without headers get an empty list: Spark copies NULL lists to Python 8 to 13 times slower (measured).
    """
    from pyspark.sql import functions as f

    columns = {} if key is None else {"key": _bytes(frame, key)}
    columns["value"] = _bytes(frame, value) if isinstance(value, str) else json_bytes(value or ["*"])
    columns["headers"] = _headers(frame, headers)
    if topic is not None:
        columns["topic"] = f.col(topic).cast("string")
    if partition is not None:
        columns["partition"] = f.col(partition).cast("int")
    return frame.select(*(column.alias(name) for name, column in columns.items()))


def json_bytes(columns: Sequence[str]) -> Column:
    from pyspark.sql import functions as f

    return f.to_json(f.struct(*columns), JSON_OPTIONS).cast("binary")


def _headers(frame: DataFrame, headers: Mapping[str, str | Column] | str | None) -> Column:
    from pyspark.sql import functions as f

    empty = f.array().cast(HEADERS_TYPE)
    if isinstance(headers, str):
        return f.coalesce(f.col(headers).cast(HEADERS_TYPE), empty)
    pairs = [f.struct(f.lit(n).alias("key"), _bytes(frame, c).alias("value")) for n, c in (headers or {}).items()]
    return f.array(*pairs).cast(HEADERS_TYPE)


def _bytes(frame: DataFrame, column: str | Any) -> Column:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    made = f.col(column) if isinstance(column, str) else column
    try:
        kind = frame.select(made).schema.fields[0].dataType.simpleString()
    except AnalysisException as error:
        if error.getCondition() != NOT_IN_A_PIPELINE:
            raise
        kind = ""  # Spark cannot determine column types inside a function of a declarative pipeline
    if kind == "binary":
        return made
    if kind.startswith(("struct", "array", "map")):
        raise UsageError(
            f"the column {column} has type {kind}: to send JSON, give a list such as value=[...]; "
            "otherwise convert the column to text"
        )
    return made.cast("string").cast("binary")  # a cast to string does not change the bytes of a binary column
