from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow
import pytest

import kohort
from kohort import (
    AsyncConsumer,
    AsyncConsumerGroup,
    AsyncProducer,
    Consumer,
    ConsumerGroup,
    HandlerFailed,
    Producer,
    TopicPartition,
    UndecodableValue,
    UsageError,
)

PARTITIONS = 1
VALUES = [{"id": 1}, [2, "two"], None]
KEYS = ["a", "b", None]


def to_json(value: object) -> bytes:
    return json.dumps(value).encode()


def text(key: bytes | None) -> str:
    return "none" if key is None else key.decode()


@pytest.fixture
def producer(bootstrap: str) -> Iterator[Producer]:
    with Producer(bootstrap_servers=bootstrap, value_serializer=to_json, acks="all") as producer:
        yield producer


@pytest.fixture
def reading(bootstrap: str, topic: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap,
        "group_id": topic,
        "auto_offset_reset": "earliest",
        "value_deserializer": json.loads,
        "key_deserializer": text,
    }


@pytest.fixture
def sent(producer: Producer, topic: str) -> None:
    for key, value in zip(KEYS, VALUES, strict=True):
        producer.send(topic, value, key)
    producer.flush()


@pytest.fixture
def broken(bootstrap: str, producer: Producer, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as plain:
        producer.send(topic, 0).result(60_000)
        plain.send(topic, "{").result(60_000)
        producer.send(topic, 2).result(60_000)


def polled(consumer: Consumer, count: int) -> list[kohort.Record]:
    found: list[kohort.Record] = []
    while len(found) < count:
        found += consumer.poll(60_000)
    return found


def first(records: Iterator[kohort.Record], count: int) -> list[kohort.Record]:
    return [next(records) for _ in range(count)]


@pytest.mark.usefixtures("sent")
@pytest.mark.parametrize("read", [polled, lambda consumer, count: first(iter(consumer), count)], ids=["poll", "loop"])
def test_consumer_returns_deserialized_keys_and_values(
    reading: dict[str, Any], topic: str, read: Callable[[Consumer, int], list[kohort.Record]]
) -> None:
    with Consumer(**reading) as consumer:
        consumer.subscribe(topic)
        records = read(consumer, 3)

    assert [record.value for record in records] == VALUES
    assert [record.key for record in records] == ["a", "b", "none"]


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("read", [polled, lambda consumer, count: first(iter(consumer), count)], ids=["poll", "loop"])
def test_record_that_deserializer_rejects_is_raised_with_its_place_until_seek(
    reading: dict[str, Any], topic: str, read: Callable[[Consumer, int], list[kohort.Record]]
) -> None:
    partition = TopicPartition(topic, 0)
    with Consumer(**reading) as consumer:
        consumer.subscribe(topic)
        assert [record.value for record in read(consumer, 1)] == [0]
        for _ in range(2):
            with pytest.raises(UndecodableValue, match=f"{topic}-0 at offset 1: the value_deserializer failed: JSON"):
                read(consumer, 1)
            assert consumer.position(partition) == 1

        consumer.seek(partition, 2)
        assert [record.value for record in read(consumer, 1)] == [2]


@pytest.mark.usefixtures("sent")
def test_consumer_with_deserializers_reads_no_arrow(reading: dict[str, Any], topic: str) -> None:
    with Consumer(**reading) as consumer:
        consumer.subscribe(topic)
        with pytest.raises(UsageError, match="deserializer do not apply to Arrow"):
            consumer.poll_arrow(60_000)


class Handler(kohort.GroupHandler):
    def __init__(self, group: ConsumerGroup, most: int) -> None:
        self.values: list[Any] = []
        self._group = group
        self._most = most

    def consume_claim(self, session: kohort.GroupSession, claim: kohort.Claim) -> None:
        for record in claim:
            self.values.append(record.value)
            session.mark_message(record)
            if len(self.values) == self._most:
                self._group.stop()


@pytest.mark.usefixtures("sent")
def test_group_handler_gets_deserialized_values(reading: dict[str, Any], topic: str) -> None:
    with ConsumerGroup(**reading) as group:
        handler = Handler(group, 3)
        group.run(topic, handler)

    assert handler.values == VALUES


@pytest.mark.usefixtures("broken")
def test_group_handler_fails_at_record_that_deserializer_rejects(reading: dict[str, Any], topic: str) -> None:
    with ConsumerGroup(**reading) as group:
        handler = Handler(group, 3)
        with pytest.raises(HandlerFailed, match=f"{topic}-0 at offset 1: the value_deserializer failed"):
            group.run(topic, handler)

    assert handler.values == [0]


def test_async_producer_and_consumers_apply_their_functions(
    bootstrap: str, reading: dict[str, Any], topic: str
) -> None:
    async def story() -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap, value_serializer=to_json) as producer:
            await producer.send_and_wait(topic, VALUES[0], KEYS[0])
            for delivery in await producer.send_batch(topic, 0, [(KEYS[1], VALUES[1]), VALUES[2]]):
                await delivery
            with pytest.raises(UsageError, match="do not apply to send_arrow"):
                await producer.send_arrow(topic, pyarrow.table({"value": [b"v"]}))
        async with AsyncConsumer(**reading) as consumer:
            consumer.subscribe(topic)
            found = [await consumer.getone() for _ in range(3)]
        assert [record.value for record in found] == VALUES

        values: list[Any] = []

        class AsyncHandler(kohort.AsyncGroupHandler):
            async def consume_claim(self, _session: kohort.AsyncGroupSession, claim: kohort.AsyncClaim) -> None:
                async for record in claim:
                    values.append(record.value)
                    if len(values) == 3:
                        group.stop()

        async with AsyncConsumerGroup(**{**reading, "group_id": f"{topic}-handlers"}) as group:
            await group.run(topic, AsyncHandler())
        assert values == VALUES

    asyncio.run(asyncio.wait_for(story(), 120))


def test_producer_serializes_values_of_send_batch(producer: Producer, reading: dict[str, Any], topic: str) -> None:
    for delivery in producer.send_batch(topic, 0, [VALUES[0], (b"k", VALUES[1])]):
        delivery.result(60_000)

    with Consumer(**reading) as consumer:
        consumer.subscribe(topic)
        assert [(r.key, r.value) for r in polled(consumer, 2)] == [("none", VALUES[0]), ("k", VALUES[1])]


def test_subclass_of_producer_keeps_its_methods_with_serializers(bootstrap: str) -> None:
    class Named(Producer):
        name = "named"

    with Named(bootstrap_servers=bootstrap, value_serializer=str.encode) as producer:
        assert type(producer) is Named


def test_value_that_serializer_rejects_is_not_sent(producer: Producer, topic: str) -> None:
    with pytest.raises(UsageError, match=rf"the value_serializer failed for a record of '{topic}': TypeError"):
        producer.send(topic, object())
    with pytest.raises(UsageError, match="key_serializer and value_serializer do not apply to send_arrow"):
        producer.send_arrow(topic, pyarrow.table({"value": [b"v"]}))
