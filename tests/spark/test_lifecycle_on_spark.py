"""A query's life on a real Spark: what is killed, refused, restarted and moved under it, and what must hold after."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kohort.aio.embedded import Broker
from kohort.model import OffsetAndMetadata, TopicPartition

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

ROWS = 4_000
PIPELINE = """\
name: killed
brokers: "{brokers}"
source: {{topics: [{topic}], group: {topic}, limit: {{rows: 1000}}}}
decode: {{format: json, schema: id long}}
expect: [{{check: id % 10 <> 3, reason: three}}]
sinks: [{{parquet: {{path: out}}}}]
dlq: {{topic: {topic}-dead}}
checkpoint: state
"""
WAIT_S = 600.0
QUICK_JVM = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT_S:g} s for {what}"
        time.sleep(0.02)


class Run:
    """``kohort pipeline run`` in a process group of its own: the driver, its JVM and its workers."""

    def __init__(self, file: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "kohort",
            "pipeline",
            "run",
            str(file),
            "--until-caught-up",
            "--output",
            "json",
        ]
        self._log = file.with_suffix(".log")
        env = os.environ | QUICK_JVM
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=env, start_new_session=True
            )

    def kill(self) -> None:
        """SIGKILL to all of it at once, as when a machine dies."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=WAIT_S)

    def finish(self) -> dict[str, Any]:
        out, _ = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0, self._log.read_text() + out.decode()
        report: dict[str, Any] = json.loads(out)
        return report


def test_a_pipeline_that_is_killed_again_and_again_leaves_each_row_once_and_a_ledger_that_balances(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    topic = cluster.new_topic()
    cluster.produce(topic, [(b"%d" % n, b'{"id": %d}' % n) for n in range(ROWS)])
    file = tmp_path / "killed.yaml"
    file.write_text(PIPELINE.format(brokers=cluster.bootstrap, topic=topic))
    ledger = tmp_path / "state" / "killed" / "ledger"
    rng = random.Random(7)

    for killed_after in (0, 1):
        run = Run(file)
        try:
            before = len(list(ledger.glob("*.json")))
            wait_for(lambda at=before + killed_after: len(list(ledger.glob("*.json"))) >= at, "micro-batches")  # type: ignore[misc]
            if killed_after == 0:
                wait_for((tmp_path / "state" / "killed" / "spark" / "offsets").exists, "the first micro-batch to begin")
            time.sleep(rng.random() * 0.5)
            assert run.process.poll() is None, "killed while it runs"
        finally:
            run.kill()
    report = Run(file).finish()

    assert report["balanced"], report
    rows = [row["id"] for row in spark.read.parquet(str(tmp_path / "out")).select("id").collect()]
    assert sorted(rows) == [n for n in range(ROWS) if n % 10 != 3], "no row twice, none missing"
    entries = [json.loads(path.read_text()) for path in sorted(ledger.glob("*.json"))]
    assert sum(entry["rows_in"][0] for entry in entries) == ROWS
    assert sum(entry["sinks"]["parquet"] for entry in entries) == len(rows)
    assert sum(cluster.ends(f"{topic}-dead").values()) >= ROWS // 10, "dead letters are at least once"
    assert cluster.lag(topic, topic) == 0


def test_a_running_query_outlives_new_partitions_a_moved_group_and_a_restarted_broker(
    spark: Any, tmp_path: Path
) -> None:
    from kohort.aio.admin import Admin
    from kohort.aio.producer import Producer

    with Broker(data_dir=tmp_path / "data") as broker:
        bootstrap, port = broker.bootstrap, broker.port
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics({"orders": 1})
        seen: list[int] = []

        def collect(rows: Any, _batch: int) -> None:
            seen.extend(int(row["value"]) for row in rows.select("value").collect())

        def send(first: int, last: int) -> None:
            with Producer(bootstrap_servers=bootstrap) as producer:
                for n in range(first, last):
                    producer.send("orders", b"%d" % n, partition=None, key=b"%d" % n)

        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "orders", "group.id": "g"}
        stream = spark.readStream.format("kohort").options(**options, startingOffsets="earliest").load()
        writer = stream.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path / "c"))
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            send(0, 100)
            wait_for(lambda: len(seen) >= 100, "the first rows")
            with Admin(bootstrap_servers=bootstrap) as admin:
                admin.create_partitions({"orders": 3})
                admin.alter_group_offsets("g", {TopicPartition("orders", 0): OffsetAndMetadata(5)})
            send(100, 200)
            wait_for(lambda: len(seen) >= 200, "the rows of the new partitions")
            broker.stop()
            with Broker(data_dir=tmp_path / "data", listen=f"127.0.0.1:{port}"):
                send(200, 300)
                wait_for(lambda: len(seen) >= 300, "the rows after the restart")
                with Admin(bootstrap_servers=bootstrap) as admin:
                    places: dict[TopicPartition, int | str] = {TopicPartition("orders", p): "latest" for p in range(3)}
                    ends = {tp: found.offset for tp, found in admin.list_offsets(places).check().items()}

                    def caught_up() -> bool:
                        held = admin.list_group_offsets("g", list(ends)).check()
                        return {tp: o.offset for tp, o in held.items() if o is not None} == ends

                    wait_for(caught_up, "the group to reach lag 0")
                assert query.isActive, query.exception()
                query.stop()
        finally:
            if query.isActive:
                query.stop()
        assert sorted(seen) == list(range(300)), (
            "each row once: the checkpoint, not the moved group, says where it stands"
        )
