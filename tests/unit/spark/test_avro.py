"""Decoding of Avro values: examples from the Avro specification, and invalid bytes."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from kohort.errors import ConfigError, MissingExtra  # noqa: E402 - behind importorskip
from kohort.spark.values.avro import AvroError, compile_schema  # noqa: E402 - behind importorskip
from kohort.spark.values.value_format import ValueFormat  # noqa: E402 - behind importorskip


def read(schema: Any, data: bytes) -> Any:
    value, end = compile_schema(json.dumps(schema))(data)
    assert end == len(data)
    return value


UUID_TEXT = "00000000-0000-0000-0000-000000000007"
LOCAL = datetime.fromisoformat("1970-01-01T00:00:00.000002")  # an Avro local timestamp has no time zone


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
        ({"type": "map", "values": "int"}, b"\x02\x02a\x02\x00", {"a": 1}),
        (["null", "string"], b"\x00", None),
        (["null", "string"], b"\x02\x02\x61", "a"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x02", "B"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", b"ab"),
        ({"type": "int", "logicalType": "date"}, b"\x04", date(1970, 1, 3)),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xd0\x0f", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x02\x96", Decimal("-1.06")),
        ({"type": "string", "logicalType": "of-another-world"}, b"\x02a", "a"),
        ({"type": "string", "logicalType": "uuid"}, b"\x48" + UUID_TEXT.upper().encode(), UUID_TEXT),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, bytes(15) + b"\x07", UUID_TEXT),
        (
            {"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 4},
            b"\xff\x96",
            Decimal(-106),
        ),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, b"\x04", LOCAL),
        ({"type": "int", "logicalType": "time-millis"}, b"\x04", 2),
    ],
)
def test_avro_values_match_the_examples_of_the_specification(schema: Any, data: bytes, value: Any) -> None:
    assert read(schema, data) == value


TREE = {
    "type": "record",
    "name": "Node",
    "namespace": "n",
    "fields": [{"name": "id", "type": "long"}, {"name": "next", "type": ["null", "Node"]}],
}


def test_recursive_avro_record_is_read() -> None:
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
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\x0f\x00"),
        ({"type": "array", "items": "int"}, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" * 2),
        ({"type": "map", "values": "null"}, b"\xfe\xff\xff\xff\x0f\x00"),
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ({"type": "string", "logicalType": "uuid"}, b"\x06foo"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, b"\x82\x01" + b"\x01" * 65),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f"),
        ({"type": "long", "logicalType": "timestamp-micros"}, b"\xfe" + b"\xff" * 8 + b"\x01"),
    ],
)
def test_invalid_avro_bytes_raise_an_error_without_large_allocations(schema: Any, data: bytes) -> None:
    with pytest.raises(AvroError):
        read(schema, data)


NOTHING = {"type": "record", "name": "Nothing", "fields": [{"name": "a", "type": "null"}]}


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "null"},
        {"type": "fixed", "name": "F", "size": 0},
        {"type": "record", "name": "R", "fields": []},
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": NOTHING}, {"name": "b", "type": "Nothing"}]},
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "R"}]},
    ],
)
def test_avro_list_whose_items_have_no_bytes_is_rejected(items: Any) -> None:
    with pytest.raises(ConfigError, match="lists of items without bytes"):
        compile_schema(json.dumps({"type": "array", "items": items}))
    with pytest.raises(ConfigError, match="lists of items without bytes"):
        compile_schema(json.dumps(["null", {"type": "map", "values": {"type": "array", "items": items}}]))


def test_avro_list_whose_items_have_bytes_is_accepted() -> None:
    for items in (["null"], {"type": "map", "values": "null"}, {"type": "array", "items": "int"}, "long"):
        assert read({"type": "array", "items": items}, b"\x02\x00\x00") in ([None], [{}], [[]], [0])


def test_too_deeply_nested_avro_records_raise_an_error() -> None:
    with pytest.raises(AvroError, match="records nested too deep"):
        read(TREE, b"\x02\x02" * 200_000 + b"\x02\x00")
    assert read(TREE, b"\x02\x02" * 90 + b"\x02\x00")["id"] == 1


def test_avro_decimal_with_more_digits_than_its_schema_precision_is_not_rounded() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert read(schema, b"\x08\x00\xbc\x61\x4e") == Decimal("123456.78")


def test_avro_type_names_are_resolved_within_their_namespace() -> None:
    inner = {"type": "record", "name": "other.In", "fields": [{"name": "x", "type": "int"}]}
    kind = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
    fields = [("one", inner), ("two", "other.In"), ("kind", kind), ("again", "n.Kind"), ("last", "Kind")]
    schema = {"type": "record", "name": "n.Out", "fields": [{"name": name, "type": of} for name, of in fields]}
    found = read(schema, b"\x02\x04\x02\x00\x02")
    assert found == {"one": {"x": 1}, "two": {"x": 2}, "kind": "B", "again": "A", "last": "B"}


def deep(levels: int) -> str:
    return '{"type": "array", "items": ' * levels + '"int"' + "}" * levels


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not JSON"),
        ('"nothing"', "unknown type 'nothing'"),
        ('{"type": "record"}', "type record needs a name"),
        (deep(65), "nested more than 64 levels deep"),
        ("[" * 100_000, "not JSON"),
        ('{"type": "array"}', "expected the key 'items'"),
        ('{"type": "record", "name": "R", "fields": 7}', "value.avro.schema: "),
        ('{"type": "record", "name": "R", "fields": [{"type": "int"}]}', "expected the key 'name'"),
        ('{"type": "fixed", "name": "F", "size": "x"}', "value.avro.schema: "),
        ('{"type": "enum", "name": "E", "symbols": 3}', "value.avro.schema: "),
        ('{"type": "enum", "name": "E", "symbols": ["a", "a"]}', "value.avro.schema: "),
        ('{"type": "fixed", "name": "F", "size": Infinity}', "expected a whole number as 'size', found Infinity"),
        ('{"type": "bytes", "logicalType": "decimal", "scale": Infinity}', "expected a whole number as 'scale'"),
        ('{"type": {"a": 1}}', "expected a type"),
        ('{"type": 5}', "expected a type"),
    ],
)
def test_invalid_avro_schema_is_rejected(schema: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
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


def test_avro_values_are_decoded_into_columns_and_bad_values_are_reported() -> None:
    schema = pa.schema([("id", pa.int32()), ("tags", pa.map_(pa.string(), pa.int64()))])
    decoder = ValueFormat("avro", schema, avro=ORDER)
    good, huge = b"\x02\x02\x02a\x02\x02x\x0e\x00", b"\x80\x80\x80\x80\x80\x01\x00\x00"

    found = decoder.decode(pa.array([good, None, b"\x02", huge, good + b"!"]))
    ids, tags = (column.to_pylist() for column in found.columns)

    assert ids == [1, None, None, None, None]
    assert tags[0] == [("x", 7)]
    assert set(found.problems) == {2, 3, 4}
    assert found.problems[4] == "1 bytes follow the Avro value"


def test_confluent_header_of_avro_values_is_skipped_and_unknown_column_is_rejected() -> None:
    schema = pa.schema([("id", pa.int64())])
    framed = ValueFormat("avro", schema, avro=ORDER, framing="confluent")

    found = framed.decode(pa.array([b"\x00\x00\x00\x00\x07\x02\x00\x00", b"\x02\x00\x00"]))

    assert (found.columns[0].to_pylist(), set(found.problems)) == ([1, None], {1})
    with pytest.raises(ConfigError, match=r"value\.avro\.schema has no field 'amount', only id, name, tags"):
        ValueFormat("avro", pa.schema([("amount", pa.int64())]), avro=ORDER)


def test_avro_logical_types_are_decoded_into_matching_spark_types() -> None:
    kinds = {
        "at": ("long", "timestamp-micros", pa.timestamp("us", "UTC")),
        "there": ("long", "local-timestamp-millis", pa.timestamp("us")),
        "day": ("int", "date", pa.date32()),
        "id": ("string", "uuid", pa.string()),
        "hour": ("int", "time-millis", pa.int32()),
    }
    fields = [{"name": n, "type": ["null", {"type": t, "logicalType": k}]} for n, (t, k, _) in kinds.items()]
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    record = {"type": "record", "name": "R", "fields": [*fields, {"name": "price", "type": price}]}
    columns = pa.schema([*((n, c) for n, (_, _, c) in kinds.items()), ("price", pa.decimal128(10, 2))])
    value = b"\x02\x04" + b"\x02\x04" + b"\x02\x04" + b"\x02\x48" + UUID_TEXT.encode() + b"\x02\x04" + b"\x02\x96"

    found = ValueFormat("avro", columns, avro=json.dumps(record)).decode(pa.array([value, b"\0\0\0\0\0\x02\x07"]))

    assert found.problems == {}
    assert [column.to_pylist() for column in found.columns] == [
        [datetime(1970, 1, 1, 0, 0, 0, 2, tzinfo=UTC), None],
        [datetime.fromisoformat("1970-01-01T00:00:00.002"), None],
        [date(1970, 1, 3), None],
        [UUID_TEXT, None],
        [2, None],
        [Decimal("-1.06"), Decimal("0.07")],
    ]


def test_avro_decimal_that_exceeds_its_column_precision_is_a_bad_value() -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    record = {"type": "record", "name": "R", "fields": [{"name": "price", "type": price}]}
    columns = pa.schema([("price", pa.decimal128(4, 2))])
    found = ValueFormat("avro", columns, avro=json.dumps(record)).decode(pa.array([b"\x02\x07", b"\x06\x01\x00\x00"]))
    assert (found.columns[0].to_pylist(), set(found.problems)) == ([Decimal("0.07"), None], {1})


def test_spark_column_of_type_time_is_rejected_for_avro() -> None:
    with pytest.raises(ConfigError, match="'id': an Avro time of day must be read as int or bigint"):
        ValueFormat("avro", pa.schema([("id", pa.time64("ns"))]), avro=ORDER)


def test_error_of_missing_fastavro_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(
        MissingExtra, match=r"value\.format=avro needs the package fastavro: pip install 'kohort\[pipel"
    ):
        compile_schema('{"type": "record", "name": "OfThisTestAlone", "fields": []}')
