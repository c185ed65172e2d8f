"""format("kohort") in Spark: rows per second into noop, raw and decoded, compared with the stock connector; fixed
costs.

    python bench/bench_spark.py [--records 1000000] [--bytes 200] [--per-batch 200000] [--connector DIR] [--json]

``--connector`` is a folder with the jars of spark-sql-kafka-0-10 and its dependencies; ``mvn`` lets Maven download
them. Without it only kohort is measured. The topic is on a broker in a separate process; the first micro-batch of each
query does not count. Figures are medians over micro-batches of queries that run in turn, so that other work affects
all. The fixed cost is the time of a micro-batch of 100 rows: of Spark's own rate source, of a minimal Python data
source, of kohort, and of kohort with commits to a group.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

from idle_source import IdleSource
from serving import served_broker
from sparking import SCHEMA, TOPIC, arguments, bench_session, drain, fill, in_turn, report, stream

ROUNDS = 3
TICKS = 14


def decoded(spark: Any, form: str, address: str, per_batch: int) -> Any:
    """Return the values as columns, decoded in the worker or by Spark."""
    from pyspark.sql import functions as f

    reader = stream(spark, form, address, per_batch)
    if form == "kohort":
        return reader.schema(SCHEMA).option("value.format", "json").load()
    return reader.load().select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("r")).select("r.*")


def rates(spark: Any, forms: list[str], address: str, per_batch: int) -> dict[str, Callable[[], Any]]:
    """Return the measured stream of each line: from the start of the topic into noop."""
    made: dict[str, Callable[[Any, str, str, int], Any]] = {"raw": raw, "JSON as columns": decoded}

    def run(make: Callable[[Any, str, str, int], Any], form: str) -> list[tuple[float, int]]:
        return drain(make(spark, form, address, per_batch).writeStream.format("noop"))

    return {f"{form} {name} into noop": partial(run, make, form) for name, make in made.items() for form in forms}


def raw(spark: Any, form: str, address: str, per_batch: int) -> Any:
    return stream(spark, form, address, per_batch).load()


def ticks(frame: Any) -> tuple[list[float], dict[str, list[float]]]:
    """Return the durations in ms of successive micro-batches into noop, and of their phases."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime="0 seconds").start()
        while len(query.recentProgress) < TICKS and query.isActive:
            query.awaitTermination(1)
        query.stop()
        found = [p.durationMs for p in query.recentProgress][4:]
    parts = {name: [p.get(name, 0) for p in found] for name in found[0]}
    return parts.pop("triggerExecution"), parts


def fixed_costs(spark: Any, address: str) -> dict[str, dict[str, float]]:
    """The median micro-batch of 100 rows, with its parts, by source."""
    spark.dataSource.register(IdleSource)
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "100").option("numPartitions", "1")
    options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest"}
    ours = spark.readStream.format("kohort").options(**options, maxOffsetsPerTrigger="100")
    group = spark.readStream.format("kohort").options(**options, maxOffsetsPerTrigger="100")
    readers = {
        "Spark's rate source": rate,
        "a source in Python that does nothing": spark.readStream.format("idle"),
        "kohort": ours,
        "kohort, with a group": group.option("group.id", "bench"),
    }
    found: dict[str, list[tuple[list[float], dict[str, list[float]]]]] = {name: [] for name in readers}
    for _ in range(ROUNDS):
        for name, reader in readers.items():
            found[name].append(ticks(reader.load()))
    costs = {}
    for name, rounds in found.items():
        costs[name] = {"ms": statistics.median([t for took, _ in rounds for t in took])}
        for part in rounds[0][1]:
            costs[name][part] = statistics.median([t for _, parts in rounds for t in parts[part]])
    return costs


def main() -> None:
    parser = arguments(__doc__, records=1_000_000, bytes=200, partitions=2, per_batch=200_000)
    parser.add_argument("--only", choices=["rows", "ticks"])
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with served_broker() as broker:
        fill(broker.address, options.records, options.bytes, options.partitions)
        spark, forms = bench_session(options.connector)
        if options.only != "ticks":
            results |= in_turn(rates(spark, forms, broker.address, options.per_batch), ROUNDS)
        if options.only != "rows":
            for name, cost in fixed_costs(spark, broker.address).items():
                results[f"micro-batch of 100 rows: {name}"] = cost
        spark.stop()
    report(results, options)


if __name__ == "__main__":
    main()
