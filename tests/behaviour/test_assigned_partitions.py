from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kohort import AsyncConsumer, Consumer, Producer, TopicPartition
from kohort.testing import StagedBroker

PARTITIONS = [TopicPartition("t", number) for number in range(50)]
RECORDS = 400
PATIENCE_MS = 20_000


@pytest.fixture(scope="module")
def broker() -> Iterator[StagedBroker]:
    with StagedBroker(num_partitions=len(PARTITIONS)) as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("t", b"v", partition=number % len(PARTITIONS))
            producer.flush()
        yield broker


def test_consumer_reads_fifty_assigned_partitions_after_one_list_offsets(broker: StagedBroker):
    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", client_id="blocking") as consumer:
        consumer.assign(PARTITIONS)
        read = 0
        while read < RECORDS:
            records = consumer.poll(timeout_ms=PATIENCE_MS)
            assert records
            read += len(records)

    assert len(broker.requests("ListOffsets", client_id="blocking")) == 1


def test_async_consumer_reads_fifty_assigned_partitions_after_one_list_offsets(broker: StagedBroker):
    async def play() -> None:
        options = {"auto_offset_reset": "earliest", "client_id": "asyncio"}
        async with AsyncConsumer(bootstrap_servers=broker.bootstrap, **options) as consumer:
            consumer.assign(PARTITIONS)
            read = 0
            while read < RECORDS:
                records = await consumer.poll(timeout_ms=PATIENCE_MS)
                assert records
                read += len(records)

    asyncio.run(play())

    assert len(broker.requests("ListOffsets", client_id="asyncio")) == 1
