"""Avro's binary encoding, by the specification's own examples, and what is said of bytes that are none."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from kohort.errors import ConfigError  # noqa: E402
from kohort.spark.values.avro import AvroError, compile_schema  # noqa: E402
from kohort.spark.values.value_format import ValueFormat  # noqa: E402


def read(schema: Any, data: bytes) -> Any:
    value, end = compile_schema(json.dumps(schema))(data, 0)
    assert end == len(data)
    return value


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        ("long", b"\x00", 0),
        ("long", b"\x01", -1),
        ("long", b"\x7f", -64),
        ("long", b"\x80\x01", 64),
        ("string", b"\x06\x66\x6f\x6f", "foo"),
        ("boolean", b"\x01", True),
        ("double", b"\x00\x00\x00\x00\x00\x00\xf8\x3f", 1.5),
        ({"type": "array", "items": "long"}, b"\x04\x06\x36\x00", [3, 27]),
        ({"type": "array", "items": "long"}, b"\x03\x04\x06\x36\x00", [3, 27]),
        ({"type": "map", "values": "int"}, b"\x02\x02a\x02\x00", [("a", 1)]),
        (["null", "string"], b"\x00", None),
        (["null", "string"], b"\x02\x02\x61", "a"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x02", "B"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", b"ab"),
        ({"type": "int", "logicalType": "date"}, b"\x04", date(1970, 1, 3)),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xd0\x0f", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x02\x96", Decimal("-1.06")),
        ({"type": "string", "logicalType": "of-another-world"}, b"\x02a", "a"),
    ],
)
def test_values_are_what_the_specification_says(schema: Any, data: bytes, value: Any) -> None:
    assert read(schema, data) == value


TREE = {
    "type": "record",
    "name": "Node",
    "namespace": "n",
    "fields": [{"name": "id", "type": "long"}, {"name": "next", "type": ["null", "Node"]}],
}


def test_a_record_may_hold_records_like_itself() -> None:
    assert read(TREE, b"\x02\x02\x04\x00") == {"id": 1, "next": {"id": 2, "next": None}}


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("string", b"\x06fo"),
        ("string", b"\x01"),
        ("string", b"\x02\xff"),
        ("long", b"\x80" * 12),
        ("double", b"\x00"),
        (["null"], b"\x04"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x04"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f\x00"),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f"),
    ],
)
def test_bytes_that_are_no_value_are_an_error_and_not_memory(schema: Any, data: bytes) -> None:
    with pytest.raises(AvroError):
        read(schema, data)


@pytest.mark.parametrize(
    ("schema", "said"),
    [("{", "not JSON"), ('"nothing"', "unknown type 'nothing'"), ('{"type": "record"}', "a record without a name")],
)
def test_what_is_no_schema_is_said_at_once(schema: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        compile_schema(schema)


ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"]},
            {"name": "tags", "type": {"type": "map", "values": "int"}},
        ],
    }
)


def test_avro_values_become_columns_and_bad_ones_are_found() -> None:
    schema = pa.schema([("id", pa.int32()), ("tags", pa.map_(pa.string(), pa.int64()))])
    decoder = ValueFormat("avro", schema, avro=ORDER)
    good, huge = b"\x02\x02\x02a\x02\x02x\x0e\x00", b"\x80\x80\x80\x80\x80\x01\x00\x00"

    found = decoder.decode(pa.array([good, None, b"\x02", huge, good + b"!"]))
    ids, tags = (column.to_pylist() for column in found.columns)

    assert ids == [1, None, None, None, None]
    assert tags[0] == [("x", 7)]
    assert set(found.problems) == {1, 2, 3, 4}
    assert found.problems[4] == "1 bytes follow the value"


def test_a_frame_is_passed_over_and_a_column_that_is_not_there_is_refused() -> None:
    schema = pa.schema([("id", pa.int64())])
    framed = ValueFormat("avro", schema, avro=ORDER, framing="confluent")

    found = framed.decode(pa.array([b"\x00\x00\x00\x00\x07\x02\x00\x00", b"\x02\x00\x00"]))

    assert (found.columns[0].to_pylist(), set(found.problems)) == ([1, None], {1})
    with pytest.raises(ConfigError, match=r"'amount' is no field of value\.avro\.schema: id, name, tags"):
        ValueFormat("avro", pa.schema([("amount", pa.int64())]), avro=ORDER)
