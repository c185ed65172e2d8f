"""A thin client of Spark Connect: orders from a topic, the large ones to another, the lag in the consumer group.

python spark_connect.py sc://HOST:PORT     a server on this machine; without it, PySpark starts one
"""

import os
import sys
import tempfile
from contextlib import ExitStack

from pyspark.sql import SparkSession

from kohort import Admin, Broker, Producer
from kohort.spark import find_java, to_records


def produce(brokers: str) -> None:
    with Producer(bootstrap_servers=brokers) as producer:
        for n in range(1000):
            producer.send("orders", f'{{"id": {n}, "country": "{("FR", "DE")[n % 2]}", "amount": {n % 100}}}')


def copy_large(spark: SparkSession, brokers: str, checkpoint: str) -> None:
    source = spark.readStream.format("kohort").option("kafka.bootstrap.servers", brokers).option("subscribe", "orders")
    source = source.option("group.id", "large-orders").option("groupFallback", "earliest")
    orders = source.option("value.format", "json").schema("id long, country string, amount double").load()
    sink = to_records(orders.where("amount >= 90"), key="country").writeStream.format("kohort")
    sink = sink.option("kafka.bootstrap.servers", brokers).option("topic", "large-orders")
    sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def show(spark: SparkSession, brokers: str) -> None:
    large = spark.read.format("kohort").option("kafka.bootstrap.servers", brokers).option("subscribe", "large-orders")
    large.load().selectExpr("cast(key as string) country").groupBy("country").count().orderBy("country").show()
    with Admin(bootstrap_servers=brokers) as admin:
        committed = admin.list_group_offsets("large-orders").check()
        print("committed:", {str(tp): held.offset for tp, held in committed.items() if held})


if __name__ == "__main__":
    os.environ.setdefault("JAVA_HOME", str(find_java().home))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with ExitStack() as stack:
        broker = stack.enter_context(Broker())
        checkpoint = stack.enter_context(tempfile.TemporaryDirectory())
        produce(broker.bootstrap)
        session = SparkSession.builder.remote(sys.argv[1] if len(sys.argv) > 1 else "local[2]").getOrCreate()
        copy_large(session, broker.bootstrap, checkpoint)
        show(session, broker.bootstrap)
        session.stop()
