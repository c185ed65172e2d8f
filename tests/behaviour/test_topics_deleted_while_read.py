from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator

import pytest

from kohort import Admin, AsyncConsumer, Consumer, ConsumerGroup, GroupHandler, Producer
from kohort.testing import StagedBroker
from support.waiting import eventually

PATTERN = re.compile("a-.*")
MOST_COMMITS = 3


@pytest.fixture
def broker() -> Iterator[StagedBroker]:
    with StagedBroker(auto_create_topics_enable=False, group_initial_rebalance_delay_ms=0) as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(["a-x", "a-y"])
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for topic in ("a-x", "a-y"):
                producer.send(topic, b"v").result()
        yield broker


def options(broker: StagedBroker, protocol: str) -> dict[str, object]:
    return {
        "bootstrap_servers": broker.bootstrap,
        "group_id": "g",
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 600_000,
        "client_id": "reader",
    }


def delete(broker: StagedBroker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.delete_topics(["a-y"])


def commits(broker: StagedBroker) -> int:
    return len(broker.requests("OffsetCommit", client_id="reader"))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_of_a_deleted_topic_closes_after_few_commits(broker: StagedBroker, protocol: str):
    with Consumer(**options(broker, protocol)) as consumer:
        consumer.subscribe(PATTERN)
        read: list[object] = []
        eventually(lambda: read.extend(consumer.poll(timeout_ms=100)) or len(read) == 2, pause_s=0)
        delete(broker)

    assert 1 <= commits(broker) <= MOST_COMMITS
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        committed = admin.list_group_offsets("g").check()
    assert {str(partition): at.offset for partition, at in committed.items() if at is not None} == {"a-x-0": 1}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_async_consumer_of_a_deleted_topic_closes_after_few_commits(broker: StagedBroker, protocol: str):
    async def play() -> None:
        async with AsyncConsumer(**options(broker, protocol)) as consumer:
            consumer.subscribe(PATTERN)
            read = 0
            while read < 2:
                read += len(await consumer.poll(timeout_ms=100))
            await asyncio.to_thread(delete, broker)

    asyncio.run(asyncio.wait_for(play(), 60))

    assert 1 <= commits(broker) <= MOST_COMMITS


class Marker(GroupHandler):
    def __init__(self) -> None:
        self.marked = 0

    def consume_claim(self, session, claim):
        for record in claim:
            session.mark_message(record)
            self.marked += 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_group_of_a_deleted_topic_closes_after_few_commits(broker: StagedBroker, protocol: str):
    handler = Marker()
    with ConsumerGroup(**options(broker, protocol)) as group:
        running = threading.Thread(target=group.run, args=(PATTERN, handler), daemon=True)
        running.start()
        eventually(lambda: handler.marked == 2)
        delete(broker)
        group.stop()
        running.join(60)

    assert not running.is_alive()
    assert 1 <= commits(broker) <= MOST_COMMITS
