from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import kohort
from kohort import AsyncConsumer, Consumer, TopicPartition, Wakeup
from support.waiting import eventually

PARTITIONS = 1
RECORDS = 20
HOUR_MS = 3_600_000


def poll_for_an_hour(consumer: Consumer) -> None:
    while True:
        consumer.poll(HOUR_MS)


def poll_arrow_for_an_hour(consumer: Consumer) -> None:
    while True:
        consumer.poll_arrow(HOUR_MS)


def iterate(consumer: Consumer) -> None:
    for _record in consumer:
        pass


def iterate_arrow(consumer: Consumer) -> None:
    for _batch in consumer.iter_arrow():
        pass


async def poll_async(consumer: AsyncConsumer) -> None:
    while True:
        await consumer.poll(HOUR_MS)


async def get_one_by_one(consumer: AsyncConsumer) -> None:
    while True:
        await consumer.getone()


async def exhaust(items: AsyncIterator[object]) -> None:
    async for _ in items:
        pass


@pytest.fixture
def admin(bootstrap: str, topic: str) -> Iterator[kohort.Admin]:
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number)
        producer.flush()
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        yield admin


def options_of(bootstrap: str, topic: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap,
        "group_id": topic,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 100,
    }


def has_committed_all(admin: kohort.Admin, topic: str) -> bool:
    found = admin.list_group_offsets(topic).get(TopicPartition(topic, 0))
    return found is not None and found.offset == RECORDS


@pytest.mark.parametrize("consume", [poll_for_an_hour, poll_arrow_for_an_hour, iterate, iterate_arrow])
def test_consumer_that_waits_for_records_commits_the_previous_ones(
    admin: kohort.Admin, bootstrap: str, topic: str, consume: Callable[[Consumer], None]
) -> None:
    with Consumer(**options_of(bootstrap, topic)) as consumer:
        consumer.subscribe(topic)

        def until_woken() -> None:
            with pytest.raises(Wakeup):
                consume(consumer)

        thread = threading.Thread(target=until_woken, daemon=True)
        thread.start()
        try:
            eventually(lambda: has_committed_all(admin, topic))
        finally:
            consumer.wakeup()
            thread.join()


@pytest.mark.parametrize(
    "consume",
    [
        poll_async,
        get_one_by_one,
        lambda consumer: exhaust(aiter(consumer)),
        lambda consumer: exhaust(consumer.iter_arrow()),
    ],
    ids=["poll", "getone", "iteration", "iter_arrow"],
)
def test_async_consumer_that_waits_for_records_commits_the_previous_ones(
    admin: kohort.Admin, bootstrap: str, topic: str, consume: Callable[[AsyncConsumer], Any]
) -> None:
    async def story() -> None:
        consumer = AsyncConsumer(**options_of(bootstrap, topic))
        consumer.subscribe(topic)
        task = asyncio.create_task(consume(consumer))
        await asyncio.to_thread(eventually, lambda: has_committed_all(admin, topic))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await consumer.close()

    asyncio.run(story())
