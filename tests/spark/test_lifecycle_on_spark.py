"""A query's life on a real Spark: what is added, moved and restarted under it, and what must hold after."""

from __future__ import annotations

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

WAIT_S = 600.0


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT_S:g} s for {what}"
        time.sleep(0.02)


@pytest.mark.whole
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
