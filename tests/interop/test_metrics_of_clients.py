"""Metrics of kohort's clients have the names of Kafka's Java clients."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_metrics_table import METRICS

import kohort
from support.peers.apache_kafka import kafka_tool

pytestmark = pytest.mark.interop
JAVA = Path(__file__).parent / "clients" / "java-metrics" / "MetricNames.java"
TOPIC = "metrics-of-clients"


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with kohort.Broker(num_partitions=1) as broker:
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send(TOPIC, b"v").result()
        yield broker.bootstrap


@pytest.mark.kafka
def test_kafka_metric_names_exist_in_java_client(served: str):
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
