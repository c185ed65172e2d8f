"""Value table of all readers: each value alone, and all values of a type in one block."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from kohort.columns.json_values.columns import json_columns, read_json, read_records
from kohort.spark.values.csv_records import CsvReader
from kohort.spark.values.value_format import ValueFormat
from support.values.avro_values import AVRO_VALUES, AvroValue
from support.values.csv_values import CSV_PAIRS, CSV_VALUES, PAIR
from support.values.json_times import JSON_TIMES
from support.values.json_values import JSON_VALUES
from support.values.plain import ARROW_TYPES, plain
from support.values.value import BAD, Value

NEW_YORK = ZoneInfo("America/New_York")
TYPES = list(ARROW_TYPES)


def schema_of(kind: str) -> pa.Schema:
    if kind == PAIR:
        return pa.schema([("a", pa.int32()), ("b", pa.string())])
    return pa.schema([("v", ARROW_TYPES[kind])])


def outcomes(decoded: Any) -> list[Any]:
    columns = [plain(column) for column in decoded.columns]
    rows = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    return [BAD if place in decoded.problems else row for place, row in enumerate(rows)]


def of_type(values: tuple[Value, ...], kind: str) -> list[Value]:
    return [value for value in values if value.type == kind]


def named(values: list[Value], found: list[Any]) -> dict[bytes | None, Any]:
    return {value.value: result for value, result in zip(values, found, strict=True)}


@pytest.mark.parametrize("kind", TYPES)
def test_json_readers_match_the_value_table(kind: str) -> None:
    values = of_type((*JSON_VALUES, *JSON_TIMES), kind)
    block = pa.array([value.value for value in values], pa.binary())
    expected = named(values, [value.kohort for value in values])

    for read in (read_json, read_records):
        assert named(values, outcomes(read(block, schema_of(kind), NEW_YORK))) == expected
        alone = [outcomes(read(block.slice(i, 1), schema_of(kind), NEW_YORK))[0] for i in range(len(values))]
        assert named(values, alone) == expected


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind != "timestamp"])
def test_poll_arrow_json_matches_the_value_table(kind: str) -> None:
    for value in of_type((*JSON_VALUES, *JSON_TIMES), kind):
        (found,) = outcomes(json_columns(pa.array([value.value], pa.binary()), schema_of(kind)))
        assert (value.value, found) == (value.value, value.kohort)


@pytest.mark.parametrize("kind", [PAIR, *dict.fromkeys(value.type for value in CSV_VALUES)])
def test_csv_readers_match_the_value_table(kind: str) -> None:
    values = of_type((*CSV_VALUES, *CSV_PAIRS), kind)
    block = pa.array([value.value for value in values], pa.binary())
    reader = CsvReader(schema_of(kind), ",", NEW_YORK)
    expected = named(values, [value.kohort for value in values])

    assert named(values, outcomes(reader.read_block(block))) == expected
    alone = [outcomes(reader.read_block(block.slice(i, 1)))[0] for i in range(len(values))]
    assert named(values, alone) == expected


@pytest.mark.parametrize("value", AVRO_VALUES, ids=lambda value: f"{value.written} as {value.type}")
def test_avro_reader_matches_the_value_table(value: AvroValue) -> None:
    reader = ValueFormat("avro", schema_of(value.type), avro=value.schema)

    assert outcomes(reader.decode(pa.array([value.value], pa.binary()))) == [value.kohort]


def test_value_table_has_200_values_and_reasons() -> None:
    table = (*JSON_VALUES, *JSON_TIMES, *CSV_VALUES, *CSV_PAIRS, *AVRO_VALUES)

    assert len(table) >= 200
    assert [value for value in table if (value.kohort == value.of_spark) == bool(value.why)] == []
