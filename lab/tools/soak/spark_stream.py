"""A Spark pipeline of a soak: python lab/tools/soak/spark_stream.py BOOTSTRAP FOLDER. It works until SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from kohort.spark import session
from kohort.spark.pipeline.running.run import WORKER_TOO_SLOW
from kohort.spark.runtime.session import SHORT_RUN

EVERY = "5 seconds"
STARTS_MOST = 10
"""Spark gives a Python process ten seconds to start, without an option. On a busy machine the start is retried."""


def main() -> None:
    bootstrap, folder = sys.argv[1], Path(sys.argv[2])
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = session("soak", conf={**SHORT_RUN, "spark.driver.memory": "512m"})
    inputs = (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "in")
        .option("group.id", "soak-spark")
        .option("startingOffsets", "latest")
        .option("failOnDataLoss", "false")
        .load()
    )
    over: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: over.append(number))
    starts = 0
    while not over:
        starts += 1
        try:
            run(inputs, bootstrap, folder, over)
        except Exception as error:
            if WORKER_TOO_SLOW not in str(error) or starts == STARTS_MOST:
                raise
    spark.stop()


def run(inputs: DataFrame, bootstrap: str, folder: Path, over: list[int]) -> None:
    """Run the query from its checkpoint until SIGTERM. Raises the query's error."""
    query = (
        inputs.selectExpr("key", "value")
        .writeStream.format("kohort")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "spark-out")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=EVERY)
        .start()
    )
    while not over:
        query.awaitTermination(1)
        last = query.lastProgress
        if last is not None:
            new = folder / "spark.new"
            new.write_text(str(last["batchId"]))
            new.rename(folder / "spark.batch")
    query.stop()


if __name__ == "__main__":
    main()
