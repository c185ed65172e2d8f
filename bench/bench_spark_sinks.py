"""Sinks in Spark: a topic into Parquet, rows into a topic; compared with the stock Kafka connector.

    python bench/bench_spark_sinks.py [--records 1000000] [--bytes 200] [--per-batch 200000] [--connector DIR] [--json]

``--connector``: as in bench_spark.py. Into Parquet: key, value, partition, offset and timestamp, by a stream; the
median micro-batch. Into a topic: generated rows, by a batch write, each format in turn, the fastest round; the noop
sink shows the cost of generating the rows.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from typing import Any

from serving import served_broker
from sparking import arguments, bench_session, drain, fill, in_turn, report, stream, value_of

import kohort

ROUNDS = 3
COLUMNS = ("key", "value", "partition", "offset", "timestamp")


def into_parquet(spark: Any, form: str, address: str, per_batch: int) -> list[tuple[float, int]]:
    with tempfile.TemporaryDirectory() as folder:
        frame = stream(spark, form, address, per_batch).load().select(*COLUMNS)
        return drain(frame.writeStream.format("parquet").option("path", folder))


def write_all(spark: Any, form: str, address: str, records: int, size: int) -> float:
    """Return the time in seconds to write rows of a key and a value."""
    from pyspark.sql import functions as f

    frame = spark.range(0, records, numPartitions=2).select(
        f.col("id").cast("string").cast("binary").alias("key"), f.lit(value_of(size)).alias("value")
    )
    writer = frame.write.format(form)
    if form != "noop":
        writer = writer.options(**{"kafka.bootstrap.servers": address, "topic": f"to-{form}"})
    began = time.perf_counter()
    writer.mode("append" if form != "noop" else "overwrite").save()
    return time.perf_counter() - began


def into_topics(spark: Any, forms: list[str], address: str, records: int, size: int) -> dict[str, dict[str, float]]:
    with kohort.Admin(bootstrap_servers=address) as admin:
        admin.create_topics({f"to-{form}": 2 for form in forms})
    took: dict[str, list[float]] = {form: [] for form in ("noop", *forms)}
    for _ in range(ROUNDS + 1):
        for form, seconds in took.items():
            seconds.append(write_all(spark, form, address, records, size))
    return {form: {"s": round(min(all_), 3), "rows_per_s": round(records / min(all_))} for form, all_ in took.items()}


def main() -> None:
    parser = arguments(__doc__, records=1_000_000, bytes=200, partitions=2, per_batch=200_000)
    parser.add_argument("--only", choices=["parquet", "topics"])
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with served_broker() as broker:
        fill(broker.address, options.records, options.bytes, options.partitions)
        spark, forms = bench_session(options.connector)
        if options.only != "topics":
            runs = {
                f"{form} into Parquet": partial(into_parquet, spark, form, broker.address, options.per_batch)
                for form in forms
            }
            results |= in_turn(runs, ROUNDS)
        if options.only != "parquet":
            found = into_topics(spark, forms, broker.address, options.records // 2, options.bytes)
            results |= {f"rows into {form}": took for form, took in found.items()}
        spark.stop()
    report(results, options)


if __name__ == "__main__":
    main()
