"""``stats_cb``: who is told, in which thread, of what; and that a callback which fails or hangs hurts nobody."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

import kohort
from support.waiting import eventually

PARTITIONS = 1
INTERVAL_MS = 20


class Told:
    """A callback that keeps what it is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.threads: set[threading.Thread] = set()

    def __call__(self, text: str) -> None:
        self.threads.add(threading.current_thread())
        self.texts.append(text)

    @property
    def last(self) -> dict[str, object]:
        return json.loads(self.texts[-1])


def test_a_producer_tells_what_it_has_sent(bootstrap: str, topic: str):
    told = Told()
    options = {"bootstrap_servers": bootstrap, "statistics_interval_ms": INTERVAL_MS, "stats_cb": told}
    with kohort.Producer(client_id="app", **options) as producer:
        producer.send(topic, b"value").result()
        eventually(lambda: told.texts and told.last["txmsgs"] == 1)

    assert told.last["name"].startswith("app#producer-")
    assert (told.last["client_id"], told.last["type"]) == ("app", "producer")
    assert told.last["msg_size_max"] == 33554432
    assert told.last["tx"] >= 2
    assert [t.name for t in told.threads] == ["kohort-statistics"] * len(told.threads)


def test_a_consumer_tells_its_partitions_and_its_group(bootstrap: str, topic: str):
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(5):
            producer.send(topic, b"value", partition=0)
    told = Told()
    config = {
        "bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest",
        "statistics.interval.ms": INTERVAL_MS, "stats_cb": told,
    }  # fmt: skip
    with kohort.Consumer(config) as consumer:
        consumer.subscribe(topic)
        while not consumer.poll(1000, max_records=3):
            pass
        consumer.commit()
        eventually(lambda: told.texts and told.last["rxmsgs"] == 3)
        found = told.last

    partition = found["topics"][topic]["partitions"]["0"]
    assert (partition["app_offset"], partition["hi_offset"], partition["consumer_lag"]) == (3, 5, 2)
    assert partition["committed_offset"] == 3
    assert partition["fetch_state"] == "active"
    assert found["cgrp"]["join_state"] == "steady"
    assert found["cgrp"]["rebalance_cnt"] == 1
    broker = found["brokers"][f"{bootstrap}/{partition['leader']}"]
    assert (broker["state"], broker["source"]) == ("UP", "learned")


def test_a_callback_that_raises_is_logged_once_and_called_again(bootstrap: str, caplog: pytest.LogCaptureFixture):
    calls = []

    def fails(text: str) -> None:
        calls.append(text)
        raise ValueError("no dashboard")

    options = {"bootstrap_servers": bootstrap, "statistics_interval_ms": INTERVAL_MS, "stats_cb": fails}
    with kohort.Producer(**options) as producer:
        eventually(lambda: len(calls) > 3)
        assert producer.send("statistics", b"v").result().offset >= 0

    assert len([r for r in caplog.records if r.name == "kohort.statistics"]) == 1
    assert "no dashboard" in caplog.text


def test_a_callback_that_hangs_holds_up_nobody_and_is_not_called_twice_at_a_time(bootstrap: str):
    may_end = threading.Event()
    calls = []

    def hangs(text: str) -> None:
        calls.append(text)
        may_end.wait(60)

    options = {"bootstrap_servers": bootstrap, "statistics_interval_ms": INTERVAL_MS, "stats_cb": hangs}
    try:
        with kohort.Producer(**options) as producer:
            eventually(lambda: calls)
            for _ in range(20):
                assert producer.send("statistics", b"v").result().offset >= 0
            assert len(calls) == 1
    finally:
        may_end.set()


def test_under_asyncio_the_callback_may_be_a_coroutine_of_the_loop(bootstrap: str):
    async def story() -> None:
        loops = []

        async def tell(text: str) -> None:
            loops.append(asyncio.get_running_loop())
            assert json.loads(text)["type"] == "producer"

        options = {"bootstrap_servers": bootstrap, "statistics_interval_ms": INTERVAL_MS, "stats_cb": tell}
        async with kohort.AsyncProducer(**options) as producer:
            while len(loops) < 2:
                await producer.send_and_wait("statistics", b"v")
        after = len(loops)
        await asyncio.sleep(0)
        assert len(loops) == after, "nothing is told after the end"
        assert set(loops) == {asyncio.get_running_loop()}

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"statistics_interval_ms": -1, "stats_cb": print}, "statistics.interval.ms=-1: expected"),
        ({"statistics_interval_ms": 86_400_001, "stats_cb": print}, "from 0 to 86400000"),
        ({"statistics_interval_ms": 1000, "stats_cb": "print"}, "stats.cb='print': expected a function"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], words: str):
    with pytest.raises(kohort.ConfigError, match=words):
        kohort.Producer(bootstrap_servers="h:1", **options)


def test_an_interval_without_a_callback_is_taken_as_by_librdkafka(bootstrap: str):
    with kohort.Producer(bootstrap_servers=bootstrap, statistics_interval_ms=1) as producer:
        assert producer.send("statistics", b"v").result().offset >= 0


def test_statistics_without_an_interval_are_never_told(bootstrap: str):
    told = Told()
    with kohort.Producer(bootstrap_servers=bootstrap, stats_cb=told) as producer:
        producer.send("statistics", b"v").result()
    assert told.texts == []
