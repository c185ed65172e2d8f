"""Orders from a topic: into a table, as totals by country, and large orders into another topic."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kohort.spark import to_records

BROKERS = os.environ.get("KOHORT_BOOTSTRAP", "127.0.0.1:9092")
spark = SparkSession.active()


@dp.table(format="parquet")
def orders() -> DataFrame:
    source = spark.readStream.format("kohort").option("kafka.bootstrap.servers", BROKERS).option("subscribe", "orders")
    source = source.option("group.id", "declarative").option(
        "groupFallback", "earliest"
    )  # `kohort groups` shows its lag
    return source.option("value.format", "json").schema("id long, country string, amount double").load()


@dp.materialized_view(format="parquet")
def totals() -> DataFrame:
    return spark.table("orders").groupBy("country").agg(f.count("*").alias("orders"), f.sum("amount").alias("amount"))


dp.create_sink("large_orders", "kohort", {"kafka.bootstrap.servers": BROKERS, "topic": "large-orders"})


@dp.append_flow(target="large_orders")
def find_large() -> DataFrame:
    return to_records(spark.readStream.table("orders").where("amount >= 90"), key="country")
