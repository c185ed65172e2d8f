"""Queries on a real Spark survive new partitions, reset group offsets and broker restarts."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kohort.aio.admin import Admin
from kohort.aio.serving.embedded import Broker
from kohort.cli.main import main
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.pipeline.running.run import WORKER_TOO_SLOW
from support.waiting import eventually

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

WAIT_S = 600.0


def wait_for(condition: Callable[[], bool], what: str) -> None:
    eventually(condition, what, deadline_s=WAIT_S)


@pytest.mark.campaign
def test_running_query_survives_new_partitions_an_offset_reset_and_a_broker_restart(spark: Any, tmp_path: Path) -> None:
    from kohort.aio.producing.producer import Producer

    with Broker(data_dir=tmp_path / "data") as broker:
        bootstrap, port = broker.bootstrap, broker.port
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics({"orders": 1})
        values: list[int] = []

        def collect(rows: Any, _batch: int) -> None:
            values.extend(int(row["value"]) for row in rows.select("value").collect())

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
            wait_for(lambda: len(values) >= 100, "the first rows")
            with Admin(bootstrap_servers=bootstrap) as admin:
                admin.create_partitions({"orders": 3})
                admin.alter_group_offsets("g", {TopicPartition("orders", 0): OffsetAndMetadata(5)})
            send(100, 200)
            wait_for(lambda: len(values) >= 200, "the rows of the new partitions")
            broker.stop()
            with Broker(data_dir=tmp_path / "data", listen=f"127.0.0.1:{port}"):
                send(200, 300)
                wait_for(lambda: len(values) >= 300, "the rows after the restart")
                with Admin(bootstrap_servers=bootstrap) as admin:
                    places: dict[TopicPartition, int | str] = {TopicPartition("orders", p): "latest" for p in range(3)}
                    ends = {tp: found.offset for tp, found in admin.list_offsets(places).check().items()}

                    def caught_up() -> bool:
                        committed = admin.list_group_offsets("g", list(ends)).check()
                        return {tp: o.offset for tp, o in committed.items() if o is not None} == ends

                    wait_for(caught_up, "the group to reach lag 0")
                assert query.isActive, query.exception()
                query.stop()
        finally:
            if query.isActive:
                query.stop()
        assert sorted(values) == list(range(300)), (
            "each row once: the query continues at its checkpoint, not at the reset group offsets"
        )


class Running:
    """Streaming query that is restarted if it fails because a Spark process started too slowly."""

    def __init__(self, stream: Any, collect: Callable[[Any, int], None], checkpoint: Path) -> None:
        writer = stream.writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint))
        self._start = writer.trigger(processingTime="0 seconds").start
        self.query = self._start()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for the condition. Fail if the query ends with another error than that of a slow start."""

        def now() -> bool:
            if not condition():
                self._must_run()
                return False
            return True

        wait_for(now, what)
        self._must_run()

    def _must_run(self) -> None:
        if not self.query.isActive:
            error = str(self.query.exception())
            assert WORKER_TOO_SLOW in error, error
            self.query = self._start()

    def until_it_fails(self) -> str:
        """Wait until the query fails; return the message of its error."""
        wait_for(lambda: not self.query.isActive, "the query to end")
        return str(self.query.exception())


@contextmanager
def running(stream: Any, collect: Callable[[Any, int], None], checkpoint: Path) -> Iterator[Running]:
    found = Running(stream, collect, checkpoint)
    try:
        yield found
    finally:
        found.query.stop()


def stream_of(spark: Any, cluster: Any, topic: str, **options: str) -> Any:
    all_options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        **options,
    }
    return spark.readStream.format("kohort").options(**all_options).load()


def numbered(first: int, last: int) -> list[tuple[bytes | None, bytes | None]]:
    return [(None, b"%d" % n) for n in range(first, last)]


def numbers(rows: Any) -> list[int]:
    return sorted(int(row["value"]) for row in rows)


IDLE_MS = 30_000
"""Maximum wait of an idle query at the broker. A query that slept instead would need 90 s for three records."""


@pytest.mark.campaign
def test_idle_query_has_lag_0_and_wakes_for_a_new_record(spark: Any, cluster: Any, tmp_path: Path) -> None:
    topic = cluster.new_topic(partitions=2)
    cluster.produce(topic, numbered(0, 50))
    values: list[int] = []
    stream = stream_of(spark, cluster, topic, **{"group.id": "idle", "idleWaitMs": str(IDLE_MS)})

    with running(stream, lambda rows, _: values.extend(numbers(rows.collect())), tmp_path) as query:
        query.until(lambda: sorted(values) == list(range(50)), "the first rows")
        query.until(lambda: cluster.lag("idle", topic) == 0, "lag 0 without new records")
        began = time.monotonic()
        for n in range(50, 53):
            cluster.produce(topic, numbered(n, n + 1))
            query.until(lambda n=n: n in values, "the row")  # type: ignore[misc]  # bound at once
        took_s = time.monotonic() - began

    assert sorted(values) == list(range(53))
    assert took_s < 2 * IDLE_MS / 1000, "the query waits at the broker, and does not sleep"


@pytest.mark.campaign
def test_failing_micro_batch_ends_each_run_and_is_committed_only_after_the_fix(
    run_once: Callable[..., list[list[Any]]], cluster: Any, tmp_path: Path
) -> None:
    topic = cluster.new_topic(partitions=1)
    cluster.produce(topic, numbered(0, 30))
    options = {"startingOffsets": "earliest", "group.id": "poisoned", "maxOffsetsPerTrigger": "10"}
    tried: list[list[int]] = []

    def fail_at_25(rows: list[Any]) -> None:
        tried.append(numbers(rows))
        if 25 in tried[-1]:
            raise RuntimeError("poison")

    for more in (0, 10):
        with pytest.raises(Exception, match="poison"):
            run_once(topic, tmp_path, fail_at_25, **options)
        assert cluster.lag("poisoned", topic) == 10 + more, (
            "only the micro-batches before the failing one are committed"
        )
        cluster.produce(topic, numbered(30 + more, 40 + more))
    mended = run_once(topic, tmp_path, **options)

    tens = [list(range(n, n + 10)) for n in range(0, 50, 10)]
    assert tried == [tens[0], tens[1], tens[2], tens[2]], "each run repeats the failed micro-batch with the same rows"
    assert [numbers(batch) for batch in mended] == tens[2:]
    assert cluster.lag("poisoned", topic) == 0


@pytest.mark.campaign
def test_query_fails_if_unread_records_are_deleted_unless_fail_on_data_loss_is_false(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    topic = cluster.new_topic(partitions=1)
    cluster.produce(topic, numbered(0, 100))
    values: list[int] = []
    is_waiting, going_on = threading.Event(), threading.Event()
    going_on.set()

    def collect(rows: Any, _batch: int) -> None:
        if not going_on.is_set():
            is_waiting.set()
            assert going_on.wait(WAIT_S)
        values.extend(numbers(rows.collect()))

    options = {"group.id": "truncated", "maxOffsetsPerTrigger": "100"}
    with running(stream_of(spark, cluster, topic, **options), collect, tmp_path) as query:
        query.until(lambda: len(values) == 100, "the first rows")
        going_on.clear()
        cluster.produce(topic, numbered(100, 500))
        query.until(is_waiting.is_set, "a micro-batch")
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.delete_records({TopicPartition(topic, 0): 350})
        going_on.set()
        assert re.search(rf"{topic}-0.*failOnDataLoss=false", query.until_it_fails())
    assert values == list(range(100))
    assert cluster.lag("truncated", topic) == 400

    passing = stream_of(spark, cluster, topic, **options, failOnDataLoss="false")
    with running(passing, collect, tmp_path) as query:
        query.until(lambda: cluster.lag("truncated", topic) == 0, "the end of the topic")
    assert values == [*range(100), *range(350, 500)]


@pytest.mark.campaign
def test_offset_reset_applies_to_a_new_query_but_not_to_a_query_with_a_checkpoint(
    run_once: Callable[..., list[list[Any]]], cluster: Any, tmp_path: Path
) -> None:
    topic = cluster.new_topic(partitions=1)
    cluster.produce(topic, numbered(0, 20))
    options = {"group.id": "reset", "startingOffsets": "group", "groupFallback": "earliest"}
    run_once(topic, tmp_path / "old", **options)

    command = ["group", "reset-offsets", "reset", "--to-offset", "5", "--execute", "--bootstrap", cluster.bootstrap]
    assert CliRunner().invoke(main, command).exit_code == 0
    assert cluster.lag("reset", topic) == 15
    cluster.produce(topic, numbered(20, 25))
    continued = run_once(topic, tmp_path / "old", **options)
    assert [numbers(batch) for batch in continued] == [list(range(20, 25))]
    assert cluster.lag("reset", topic) == 0, "the query commits its own position again"

    assert CliRunner().invoke(main, command).exit_code == 0
    began = run_once(topic, tmp_path / "new", **options)
    assert [numbers(batch) for batch in began] == [list(range(5, 25))]
