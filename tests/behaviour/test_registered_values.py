"""Serializers with a registry in every client: Avro by name and by object, headers, bad values, a lost registry."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kohort import (
    AsyncConsumer,
    AsyncConsumerGroup,
    AsyncProducer,
    AsyncSchemaRegistry,
    AvroDeserializer,
    AvroSerializer,
    ConfigError,
    Consumer,
    ConsumerGroup,
    HandlerFailed,
    JSONDeserializer,
    Producer,
    SchemaRegistry,
    SchemaRegistryError,
    TopicPartition,
    Undecodable,
    UndecodableValue,
    UsageError,
)
from support.schema_registry import FakeRegistry, fake_registry

PARTITIONS = 1
SCHEMA = (
    '{"type": "record", "name": "Order", "namespace": "shop", "fields": '
    '[{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": null}]}'
)
FIRST, SECOND = {"id": 1, "note": None}, {"id": 2, "note": "x"}
BAD = b"\0\0\0\0\1\xff"
UNKNOWN = b"\0\0\0\0\x63\2\0"


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    with fake_registry() as server:
        yield server


@pytest.fixture
def reading(bootstrap: str, topic: str, server: FakeRegistry) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap,
        "group_id": topic,
        "auto_offset_reset": "earliest",
        "value_deserializer": "avro",
        "schema_registry_url": server.url,
        "schema_registry_max_retries": 0,
    }


def produce(bootstrap: str, topic: str, server: FakeRegistry, *values: Any, **options: Any) -> None:
    serializer = AvroSerializer(SchemaRegistry(server.url), SCHEMA, **options)
    with Producer(bootstrap_servers=bootstrap, value_serializer=serializer) as producer:
        for value in values:
            producer.send(topic, value, "k")


def produce_bytes(bootstrap: str, topic: str, *values: bytes) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_batch(topic, 0, values)


def values_of(options: dict[str, Any], topic: str, count: int) -> list[Any]:
    found: list[Any] = []
    with Consumer(**options) as consumer:
        consumer.subscribe(topic)
        while len(found) < count:
            found += [record.value for record in consumer.poll(60_000)]
    return found


async def async_values_of(options: dict[str, Any], topic: str, count: int) -> list[Any]:
    found: list[Any] = []
    async with AsyncConsumer(**options) as consumer:
        consumer.subscribe(topic)
        while len(found) < count:
            found += [record.value for record in await consumer.poll(60_000)]
    return found


def test_blocking_consumer_reads_avro_by_name(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    produce(bootstrap, topic, server, FIRST, SECOND, None)
    assert values_of(reading, topic, 3) == [FIRST, SECOND, None]
    assert server.requests == [f"POST /subjects/{topic}-value/versions", "GET /schemas/ids/1"]


def test_asyncio_consumer_awaits_the_schema(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    produce(bootstrap, topic, server, FIRST, SECOND, schema_id_in="header")
    assert asyncio.run(async_values_of(reading, topic, 2)) == [FIRST, SECOND]

    async def iterated() -> list[Any]:
        found: list[Any] = []
        async with AsyncConsumer(reading, group_id=None) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            async for record in consumer:
                found.append(record)
                if len(found) == 2:
                    return found
        return found

    del reading["group_id"]
    records = asyncio.run(iterated())
    assert [record.value for record in records] == [FIRST, SECOND]
    assert [name for name, _ in records[0].headers] == ["__value_schema_id"]


@pytest.mark.parametrize("in_batch", [False, True])
def test_asyncio_producer_awaits_the_registration(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any], in_batch: bool
) -> None:
    async def sent() -> None:
        serializer = AvroSerializer(AsyncSchemaRegistry(server.url), SCHEMA, schema_id_in="header")
        async with AsyncProducer(bootstrap_servers=bootstrap, value_serializer=serializer) as producer:
            if in_batch:
                await producer.send_batch(topic, 0, [("k", FIRST), ("k", SECOND, [("a", b"b")])])
            else:
                await producer.send(topic, FIRST)
                await producer.send(topic, SECOND, headers={"a": "b"})

    asyncio.run(sent())
    assert values_of(reading, topic, 2) == [FIRST, SECOND]


def test_named_serializer_writes_with_the_latest_version(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    server.register(f"{topic}-value", {"schema": SCHEMA})
    server.register(f"{topic}-key", {"schema": '"string"'})
    options: dict[str, Any] = {"key_serializer": "avro", "value_serializer": "avro", "schema_registry_url": server.url}
    with Producer(bootstrap_servers=bootstrap, **options) as producer:
        producer.send_batch(topic, 0, [(f"k{i}", {"id": i}) for i in range(3)])
    assert [value["id"] for value in values_of(reading, topic, 3)] == [0, 1, 2]


class Collecting:
    def __init__(self, count: int) -> None:
        self.count = count
        self.values: list[Any] = []

    def setup(self, session: Any) -> None: ...
    def cleanup(self, session: Any) -> None: ...

    def consume_claim(self, _session: Any, claim: Any) -> None:
        for record in claim:
            self.values.append(record.value)
            if len(self.values) == self.count:
                return


class AsyncCollecting:
    def __init__(self, count: int) -> None:
        self.count = count
        self.values: list[Any] = []

    async def setup(self, session: Any) -> None: ...
    async def cleanup(self, session: Any) -> None: ...

    async def consume_claim(self, _session: Any, claim: Any) -> None:
        async for record in claim:
            self.values.append(record.value)
            if len(self.values) == self.count:
                return


def test_handlers_in_threads_and_tasks_read_avro(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    produce(bootstrap, topic, server, FIRST, SECOND)
    handler = Collecting(2)
    with ConsumerGroup(**reading) as group:
        group.consume(topic, handler)

    async def handled() -> list[Any]:
        handler = AsyncCollecting(2)
        async with AsyncConsumerGroup(**{**reading, "group_id": f"{topic}-2"}) as group:
            await group.consume(topic, handler)
        return handler.values

    assert handler.values == asyncio.run(handled()) == [FIRST, SECOND]


def test_handler_functions_read_avro_and_skip_bad_values(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    produce_bytes(bootstrap, topic, b"text")
    produce(bootstrap, topic, server, FIRST, SECOND)
    options = {**reading, "on_decode_error": "skip"}
    found: list[Any] = []
    with ConsumerGroup(**options) as group:

        def collect(record: Any) -> None:
            found.append(record.value)
            if len(found) == 2:
                group.stop()

        group.handle(topic, collect)

    async def handled() -> None:
        async with AsyncConsumerGroup(**{**options, "group_id": f"{topic}-2"}) as group:

            async def collect(records: list[Any]) -> None:
                found.extend(record.value for record in records)
                if len(found) == 4:
                    group.stop()

            await group.handle(topic, collect, batches=True)

    asyncio.run(handled())
    assert found == [FIRST, SECOND, FIRST, SECOND]


def test_handler_fails_with_the_registrys_error(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    produce(bootstrap, topic, server, FIRST)
    server.script += [(503, {}), (401, {"message": "who are you"})]
    with ConsumerGroup(**reading) as group, pytest.raises(HandlerFailed, match=r"\(503\)"):
        group.consume(topic, Collecting(1))

    async def handled() -> None:
        async with AsyncConsumerGroup(**reading) as group:
            await group.consume(topic, AsyncCollecting(1))

    with pytest.raises(HandlerFailed, match=r"\(401\)"):
        asyncio.run(handled())


def test_lost_registry_is_no_bad_record(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    produce(bootstrap, topic, server, FIRST)
    server.script.append((503, {}))
    with Consumer(reading, on_decode_error="skip") as consumer:
        consumer.subscribe(topic)
        with pytest.raises(SchemaRegistryError, match=r"\(503\)") as caught:
            consumer.poll(60_000)
        assert caught.value.retriable
        assert [record.value for record in consumer.poll(60_000)] == [FIRST]


def test_page_of_a_proxy_is_no_unknown_schema(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    produce(bootstrap, topic, server, FIRST)
    server.script.append((404, b"<html>no route</html>"))
    with Consumer(reading, on_decode_error="skip") as consumer:
        consumer.subscribe(topic)
        with pytest.raises(SchemaRegistryError, match=r"\(404\): check the path"):
            consumer.poll(60_000)
        assert [record.value for record in consumer.poll(60_000)] == [FIRST]


def test_odd_references_without_a_path_in_the_registry_are_skipped(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    produce_bytes(bootstrap, topic, b"\0\xff\xff\xff\xff\0", b"\1" + b"g" * 17)
    produce(bootstrap, topic, server, FIRST)
    server.script += [(404, {"error_code": 404}), (404, {"error_code": 404})]
    assert values_of({**reading, "on_decode_error": "skip"}, topic, 1) == [FIRST]


@pytest.mark.parametrize("bad", [BAD, UNKNOWN, b"text"])
def test_bad_value_raises_with_its_place_and_stays_unread(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any], bad: bytes
) -> None:
    produce(bootstrap, topic, server, FIRST)
    produce_bytes(bootstrap, topic, bad)
    with Consumer(**reading) as consumer:
        consumer.subscribe(topic)
        assert [record.value for record in consumer.poll(60_000)] == [FIRST]
        for _ in range(2):
            with pytest.raises(
                UndecodableValue, match=f"{topic}-0 at offset 1: the value_deserializer failed: "
            ) as caught:
                consumer.poll(60_000)
            assert (caught.value.topic, caught.value.partition, caught.value.offset) == (topic, 0, 1)


@pytest.mark.parametrize("kind", ["blocking", "asyncio", "handler", "iteration"])
def test_skipped_values_are_logged_and_passed(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any], kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    produce_bytes(bootstrap, topic, b"text")
    produce(bootstrap, topic, server, FIRST)
    produce_bytes(bootstrap, topic, BAD, UNKNOWN)
    produce(bootstrap, topic, server, SECOND)
    options = {**reading, "on_decode_error": "skip"}
    with caplog.at_level(logging.WARNING, "kohort.consumer"):
        if kind == "blocking":
            found = values_of(options, topic, 2)
        elif kind == "asyncio":
            found = asyncio.run(async_values_of(options, topic, 2))
        elif kind == "iteration":
            with Consumer(**options) as consumer:
                consumer.subscribe(topic)
                found = [record.value for _, record in zip(range(2), consumer, strict=False)]
        else:
            handler = Collecting(2)
            with ConsumerGroup(**options) as group:
                group.consume(topic, handler)
            found = handler.values
    assert found == [FIRST, SECOND]
    assert f"undecodable records, the first in {topic}-0 at offset 0" in caplog.text


def test_undecodable_object_has_bytes_and_error(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"text", b"\xff").result()
    with Consumer(reading, on_decode_error="undecodable", key_deserializer="text") as consumer:
        consumer.subscribe(topic)
        (record,) = consumer.poll(60_000)
    assert isinstance(record.value, Undecodable)
    assert isinstance(record.key, Undecodable)
    assert (record.key.data, record.value.data) == (b"\xff", b"text")
    assert record.value.error.offset == 0
    assert "no schema registry wrote it" in str(record.value.error)


def test_unknown_schema_of_key_and_value_is_undecodable(bootstrap: str, topic: str, server: FakeRegistry) -> None:
    registry = SchemaRegistry(server.url)
    produce(bootstrap, topic, server, FIRST)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, UNKNOWN, UNKNOWN).result()
    avro = AvroDeserializer(registry)
    options = {"bootstrap_servers": bootstrap, "group_id": topic, "auto_offset_reset": "earliest"}
    server.requests.clear()
    with Consumer(options, key_deserializer=avro, value_deserializer=avro, on_decode_error="undecodable") as consumer:
        consumer.subscribe(topic)
        read: list[Any] = [record for _, record in zip(range(2), consumer, strict=False)]
    text_key, unknown = read
    assert (text_key.key.data, text_key.value) == (b"k", FIRST)
    assert (unknown.key.data, unknown.value.data) == (UNKNOWN, UNKNOWN)
    assert "schema 99: " in str(unknown.value.error)
    assert len(server.requests) < 10


def test_refused_schema_fails_the_send(bootstrap: str, topic: str, server: FakeRegistry) -> None:
    server.incompatible.add(f"{topic}-value")
    with pytest.raises(SchemaRegistryError, match=r"incompatible .* \(409\): test_compatibility") as caught:
        produce(bootstrap, topic, server, FIRST)
    assert caught.value.subject == f"{topic}-value"
    with pytest.raises(SchemaRegistryError, match=r"not found\. \(40401\)"):
        produce(bootstrap, topic, server, FIRST, auto_register=False)
    server.incompatible.clear()
    with pytest.raises(UsageError, match=f"the value_serializer failed for a record of '{topic}'"):
        produce(bootstrap, topic, server, {"id": "x"})


def test_reader_schema_and_from_dict_shape_the_value(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    produce(bootstrap, topic, server, FIRST)
    reader = SCHEMA.replace(
        '"note", "type": ["null", "string"], "default": null', '"vip", "type": "boolean", "default": true'
    )
    deserializer = AvroDeserializer(SchemaRegistry(server.url), reader, lambda value, ctx: (ctx.topic, value))
    assert values_of({**reading, "value_deserializer": deserializer}, topic, 1) == [(topic, {"id": 1, "vip": True})]


def test_latest_version_reads_values_of_earlier_ones(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    produce(bootstrap, topic, server, FIRST)
    server.register(f"{topic}-value", {"schema": SCHEMA.replace('"note"', '"text"')})
    deserializer = AvroDeserializer(SchemaRegistry(server.url), use_latest_version=True)
    assert values_of({**reading, "value_deserializer": deserializer}, topic, 1) == [{"id": 1, "text": None}]


def test_avro_values_are_no_json_schema_values(
    bootstrap: str, topic: str, server: FakeRegistry, reading: dict[str, Any]
) -> None:
    produce(bootstrap, topic, server, FIRST)
    reading["value_deserializer"] = JSONDeserializer(registry=SchemaRegistry(server.url))
    with pytest.raises(UndecodableValue, match="the schema has type AVRO, not JSON"):
        values_of(reading, topic, 1)


def test_plain_formats_by_name(bootstrap: str, topic: str) -> None:
    cases: list[tuple[str, Any]] = [
        ("text", "é"), ("json", {"a": [1, None]}), ("int32", -7), ("int64", 1 << 40), ("float64", 0.5), ("json", None)
    ]  # fmt: skip
    for name, value in cases:
        with Producer(bootstrap_servers=bootstrap, value_serializer=name) as producer:  # type: ignore[arg-type]  # any name
            offset = producer.send(topic, value).result().offset
        options: dict[str, Any] = {"bootstrap_servers": bootstrap, "value_deserializer": name}
        with Consumer(**options) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek(TopicPartition(topic, 0), offset)
            assert [record.value for record in consumer.poll(60_000)] == [value]


def test_wrong_options_name_the_remedy(bootstrap: str) -> None:
    with pytest.raises(ConfigError, match=r"avro and json-schema need schema\.registry\.url"):
        Consumer(bootstrap_servers=bootstrap, value_deserializer="avro")
    with pytest.raises(ConfigError, match="one of text, json, int32"):
        Consumer(bootstrap_servers=bootstrap, value_deserializer="avo")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ConfigError, match="expected one of raise, skip, undecodable"):
        Consumer(bootstrap_servers=bootstrap, on_decode_error="ignore")  # type: ignore[arg-type]  # wrong on purpose
