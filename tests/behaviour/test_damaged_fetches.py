from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

import kohort
from kohort import AsyncConsumer, AsyncConsumerGroup, AsyncGroupHandler, Consumer, ConsumerGroup, GroupHandler
from support.peers.relay import Relay

RECORDS = [b"flight %d" % n for n in range(30)]
OPTIONS = {"group_id": "g", "auto_offset_reset": "earliest"}


@pytest.fixture
def relay() -> Iterator[Relay]:
    with Relay(num_partitions=1) as relay:
        with kohort.Producer(bootstrap_servers=relay.bootstrap, linger_ms=0) as producer:
            for first in range(0, 30, 10):  # three batches
                for record in RECORDS[first : first + 10]:
                    delivery = producer.send("flights", record)
                producer.flush()
                delivery.result()
        yield relay


def by_poll(consumer: Consumer) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < len(RECORDS):
        values += [record.value for record in consumer.poll(1000)]
    return values


def one_by_one(consumer: Consumer) -> list[bytes]:
    return [record.value for record in islice(consumer, len(RECORDS))]


def by_arrow(consumer: Consumer) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < len(RECORDS):
        values += consumer.poll_arrow(1000)["value"].to_pylist()
    return values


@pytest.mark.parametrize("read", [by_poll, one_by_one, by_arrow])
def test_blocking_consumer_fetches_damaged_data_again(
    relay: Relay, read: Callable[[Consumer], list[bytes]], caplog: pytest.LogCaptureFixture
):
    if read is by_arrow:
        pytest.importorskip("pyarrow")
    relay.damage(b"flight 15")
    with Consumer(bootstrap_servers=relay.bootstrap, **OPTIONS) as consumer:
        consumer.subscribe("flights")

        assert read(consumer) == RECORDS

    assert relay.damaged == 1
    warnings = [r.message for r in caplog.records if r.name == "kohort.consumer" and r.levelno == logging.WARNING]
    assert any(text.startswith("flights-0 at offset 10: CRC ") and "fetching again" in text for text in warnings)


def test_async_consumer_fetches_damaged_data_again(relay: Relay):
    relay.damage(b"flight 15")

    async def read() -> list[bytes]:
        async with AsyncConsumer(bootstrap_servers=relay.bootstrap, **OPTIONS) as consumer:
            consumer.subscribe("flights")
            return [(await consumer.getone()).value for _ in RECORDS]

    assert asyncio.run(read()) == RECORDS
    assert relay.damaged == 1


def test_consumer_group_fetches_damaged_data_again(relay: Relay):
    relay.damage(b"flight 15")
    values: list[bytes] = []

    class ReadingHandler(GroupHandler):
        def consume_claim(self, session, claim):
            for record in claim:
                values.append(record.value)
                session.mark_message(record)
                if len(values) == len(RECORDS):
                    group.stop()

    with ConsumerGroup(bootstrap_servers=relay.bootstrap, **OPTIONS) as group:
        group.run("flights", ReadingHandler())

    assert values == RECORDS
    assert relay.damaged == 1


def test_async_consumer_group_fetches_damaged_data_again(relay: Relay):
    relay.damage(b"flight 15")
    values: list[bytes] = []

    async def run() -> None:
        class ReadingHandler(AsyncGroupHandler):
            async def consume_claim(self, session, claim):
                async for record in claim:
                    values.append(record.value)
                    session.mark_message(record)
                    if len(values) == len(RECORDS):
                        group.stop()

        async with AsyncConsumerGroup(bootstrap_servers=relay.bootstrap, **OPTIONS) as group:
            await group.run("flights", ReadingHandler())

    asyncio.run(run())
    assert values == RECORDS
    assert relay.damaged == 1


def test_repeated_damage_raises_corrupt_record_with_its_offset(relay: Relay):
    relay.damage(b"flight 15", times=2)
    with Consumer(bootstrap_servers=relay.bootstrap, **OPTIONS) as consumer:
        consumer.subscribe("flights")
        before = islice(consumer, 10)

        assert [record.value for record in before] == RECORDS[:10]
        with pytest.raises(kohort.CorruptRecord, match="flights-0 at offset 10: CRC "):
            consumer.poll(60_000)
