"""Member of an incident: a consumer of a Python library, with the library's defaults unless an option is given.

    incident_member.py LIBRARY BOOTSTRAP GROUP TOPIC CLIENT OPTIONS

OPTIONS is JSON with ``session``, ``poll`` and ``commit`` (ms), ``instance``, ``assignor``, ``work`` (ms of work for
each record), and ``stall`` (seconds without a poll after the first batch). A line on the standard input orders a stall
of as many seconds. The member closes its consumer at SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

LIBRARIES = ("kohort", "kohort-consumer", "confluent", "confluent-consumer", "aiokafka", "kafka-python")
NAMES = {"session": "session_timeout_ms", "poll": "max_poll_interval_ms", "commit": "auto_commit_interval_ms"}


class Work:
    """Handler of the records: works, and stalls when ordered."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.wanted = True
        self._work_s = options.get("work", 0) / 1000
        self._stalls: queue.SimpleQueue[float] = queue.SimpleQueue()
        if options.get("stall"):
            self._stalls.put(options["stall"])
        threading.Thread(target=self._read, daemon=True).start()
        signal.signal(signal.SIGTERM, self._end)

    def _read(self) -> None:
        for line in sys.stdin:
            self._stalls.put(float(line))

    def _end(self, *_: object) -> None:
        self.wanted = False

    def seconds(self, records: int) -> float:
        """Return the duration of the handling of so many records."""
        stall_s = 0.0 if not records or self._stalls.empty() else self._stalls.get()
        return stall_s + records * self._work_s


def play(poll: Callable[[], int], work: Work) -> None:
    while work.wanted:
        time.sleep(work.seconds(poll()))


def keyword_options(options: dict[str, Any]) -> dict[str, Any]:
    found = {NAMES[name]: value for name, value in options.items() if name in NAMES}
    if "session" in options:
        found["heartbeat_interval_ms"] = 1_000
    if "instance" in options:
        found["group_instance_id"] = options["instance"]
    return found


def dotted_options(options: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in keyword_options(options).items()}


def without_session(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "session"}


def with_kohort(library: str, where: Iterable[str], options: dict[str, Any]) -> None:
    from kohort import Consumer

    bootstrap, group, topic, client = where
    modern = library.endswith("consumer")
    given = keyword_options(without_session(options) if modern else options)
    if modern:
        given["group_protocol"] = "consumer"
    elif "assignor" in options:
        given["partition_assignment_strategy"] = options["assignor"]
    consumer = Consumer(
        bootstrap_servers=bootstrap, group_id=group, client_id=client, auto_offset_reset="earliest", **given
    )
    consumer.subscribe([topic])
    work = Work(options)
    play(lambda: len(consumer.poll(timeout_ms=300)), work)
    consumer.close()


def with_confluent(library: str, where: Iterable[str], options: dict[str, Any]) -> None:
    from confluent_kafka import Consumer

    bootstrap, group, topic, client = where
    modern = library.endswith("consumer")
    given = dotted_options(without_session(options) if modern else options)
    if modern:
        given["group.protocol"] = "consumer"
    elif "assignor" in options:
        given["partition.assignment.strategy"] = options["assignor"]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client,
            "auto.offset.reset": "earliest",
            **given,
        }
    )
    consumer.subscribe([topic])
    work = Work(options)
    play(lambda: sum(one.error() is None for one in consumer.consume(100, 0.3)), work)
    consumer.close()


def with_kafka_python(_library: str, where: Iterable[str], options: dict[str, Any]) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    bootstrap, group, topic, client = where
    given = keyword_options(options)
    if "assignor" in options:
        given["partition_assignment_strategy"] = [StickyPartitionAssignor]
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, client_id=client, auto_offset_reset="earliest", **given
    )
    work = Work(options)
    play(lambda: sum(map(len, consumer.poll(timeout_ms=300).values())), work)
    consumer.close()


def with_aiokafka(_library: str, where: Iterable[str], options: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    bootstrap, group, topic, client = where
    given = keyword_options(options)
    if "assignor" in options:
        given["partition_assignment_strategy"] = [RangePartitionAssignor]

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, client_id=client, auto_offset_reset="earliest", **given
        )
        await consumer.start()
        work = Work(options)
        while work.wanted:
            found = await consumer.getmany(timeout_ms=300)
            await asyncio.sleep(work.seconds(sum(map(len, found.values()))))
        await consumer.stop()

    asyncio.run(run())


MEMBERS: dict[str, Callable[[str, Iterable[str], dict[str, Any]], None]] = {
    "kohort": with_kohort,
    "kohort-consumer": with_kohort,
    "confluent": with_confluent,
    "confluent-consumer": with_confluent,
    "aiokafka": with_aiokafka,
    "kafka-python": with_kafka_python,
}

if __name__ == "__main__":
    chosen, *place, encoded = sys.argv[1:]
    MEMBERS[chosen](chosen, place, json.loads(encoded))
