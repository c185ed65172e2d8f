"""Serializers of confluent-kafka and kohort at one registry: each reads the other's values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import schema_registry as theirs
from confluent_kafka.schema_registry import avro, json_schema, protobuf
from confluent_kafka.serialization import SerializationContext as TheirContext

from kohort import (
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaReference,
    SchemaRegistry,
    SerializationContext,
)
from support.protobuf_messages import made_classes
from support.schema_registry import FakeRegistry, fake_registry

ADDRESS = '{"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "city", "type": "string"}]}'
USER = json.dumps({
    "type": "record", "name": "User", "namespace": "shop", "fields": [
        {"name": "name", "type": "string"}, {"name": "home", "type": ["null", "shop.Address"], "default": None},
    ],
})  # fmt: skip
NEWER = json.dumps({
    "type": "record", "name": "User", "namespace": "shop", "fields": [
        {"name": "name", "type": "string"}, {"name": "vip", "type": "boolean", "default": True},
    ],
})  # fmt: skip
CITY = '{"title": "City", "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'
PERSON = '{"title": "Person", "type": "object", "properties": {"home": {"$ref": "city.json"}}}'
CLASSES = made_classes()
User, Address, Login = CLASSES["User"], CLASSES["Address"], CLASSES["User.Login"]
PREFIX, HEADER = "prefix", "header"


class Sides(NamedTuple):
    """Both registry clients of one fake registry."""

    server: FakeRegistry
    ours: SchemaRegistry
    theirs: Any


@pytest.fixture
def sides() -> Iterator[Sides]:
    with fake_registry() as server:
        yield Sides(server, SchemaRegistry(server.url), theirs.SchemaRegistryClient({"url": server.url}))


def their_options(form: str) -> dict[str, Any]:
    return {"schema.id.serializer": theirs.header_schema_id_serializer} if form == HEADER else {}


def theirs_to_ours(serializer: Any, deserializer: Any, value: Any) -> Any:
    ctx = TheirContext("t", "value", [])
    data = serializer(value, ctx)
    return deserializer(data, SerializationContext("t", "value", ctx.headers))


def ours_to_theirs(serializer: Any, deserializer: Any, value: Any) -> Any:
    ctx = SerializationContext("t", "value")
    data = serializer(value, ctx)
    return deserializer(data, TheirContext("t", "value", list(ctx.headers)))


def with_references(register: Callable[..., Any], base: str, schema_type: str, make: Any, reference: Any) -> Any:
    register("base", make(base, schema_type))
    name = "shop.Address" if schema_type == "AVRO" else "city.json"
    return make(USER if schema_type == "AVRO" else PERSON, schema_type, [reference(name, "base", 1)])


@pytest.mark.parametrize("form", [PREFIX, HEADER])
def test_avro_with_references(sides: Sides, form: str) -> None:
    value = {"name": "x", "home": {"city": "Bonn"}}
    schema = with_references(sides.theirs.register_schema, ADDRESS, "AVRO", theirs.Schema, theirs.SchemaReference)
    their_serializer = avro.AvroSerializer(sides.theirs, schema, conf=their_options(form))
    assert theirs_to_ours(their_serializer, AvroDeserializer(sides.ours), value) == value

    ours = with_references(sides.ours.register_schema, ADDRESS, "AVRO", Schema, SchemaReference)
    our_serializer = AvroSerializer(sides.ours, ours, schema_id_in=form)
    assert ours_to_theirs(our_serializer, avro.AvroDeserializer(sides.theirs), value) == value
    assert len(sides.server.schemas) == 2, "both clients registered the same two schemas"


@pytest.mark.parametrize("form", [PREFIX, HEADER])
def test_avro_values_are_read_with_a_later_schema(sides: Sides, form: str) -> None:
    old = USER.replace(', {"name": "home", "type": ["null", "shop.Address"], "default": null}', "")
    expected = {"name": "a longer name", "vip": True}
    value = {"name": "a longer name"}
    their_serializer = avro.AvroSerializer(sides.theirs, old, conf=their_options(form))
    assert theirs_to_ours(their_serializer, AvroDeserializer(sides.ours, NEWER), value) == expected
    our_serializer = AvroSerializer(sides.ours, old, schema_id_in=form)
    assert ours_to_theirs(our_serializer, avro.AvroDeserializer(sides.theirs, NEWER), value) == expected


@pytest.mark.parametrize(
    ("schema", "value"),
    [('"string"', "a long text"), ('"bytes"', b"some bytes"), ('"long"', 1 << 60), ('["null", "string"]', "text")],
)
def test_avro_without_a_record(sides: Sides, schema: str, value: Any) -> None:
    their_serializer = avro.AvroSerializer(sides.theirs, schema)
    assert theirs_to_ours(their_serializer, AvroDeserializer(sides.ours), value) == value
    assert ours_to_theirs(AvroSerializer(sides.ours, schema), avro.AvroDeserializer(sides.theirs), value) == value


def test_short_value_beside_its_header_is_read(sides: Sides) -> None:
    their_serializer = avro.AvroSerializer(sides.theirs, '"int"', conf=their_options(HEADER))
    assert theirs_to_ours(their_serializer, AvroDeserializer(sides.ours), 1) == 1


@pytest.mark.parametrize("form", [PREFIX, HEADER])
def test_json_schema_with_references(sides: Sides, form: str) -> None:
    value = {"home": {"city": "Köln"}}
    schema = with_references(sides.theirs.register_schema, CITY, "JSON", theirs.Schema, theirs.SchemaReference)
    their_serializer = json_schema.JSONSerializer(schema, sides.theirs, conf=their_options(form))
    assert theirs_to_ours(their_serializer, JSONDeserializer(registry=sides.ours), value) == value

    ours = with_references(sides.ours.register_schema, CITY, "JSON", Schema, SchemaReference)
    our_serializer = JSONSerializer(ours, sides.ours, schema_id_in=form)
    their_deserializer = json_schema.JSONDeserializer(None, schema_registry_client=sides.theirs)
    assert ours_to_theirs(our_serializer, their_deserializer, value) == value
    for serializer, ctx in (
        (our_serializer, SerializationContext("t")),
        (their_serializer, TheirContext("t", "value", [])),
    ):
        with pytest.raises(Exception, match=r"'city' is a required property"):
            serializer({"home": {}}, ctx)


@pytest.mark.parametrize("form", [PREFIX, HEADER])
@pytest.mark.parametrize(
    "value", [User(name="x", id=3, home=Address(city="Bonn")), Login(token="t"), CLASSES["Other"](id=7)]
)
def test_protobuf_with_imports_and_nested_messages(sides: Sides, form: str, value: Any) -> None:
    their_serializer = protobuf.ProtobufSerializer(type(value), sides.theirs, conf=their_options(form))
    assert theirs_to_ours(their_serializer, ProtobufDeserializer(type(value)), value) == value
    made = theirs_to_ours(their_serializer, ProtobufDeserializer(registry=sides.ours), value)
    assert made.SerializeToString() == value.SerializeToString()

    our_serializer = ProtobufSerializer(type(value), sides.ours, schema_id_in=form)
    their_deserializer = protobuf.ProtobufDeserializer(type(value), schema_registry_client=sides.theirs)
    assert ours_to_theirs(our_serializer, their_deserializer, value) == value
    assert len(sides.server.schemas) == 2, "both clients registered the same two files"


@pytest.mark.parametrize("strategy", ["TOPIC", "RECORD", "TOPIC_RECORD"])
def test_both_clients_register_under_the_same_subjects(sides: Sides, strategy: str) -> None:
    conf = {"subject.name.strategy.type": strategy}
    avro.AvroSerializer(sides.theirs, NEWER, conf=conf)({"name": "x", "vip": True}, TheirContext("t", "value", []))
    expected = dict(sides.server.subjects)
    serializer = AvroSerializer(sides.ours, NEWER, subject_name_strategy=strategy)
    serializer({"name": "x", "vip": True}, SerializationContext("t"))
    assert sides.server.subjects == expected
    assert len(expected) == 1
