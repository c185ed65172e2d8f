"""What our clients tell of themselves has the names of Kafka's Java clients, and of librdkafka's statistics."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import kohort
from kohort.client.metrics.table import METRICS
from support.peers.apache_kafka import kafka_tool
from support.waiting import eventually

pytestmark = pytest.mark.interop
JAVA = Path(__file__).parent / "clients" / "java-metrics" / "MetricNames.java"
TOPIC = "metrics-of-clients"
INTERVAL_MS = 200


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with kohort.Broker(num_partitions=1) as broker:
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send(TOPIC, b"v").result()
        yield broker.bootstrap


@pytest.mark.kafka
def test_every_name_that_is_kafkas_is_one_of_a_java_client(served: str):
    command = [
        "java",
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{kafka_tool().TOOLS}/*",
        str(JAVA),
        served,
        TOPIC,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    theirs = {tuple(line.split(" ")) for line in done.stdout.splitlines() if line.count(" ") == 3}
    assert len(theirs) > 200

    ours = {
        (kind, row.group, name, ",".join(sorted(row.tags)))
        for kind, rows in METRICS.items()
        for row in rows
        if row.is_kafkas
        for name in row.names
    }
    assert ours - theirs == set()


def paths(value: Any, at: str = "") -> set[tuple[str, str]]:
    """The fields of statistics with their kinds; names of brokers, topics and partitions are all one."""
    if not isinstance(value, dict):
        return {
            (at, "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__)
        }
    named = at.endswith(("brokers", "topics", "partitions"))
    found: set[tuple[str, str]] = set()
    for key, inner in value.items():
        found |= paths(inner, f"{at}.{'*' if named else key}")
    return found


OF_PARTITIONS = (
    "consumer_lag", "committed_offset", "app_offset", "hi_offset", "ls_offset", "lo_offset", "fetch_state",
    "next_offset",
)  # fmt: skip
OF_GROUPS = ("rebalance_cnt", "rebalance_reason", "join_state", "assignment_size")
IMPORTANT = {
    "producer": {".txmsgs", ".txmsg_bytes", ".msg_cnt", ".msg_size", ".brokers.*.rtt.avg", ".brokers.*.state", ".tx"},
    "consumer": {
        *(".rxmsgs", ".rxmsg_bytes"),
        *(f".cgrp.{name}" for name in OF_GROUPS),
        *(f".topics.*.partitions.*.{name}" for name in OF_PARTITIONS),
    },
}


def fields_of(statistics: list[str]) -> set[tuple[str, str]]:
    """The fields of all statistics: early ones lack partitions and the group."""
    return set().union(*(paths(json.loads(one)) for one in statistics))


def are_complete(statistics: list[str], kind: str) -> bool:
    return {path for path, _ in fields_of(statistics)} >= IMPORTANT[kind]


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_statistics_have_the_fields_and_types_of_librdkafkas(served: str, kind: str):
    theirs: list[str] = []
    ours: list[str] = []
    config = {"bootstrap.servers": served, "statistics.interval.ms": INTERVAL_MS, "client.id": "app"}
    reading = {"group.id": f"{TOPIC}-{time.time_ns()}", "auto.offset.reset": "earliest"}
    if kind == "producer":
        peer = confluent_kafka.Producer({**config, "stats_cb": theirs.append})
        peer.produce(TOPIC, b"v")
        assert peer.flush(30) == 0
        eventually(lambda: peer.poll(0.1) is not None and are_complete(theirs, kind))
        with kohort.Producer({**config, "stats_cb": ours.append}) as producer:
            producer.send(TOPIC, b"v").result()
            eventually(lambda: are_complete(ours, kind) and json.loads(ours[-1])["txmsgs"])
    else:
        peer = confluent_kafka.Consumer({**config, **reading, "stats_cb": theirs.append})
        peer.subscribe([TOPIC])
        eventually(lambda: (peer.poll(0.2), are_complete(theirs, kind))[1])
        peer.close()
        with kohort.Consumer({**config, **reading, "stats_cb": ours.append}) as consumer:
            consumer.subscribe(TOPIC)
            eventually(lambda: consumer.poll(100) is not None and are_complete(ours, kind))

    assert fields_of(ours) - fields_of(theirs) == set(), "nothing is made up, and types are theirs"
