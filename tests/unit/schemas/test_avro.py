"""Avro codec: references, evolution, logical types, hostile schemas and bytes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from kohort.errors import ConfigError, UndecodableValue
from kohort.schemas.avro import AvroDeserializer, AvroSchema, AvroSerializer, record_name
from kohort.schemas.framing import reference_bytes
from kohort.schemas.schema import RegisteredSchema, ResolvedSchema, Schema
from kohort.schemas.serde import SerializationContext

USER = '{"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}'


class NoRegistry:
    """Registry object of tests that encode and decode without requests."""

    calls = None

    def run(self, call: Any) -> Any:
        raise AssertionError("no request expected")

    run_async = run


def as_resolved(schema: str, **named: str) -> ResolvedSchema:
    return ResolvedSchema(
        RegisteredSchema(1, Schema(schema)), tuple((n.replace("__", "."), s) for n, s in named.items())
    )


def there_and_back(schema: str, value: Any, reader: str | None = None, **named: str) -> Any:
    encode = AvroSerializer(
        NoRegistry(), Schema(schema, references=()) if not named else None, use_schema_id=1 if named else None
    )._encoder(as_resolved(schema, **named))
    decode = AvroDeserializer(NoRegistry())._decoder(
        as_resolved(schema, **named), None if reader is None else as_resolved(reader), ()
    )
    return decode(encode(value))


def test_values_of_logical_types_return_as_written() -> None:
    schema = json.dumps({
        "type": "record", "name": "R", "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
            {"name": "tags", "type": {"type": "map", "values": ["null", {"type": "array", "items": "int"}]}},
            {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        ]
    })  # fmt: skip
    value = {
        "at": datetime(2026, 1, 2, tzinfo=UTC), "price": Decimal("12.50"), "tags": {"a": None, "b": [1, 2]},
        "color": "BLUE",
    }  # fmt: skip
    assert there_and_back(schema, value) == value


def test_reader_schema_adds_defaults_and_drops_fields() -> None:
    old = '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}'
    new = (
        '{"type": "record", "name": "A", "fields": '
        '[{"name": "a", "type": "long"}, {"name": "c", "type": ["null", "string"], "default": null}]}'
    )
    assert there_and_back(old, {"a": 1, "b": "x"}, new) == {"a": 1, "c": None}


def test_top_level_bytes_have_no_length_before_them() -> None:
    encode = AvroSerializer(NoRegistry(), '"bytes"')._encoder(as_resolved('"bytes"'))
    assert encode(b"\1\2") == b"\1\2"
    assert there_and_back('{"type": "bytes"}', b"\1\2") == b"\1\2"
    assert there_and_back('"bytes"', b"text", '"string"') == "text"
    assert there_and_back('"string"', "text") == "text"


def test_references_may_be_shared_and_nested() -> None:
    point = '{"type": "record", "name": "Point", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]}'
    line = (
        '{"type": "record", "name": "Line", "namespace": "geo", "fields": '
        '[{"name": "from", "type": "Point"}, {"name": "to", "type": "geo.Point"}]}'
    )
    union = '["null", "geo.Point", "geo.Line"]'
    value = {"from": {"x": 1}, "to": {"x": 2}}
    assert there_and_back(union, ("geo.Line", value), geo__Point=point, geo__Line=line) == value
    assert there_and_back(union, None, geo__Point=point, geo__Line=line) is None


def test_reference_named_without_its_namespace_is_found() -> None:
    outer = '{"type": "record", "name": "Outer", "namespace": "shop", "fields": [{"name": "user", "type": "User"}]}'
    assert there_and_back(outer, {"user": {"name": "x"}}, shop__User=USER) == {"user": {"name": "x"}}


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (USER, "shop.User"), ('{"type": "record", "name": "a.B", "namespace": "c", "fields": []}', "a.B"),
        ('"string"', "string"), ('{"type": "long"}', "long"), ('["null", "int"]', None),
    ],
)  # fmt: skip
def test_record_name_is_the_full_name(schema: str, name: str | None) -> None:
    assert record_name(json.loads(schema)) == name


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "not JSON"),
        ('{"type": "record", "name": "A", "fields": [{"name": "b", "type": "Missing"}]}', "unknown type 'Missing'"),
        ('{"type": "record", "fields": []}', "needs a name"),
        ('{"type": "record", "name": "A"}', "fields"),
        ('{"type": "array", "items": "null"}', "items without bytes"),
        ('{"type": "array", "items": {"type": "record", "name": "E", "fields": []}}', "items without bytes"),
        ("[" * 300 + "]" * 300, "nested more than 100 levels"),
        ('{"type": "record", "name": "A", "fields": [1]}', "invalid Avro schema"),
    ],
)
def test_invalid_schema_is_rejected_when_the_serializer_is_made(schema: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        AvroSerializer(NoRegistry(), schema)


def test_truncated_and_damaged_values_are_undecodable() -> None:
    decode = AvroDeserializer(NoRegistry())._decoder(as_resolved(USER), None, ())
    for data in (b"", b"\x0cabc", b"\xff" * 20, b"\x02\xff"):
        with pytest.raises(UndecodableValue, match=r"^Avro: "):
            decode(data)


def test_huge_counts_end_with_the_bytes() -> None:
    decode = AvroDeserializer(NoRegistry())._decoder(as_resolved('{"type": "array", "items": "int"}'), None, ())
    with pytest.raises(UndecodableValue, match="truncated"):
        decode(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\2")


def test_deep_nesting_of_a_recursive_record_is_undecodable() -> None:
    node = '{"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}'
    assert AvroSchema(node).is_recursive
    decode = AvroDeserializer(NoRegistry())._decoder(as_resolved(node), None, ())
    assert decode(b"\2\2\0") == {"next": {"next": {"next": None}}}
    with pytest.raises(UndecodableValue, match="nested too deep"):
        decode(b"\2" * 100_000)


def test_strict_validation_rejects_additional_fields() -> None:
    encode = AvroSerializer(NoRegistry(), USER, validate_strict=True)._encoder(as_resolved(USER))
    assert encode({"name": "x"}) == b"\2x"
    with pytest.raises(ValueError, match="age"):
        encode({"name": "x", "age": 1})


def test_schema_of_another_type_is_rejected() -> None:
    other = ResolvedSchema(RegisteredSchema(1, Schema("{}", "JSON")))
    with pytest.raises(ConfigError, match="type JSON, not AVRO"):
        AvroDeserializer(NoRegistry())._decoder(other, None, ())
    with pytest.raises(ConfigError, match="expected a schema of type AVRO"):
        AvroSerializer(NoRegistry(), Schema("{}", "JSON"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "needs a schema, use_latest_version=True or use_schema_id=ID"),
        ({"schema": USER, "use_latest_version": True, "auto_register": True}, "exclude each other"),
        ({"schema": USER, "use_schema_id": 3, "auto_register": True}, "use_schema_id exclude each other"),
        ({"schema": USER, "schema_id_in": "body"}, "expected prefix or header"),
        ({"schema": USER, "subject_name_strategy": "TOPICS"}, "expected TOPIC, RECORD, TOPIC_RECORD or a function"),
    ],
)
def test_conflicting_options_are_rejected(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        AvroSerializer(NoRegistry(), **options)


def test_other_object_as_registry_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"the first argument is a kohort\.SchemaRegistry, not str"):
        AvroSerializer("http://localhost:8081", USER)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="exclude each other"):
        AvroDeserializer(NoRegistry(), USER, use_latest_version=True)


def test_value_without_framing_is_undecodable() -> None:
    with pytest.raises(UndecodableValue, match="no schema registry wrote it"):
        AvroDeserializer(NoRegistry()).deserialize(b'{"name": "x"}', SerializationContext("t"))
    assert AvroDeserializer(NoRegistry())(None, SerializationContext("t")) is None
    assert reference_bytes(1) == b"\0\0\0\0\1"
