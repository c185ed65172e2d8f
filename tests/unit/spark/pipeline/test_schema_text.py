"""Spark schemas parsed without Spark."""

from __future__ import annotations

import pytest

from kohort.spark.pipeline.parse_sources import SchemaProblem, parse_schema

WHOLE = (
    "id long NOT NULL, a array<string>, m map<string, struct<x:int, y: array<double>>> comment 'a, b', "
    "`odd, name` decimal(10, 2), i interval day to second, s string collate UNICODE, v: variant, t timestamp_ntz, "
    "c varchar(10), empty struct<>"
)


def test_spark_schema_is_parsed_into_column_names() -> None:
    assert parse_schema(WHOLE) == ["id", "a", "m", "odd, name", "i", "s", "v", "t", "c", "empty"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id long, user lonk", "'lonk' is not a Spark type; did you mean long?"),
        ("x array<lonk>", "'lonk' is not a Spark type; did you mean long?"),
        ("a struct<b: int, c: txt>", "'txt' is not a Spark type"),
        ("id", "the column 'id' has no type"),
        ("id, user string", "the column 'id' has no type"),
        ("id long,", "a column is missing at the end"),
        ("id long user string", "expected a comma or the end of the schema, found 'user'"),
        ("a map<string>", "map needs element types, such as array<string> or map<string, long>"),
        ("a int, a long", "two columns have the name 'a'"),
        ("a struct<b: int", "expected a comma or the end of the schema, found ''"),
        (" ", "the schema is empty"),
    ],
)
def test_invalid_spark_schema_is_rejected(text: str, message: str) -> None:
    with pytest.raises(SchemaProblem) as problem:
        parse_schema(text)
    assert str(problem.value) == message
