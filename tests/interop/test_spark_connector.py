"""Apache Spark's own Kafka connector on kohort's broker: a batch, and a stream that resumes."""

from __future__ import annotations

import pytest

from kohort import Admin, Producer
from support.spark.packages import spark_with_packages

pytestmark = [pytest.mark.interop, pytest.mark.toolchain, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
COUNT = 300


@pytest.fixture(scope="module")
def spark():
    with spark_with_packages() as session:
        yield session


def fill(bootstrap, start, count):
    with Producer(bootstrap_servers=bootstrap, compression_type="zstd") as producer:
        for n in range(start, start + count):
            producer.send("for-spark", f"value {n}", f"k{n}", partition=n % 3, headers={"n": str(n)})


def test_sparks_kafka_connector_reads_batches_and_streams(ours, spark, tmp_path):
    with Admin(bootstrap_servers=ours) as admin:
        admin.create_topics({"for-spark": 3})
    fill(ours, 0, COUNT)
    options = {"kafka.bootstrap.servers": ours, "subscribe": "for-spark", "includeHeaders": "true"}

    rows = spark.read.format("kafka").options(**options).load().collect()
    assert sorted((r.partition, r.offset, bytes(r.key), bytes(r.value)) for r in rows) == sorted(
        (n % 3, n // 3, b"k%d" % n, b"value %d" % n) for n in range(COUNT)
    )
    assert all([(h.key, bytes(h.value)) for h in r.headers] == [("n", bytes(r.key)[1:])] for r in rows)

    def run():
        stream = spark.readStream.format("kafka").options(**options).option("startingOffsets", "earliest").load()
        query = (
            stream.selectExpr("CAST(value AS STRING)")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(180)
        return sorted(r.value for r in spark.read.parquet(str(tmp_path / "out")).collect())

    assert run() == sorted(f"value {n}" for n in range(COUNT))
    fill(ours, COUNT, 30)
    assert run() == sorted(f"value {n}" for n in range(COUNT + 30))
