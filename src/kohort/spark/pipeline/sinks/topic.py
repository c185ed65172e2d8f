"""Topic sink of a pipeline: Spark's workers send rows as JSON, at least once, and count acknowledged rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kohort.config.client import ProducerConfig
from kohort.config.security_names import translated
from kohort.errors import ApiError, ErrorCode
from kohort.spark.options.client import connecting
from kohort.spark.pipeline.definition import ClientSettings, Pipeline, Sink, source_rows
from kohort.spark.pipeline.parse_sources import KafkaCluster, cluster_of
from kohort.spark.pipeline.sections import YamlSection
from kohort.spark.records_frame import HEADERS_TYPE, json_bytes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_CLIENT_ID: Final = "kohort-pipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSink(Sink):
    kind: ClassVar[str] = "topic"
    brokers: str
    topic: str
    key: str = ""
    kafka: ClientSettings = ()

    @classmethod
    def parse(cls, body: YamlSection, _root: Path, cluster: KafkaCluster, common: Sink) -> TopicSink:
        of = cluster_of(body, cluster, ProducerConfig)
        topic, key = body.take("topic", str), body.take("key", str, "")
        return cls(name=common.name, counts=common.counts, brokers=of.brokers, topic=topic, key=key, kafka=of.kafka)

    @property
    def client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.brokers, **dict(self.kafka)}

    @property
    def place(self) -> str:
        return self.topic

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        return (("key", self.key),) if self.key else ()

    def prepare(self, _pipeline: Pipeline) -> None:
        ensure_topic(self.client, self.topic)

    def write(self, rows: DataFrame, _batch: int, *, passed: int, counts: str) -> int:  # noqa: ARG002 - of all writers
        from pyspark.sql import functions as f

        expected = source_rows(rows, counts) if counts else 0
        key = f.col(self.key).cast("string") if self.key else f.lit(None)
        records = rows.select(
            f.lit(self.topic).alias("topic"),
            key.cast("binary").alias("key"),
            json_bytes(["*"]).alias("value"),
            f.array().cast(HEADERS_TYPE).alias("headers"),
        )
        sent = deliver(records, self.client)
        return expected if counts else sent


def deliver(frame: DataFrame, client: Mapping[str, Any], *, letters: bool = False) -> int:
    """Send rows with the columns topic, key, value and headers to Kafka. Return the number of acknowledged rows.

    Raises an error if a row is not acknowledged. Delivery is at least once: Spark may repeat a task. ``letters``: True
    if the rows are dead letters. A dead letter that exceeds the size limit is sent without its value.
    """
    settings = {"client.id": _CLIENT_ID, "compression.type": "lz4", **client}

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from kohort.spark.sending.send import LetterSender, RowSender, send_rows

        sent = send_rows(batches, settings, LetterSender if letters else RowSender)
        yield pa.RecordBatch.from_pydict({"sent": pa.array([sent], pa.int64())})

    rows = frame.select("topic", "key", "value", "headers").mapInArrow(send, "sent long").collect()
    return sum(row["sent"] for row in rows)


def ensure_topic(client: Mapping[str, Any], topic: str, partitions: int = 1) -> None:
    from kohort.aio.admin import Admin

    with Admin({"client.id": _CLIENT_ID, **connecting(translated(client))}) as admin:
        try:
            admin.create_topics({topic: partitions})
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
