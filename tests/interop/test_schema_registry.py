"""Values with registered schemas through a real registry: confluent-kafka writes and kohort reads, and the reverse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import schema_registry as theirs
from confluent_kafka.schema_registry import avro, json_schema, protobuf
from confluent_kafka.serialization import SerializationContext as TheirContext

from kohort import (
    Admin,
    AvroDeserializer,
    AvroSerializer,
    Consumer,
    JSONDeserializer,
    JSONSerializer,
    Producer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaReference,
    SchemaRegistry,
    SchemaRegistryError,
    TopicPartition,
)
from support.peers.apicurio import apicurio
from support.protobuf_messages import made_classes

pytestmark = [pytest.mark.interop, pytest.mark.toolchain, pytest.mark.slow, pytest.mark.timeout(900)]
ADDRESS = '{"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "city", "type": "string"}]}'
FIELDS = '{"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "name", "type": "string"}%s]}'
HOME = ', {"name": "home", "type": ["null", "shop.Address"], "default": null}'
VIP = ', {"name": "vip", "type": "boolean", "default": true}'
CITY = '{"title": "City", "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'
PERSON = '{"title": "Person", "type": "object", "properties": {"home": {"$ref": "city.json"}}}'
CLASSES = made_classes()
User, Login = CLASSES["User"], CLASSES["User.Login"]
PERSON_VALUE = {"home": {"city": "Köln"}}
USER_VALUE = {"name": "Ada", "home": {"city": "Bonn"}}
MESSAGES = [User(name="Ada", id=3, home=CLASSES["Address"](city="Bonn")), Login(token="t")]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with apicurio() as url:
        yield url


@pytest.fixture
def topic(either: str, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    with Admin(bootstrap_servers=either) as admin:
        admin.create_topics({name: 1})
    return name


def sent_by_confluent(bootstrap: str, topic: str, serializer: Any, value: Any) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value=serializer(value, TheirContext(topic, "value", [])))
    assert producer.flush(60) == 0


def read_by_confluent(bootstrap: str, topic: str, deserializer: Any, offset: int = 0) -> Any:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
    try:
        found = consumer.consume(1, 60)
        assert found[0].error() is None
        return deserializer(found[0].value(), TheirContext(topic, "value", found[0].headers()))
    finally:
        consumer.close()


def sent(bootstrap: str, topic: str, serializer: Any, value: Any) -> int:
    with Producer(bootstrap_servers=bootstrap, value_serializer=serializer) as producer:
        return producer.send(topic, value).result().offset


def read(bootstrap: str, topic: str, deserializer: Any) -> Any:
    with Consumer(bootstrap_servers=bootstrap, value_deserializer=deserializer) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning([TopicPartition(topic, 0)])
        return consumer.poll(60_000)[0].value


def avro_schema(register: Callable[..., Any], topic: str, make: Any, reference: Any) -> Any:
    register(f"{topic}-address", make(ADDRESS, "AVRO"))
    return make(FIELDS % HOME, "AVRO", [reference("shop.Address", f"{topic}-address", 1)])


def json_schema_of(register: Callable[..., Any], topic: str, make: Any, reference: Any) -> Any:
    register(f"{topic}-city", make(CITY, "JSON"))
    return make(PERSON, "JSON", [reference("city.json", f"{topic}-city", 1)])


def test_kohort_reads_avro_of_confluent(either: str, topic: str, url: str) -> None:
    client = theirs.SchemaRegistryClient({"url": url})
    schema = avro_schema(client.register_schema, topic, theirs.Schema, theirs.SchemaReference)
    sent_by_confluent(either, topic, avro.AvroSerializer(client, schema), USER_VALUE)
    registry = SchemaRegistry(url)
    assert read(either, topic, AvroDeserializer(registry)) == USER_VALUE
    assert read(either, topic, AvroDeserializer(registry, FIELDS % VIP)) == {"name": "Ada", "vip": True}


@pytest.mark.parametrize("form", ["prefix", "header"])
def test_confluent_reads_avro_of_kohort(either: str, topic: str, url: str, form: str) -> None:
    registry = SchemaRegistry(url)
    schema = avro_schema(registry.register_schema, topic, Schema, SchemaReference)
    sent(either, topic, AvroSerializer(registry, schema, schema_id_in=form), USER_VALUE)
    client = theirs.SchemaRegistryClient({"url": url})
    assert read_by_confluent(either, topic, avro.AvroDeserializer(client)) == USER_VALUE


def test_json_schema_in_both_directions(either: str, topic: str, url: str) -> None:
    client, registry = theirs.SchemaRegistryClient({"url": url}), SchemaRegistry(url)
    schema = json_schema_of(client.register_schema, topic, theirs.Schema, theirs.SchemaReference)
    sent_by_confluent(either, topic, json_schema.JSONSerializer(schema, client), PERSON_VALUE)
    assert read(either, topic, JSONDeserializer(registry=registry)) == PERSON_VALUE

    ours = json_schema_of(registry.register_schema, topic, Schema, SchemaReference)
    offset = sent(either, topic, JSONSerializer(ours, registry), PERSON_VALUE)
    deserializer = json_schema.JSONDeserializer(None, schema_registry_client=client)
    assert read_by_confluent(either, topic, deserializer, offset) == PERSON_VALUE


@pytest.mark.parametrize("value", MESSAGES, ids=["user", "nested"])
def test_protobuf_in_both_directions(either: str, topic: str, url: str, value: Any) -> None:
    client = theirs.SchemaRegistryClient({"url": url})
    sent_by_confluent(either, topic, protobuf.ProtobufSerializer(type(value), client), value)
    assert read(either, topic, ProtobufDeserializer(type(value))) == value

    offset = sent(either, topic, ProtobufSerializer(type(value), SchemaRegistry(url)), value)
    assert read_by_confluent(either, topic, protobuf.ProtobufDeserializer(type(value)), offset) == value


def test_calls_of_the_registry(url: str) -> None:
    registry = SchemaRegistry(url)
    schema = Schema(FIELDS % "")
    number = registry.register_schema("calls/of value", schema)
    assert registry.register_schema("calls/of value", schema) == number
    assert json.loads(registry.get_schema(number).schema_str)["name"] == "User"
    assert "calls/of value" in registry.get_subjects()
    assert registry.get_versions("calls/of value") == [1]
    latest = registry.get_latest_version("calls/of value")
    assert (latest.schema_id, latest.version) == (number, 1)
    assert registry.lookup_schema("calls/of value", schema).schema_id == number
    assert registry.test_compatibility("calls/of value", Schema(FIELDS % VIP))
    for call, code in (
        (lambda: registry.get_schema(99_999), 40403),
        (lambda: registry.get_versions("missing"), 40401),
        (lambda: registry.get_version("calls/of value", 7), 40402),
    ):
        with pytest.raises(SchemaRegistryError) as caught:
            call()
        assert caught.value.code == code
    with pytest.raises(SchemaRegistryError, match=r"\(42201\): correct the schema"):
        registry.register_schema("bad", Schema('{"type": "nothing"}'))
