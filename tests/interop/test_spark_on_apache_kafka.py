"""Spark's source, sink and pipelines on Apache Kafka, with the same promises as on kohort's broker."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import kohort
from kohort import TopicPartition
from kohort.client.writing.partitioner import BY_NAME
from kohort.spark import to_records
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.running.run import RunReport, run_pipeline
from kohort.spark.runtime.session import SHORT_RUN, session
from support.peers.kafka_tools import kafka
from support.processes.member_process import eventually
from support.processes.pipeline_process import rows_of
from support.processes.two_pipelines import run_two_pipelines
from support.spark.finite_query import run_to_end

pytestmark = [
    pytest.mark.interop,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.campaign,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
WAIT_S = 600.0
NAMES = count()

PIPELINE = """\
name: orders
brokers: "${BROKERS}"
source: {topics: ["${TOPIC}"], group: "${TOPIC}", limit: {rows: 200}}
decode: {format: json, schema: "n long"}
steps:
  - sql: select *, _source.partition, _source.offset from input
expect:
  - {check: n % 10 <> 9, reason: nine}
sinks:
  - parquet: {path: out}
  - topic: {topic: "${TOPIC}-out", key: n}
dlq: {topic: "${TOPIC}-dead"}
checkpoint: state
"""


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    found = session("kohort-interop", conf=SHORT_RUN)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def admin(apache: str) -> Iterator[kohort.Admin]:
    with kohort.Admin(bootstrap_servers=apache) as client:
        yield client


@pytest.fixture
def new_topic(admin: kohort.Admin) -> Callable[[int], str]:
    def make(partitions: int) -> str:
        topic = f"spark-{next(NAMES)}"
        admin.create_topics({topic: partitions})
        wait_for_partitions(admin, topic, partitions)
        return topic

    return make


def wait_for_partitions(admin: kohort.Admin, topic: str, partitions: int) -> None:
    """Wait until a broker shows new partitions, which it receives from its controller after a delay."""

    def is_complete() -> bool:
        found = admin.describe_topics([topic])
        return not found.errors and len(found[topic].partitions) == partitions

    eventually(f"{topic} has {partitions} partitions", is_complete, WAIT_S)


def produce(apache: str, topic: str, first: int, last: int, partitions: int) -> None:
    with kohort.Producer(bootstrap_servers=apache) as producer:
        for n in range(first, last):
            producer.send(topic, b'{"n": %d}' % n, b"k%d" % n, partition=n % partitions, headers={"n": str(n)})


def lag_by_kafkas_tool(apache: str, group: str) -> dict[int, int]:
    """Return the lag by partition from ``kafka-consumer-groups --describe``."""
    printed = kafka("consumer-groups", "--bootstrap-server", apache, "--describe", "--group", group)
    line = re.compile(rf"^{group} +\S+ +(\d+) +\d+ +\d+ +(\d+) ", re.MULTILINE)
    return {int(partition): int(lag) for partition, lag in line.findall(printed)}


def values_of(apache: str, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return partition, key and value of each record of a topic."""
    with kohort.Admin(bootstrap_servers=apache) as admin, kohort.Consumer({"bootstrap.servers": apache}) as consumer:
        partitions = [TopicPartition(topic, p.partition) for p in admin.describe_topics([topic])[topic].partitions]
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[tuple[int, bytes | None, bytes | None]] = []
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found += [(record.partition, record.key, record.value) for record in consumer.poll(500)]
    return found


def test_batch_read_returns_keys_values_headers_of_an_offset_range(
    apache: str, spark: Any, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(3)
    produce(apache, topic, 0, 300, partitions=3)
    options = {"kafka.bootstrap.servers": apache, "subscribe": topic, "includeHeaders": "true"}

    rows = spark.read.format("kohort").options(**options).load().collect()

    assert sorted((r["partition"], r["offset"], bytes(r["key"]), bytes(r["value"])) for r in rows) == sorted(
        (n % 3, n // 3, b"k%d" % n, b'{"n": %d}' % n) for n in range(300)
    )
    assert all([(h["key"], bytes(h["value"])) for h in r["headers"]] == [("n", bytes(r["key"])[1:])] for r in rows)
    first, last = {"0": 10, "1": 0, "2": 99}, {"0": 20, "1": 0, "2": 100}
    bounds = {"startingOffsets": json.dumps({topic: first}), "endingOffsets": json.dumps({topic: last})}
    decoded = {**options, **bounds, "includeHeaders": "false", "value.format": "json"}
    found = spark.read.format("kohort").schema("n long").options(**decoded).load().collect()
    assert sorted(row["n"] for row in found) == sorted([*range(30, 60, 3), 299])


def test_stream_commits_to_group_and_reads_new_partitions(
    apache: str, spark: Any, admin: kohort.Admin, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    topic = new_topic(2)
    produce(apache, topic, 0, 200, partitions=2)
    options = {"kafka.bootstrap.servers": apache, "subscribe": topic, "group.id": topic, "maxOffsetsPerTrigger": "150"}

    def run() -> list[int]:
        numbers: list[int] = []
        stream = spark.readStream.format("kohort").options(**options, startingOffsets="earliest").load()
        writer = stream.writeStream.foreachBatch(
            lambda rows, _: numbers.extend(json.loads(row["value"])["n"] for row in rows.collect())
        )
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        run_to_end(writer.start)
        return sorted(numbers)

    assert run() == list(range(200))
    assert lag_by_kafkas_tool(apache, topic) == {0: 0, 1: 0}
    admin.create_partitions({topic: 3})
    wait_for_partitions(admin, topic, 3)
    produce(apache, topic, 200, 260, partitions=3)
    assert sum(lag_by_kafkas_tool(apache, topic).values()) > 0
    assert run() == list(range(200, 260))
    assert lag_by_kafkas_tool(apache, topic) == {0: 0, 1: 0, 2: 0}


def test_sink_chooses_the_same_partitions_as_kafkas_clients(
    apache: str, spark: Any, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(4)
    rows = spark.range(500).selectExpr("cast(id as string) as name", "id")

    records = to_records(rows, key="name", value=["id"], headers={"name": "name"})
    options = {"kafka.bootstrap.servers": apache, "topic": topic}
    records.write.format("kohort").options(**options).mode("append").save()

    found = values_of(apache, topic)
    assert sorted(int(key or b"") for _, key, _ in found) == list(range(500))
    assert all(json.loads(value or b"") == {"id": int(key or b"")} for _, key, value in found)
    assert all(partition == BY_NAME["murmur2"](key or b"", 4) for partition, key, _ in found)


def test_pipeline_accounts_for_every_row_and_its_group_has_lag_0(
    apache: str, spark: Any, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    topic = new_topic(3)
    produce(apache, topic, 0, 500, partitions=3)

    def run() -> RunReport:
        environ = {"BROKERS": apache, "TOPIC": topic}
        return run_pipeline(parse_pipeline(PIPELINE, tmp_path / "orders.yaml", environ), spark, once=True)

    first = run()
    produce(apache, topic, 500, 520, partitions=3)
    second = run()

    for report, sent in ((first, 500), (second, 20)):
        assert report.balanced, report.as_json()
        ledger, bad = report.ledger, sent // 10
        assert (ledger.rows_in, ledger.dead_letters) == (sent, bad)
        assert ledger.sinks == {"parquet": sent - bad, "topic": sent - bad}
        assert report.lag == {"input": 0}
    good_rows = {(n % 3, n // 3, n) for n in range(520) if n % 10 != 9}
    rows = rows_of(tmp_path / "out", ("n", "partition", "offset"))
    assert sorted((row["partition"], row["offset"], row["n"]) for row in rows) == sorted(good_rows)
    out = values_of(apache, f"{topic}-out")
    assert sorted(int(key or b"") for _, key, _ in out) == sorted(n for *_, n in good_rows)
    assert len(values_of(apache, f"{topic}-dead")) == 52
    assert lag_by_kafkas_tool(apache, topic) == {0: 0, 1: 0, 2: 0}


def test_no_row_is_lost_if_one_of_two_pipelines_is_fenced_and_killed(apache: str, tmp_path: Path) -> None:
    run_two_pipelines(tmp_path, apache, generation=lambda: 1)  # Apache Kafka does not show the generation
