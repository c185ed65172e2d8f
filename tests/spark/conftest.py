"""Fixtures. All tests of this folder share one broker and one SparkSession, which takes seconds to start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from support.spark.finite_query import run_to_end

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kohort.aio.admin import Admin
from kohort.aio.producing.producer import Producer
from kohort.aio.serving.embedded import Broker
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.runtime.session import SHORT_RUN, session

Records = list[tuple[bytes | None, bytes | None]]


class Cluster:
    """Address of the broker, with methods that create and fill topics and return group lags."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._names = count()

    def new_topic(self, partitions: int = 2) -> str:
        topic = f"topic-{next(self._names)}"
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics({topic: partitions})
        return topic

    def add_partitions(self, topic: str, total: int) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_partitions({topic: total})

    def produce(self, topic: str, records: Records, **options: Any) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for key, value in records:
                producer.send(topic, value, key, **options)

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            partitions = admin.describe_topics([topic])[topic].partitions
            places: dict[TopicPartition, int | str] = {TopicPartition(topic, p.partition): "latest" for p in partitions}
            return {tp: found.offset for tp, found in admin.list_offsets(places).check().items()}

    def committed(self, group: str, topic: str) -> dict[TopicPartition, OffsetAndMetadata | None]:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            return dict(admin.list_group_offsets(group, list(self.ends(topic))).check().items())

    def commit(self, group: str, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.alter_group_offsets(group, offsets)

    def lag(self, group: str, topic: str) -> int:
        committed = self.committed(group, topic)
        return sum(end - (offset.offset if (offset := committed[tp]) else 0) for tp, end in self.ends(topic).items())


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Broker() as broker:
        yield Cluster(broker.bootstrap)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    found = session("kohort-tests", conf=SHORT_RUN)
    yield found
    found.stop()


@pytest.fixture
def read(spark: Any, cluster: Cluster) -> Callable[..., Any]:
    def make(topic: str, **options: str) -> Any:
        all_options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **options}
        return spark.read.format("kohort").options(**all_options).load()

    return make


@pytest.fixture
def run_once(spark: Any, cluster: Cluster) -> Callable[..., list[list[Any]]]:
    """Return a function that runs a query up to the current log end and returns a list of rows for each micro-batch."""

    def run(topic: str, checkpoint: Any, each: Callable[[Any], Any] | None = None, **options: str) -> list[list[Any]]:
        all_options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **options}
        batches: list[list[Any]] = []

        def collect(rows: Any, _batch: int) -> None:
            found = rows.select("partition", "offset", "value").collect()
            if each is not None:
                each(found)
            if found:
                batches.append(found)

        stream = spark.readStream.format("kohort").options(**all_options).load()
        query = stream.writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint))
        run_to_end(query.trigger(availableNow=True).start)
        return batches

    return run
