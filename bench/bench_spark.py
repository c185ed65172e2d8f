"""format("kohort") in Spark: rows a second into noop, decoded and raw, beside the stock Kafka connector; fixed costs.

    python bench/bench_spark.py [--records 1000000] [--bytes 200] [--per-batch 200000] [--connector DIR] [--json]


``--connector`` is a folder with the jars of spark-sql-kafka-0-10 of the installed Spark's version and of what it needs;
or ``mvn``: let Maven bring them. Without it kohort is measured alone. The topic lies on a broker in a process
of its own; the first micro-batch of each query, which warms up, does not count. Figures are medians over micro-batches.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kohort
from kohort.spark import session
from kohort.wire.record_batch import NewRecord, build_batch

TOPIC = "bench"
PER_BUILT = 400
SCHEMA = "id long, country string, amount double, pad string"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kohort</groupId><artifactId>connector</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId><version>{version}</version>
<exclusions><exclusion><groupId>org.scala-lang</groupId><artifactId>*</artifactId></exclusion></exclusions>
</dependency></dependencies></project>"""


def connector_jars(given: str) -> list[str]:
    """The jars of the stock connector: of a folder, or brought by Maven."""
    folder = Path(given)
    if given == "mvn":
        import pyspark

        folder = Path(tempfile.mkdtemp(prefix="kohort-connector-"))
        (folder / "pom.xml").write_text(POM.format(version=pyspark.__version__))
        goal = ["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies"]
        subprocess.run([*goal, f"-DoutputDirectory={folder}", "-DincludeScope=runtime"], check=True, timeout=900)
    return sorted(map(str, folder.glob("*.jar")))


def fill(address: str, records: int, size: int, partitions: int) -> None:
    """JSON values of about ``size`` bytes."""
    with kohort.Admin(bootstrap_servers=address) as admin:
        admin.create_topics({TOPIC: partitions})
    row = {"id": 1234567, "country": "FR", "amount": 12.5, "pad": ""}
    row["pad"] = "x" * max(0, size - len(json.dumps(row)))
    value = json.dumps(row).encode()
    now_ms = time.time_ns() // 1_000_000  # retention would delete older records under the queries
    batch = build_batch([NewRecord(b"%08d" % n, value, (), now_ms) for n in range(PER_BUILT)])
    with kohort.Producer(bootstrap_servers=address) as producer:
        for n in range(records // PER_BUILT):
            producer.send_prebuilt(TOPIC, n % partitions, batch)
        producer.flush()


def median_batch(query: Any) -> tuple[float, float]:
    """Milliseconds of a micro-batch, and its rows."""
    found = [p for p in query.recentProgress if p.numInputRows][1:] or query.recentProgress
    durations = [p.durationMs["triggerExecution"] for p in found]
    return statistics.median(durations), statistics.median([p.numInputRows for p in found])


def drain(frame: Any) -> dict[str, float]:
    """Run a stream to its end into noop."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        took_ms, rows = median_batch(query)
    return {"batch_ms": took_ms, "rows": rows, "rows_per_s": round(rows / max(took_ms, 1) * 1000)}


def ticking(spark: Any, address: str, batches: int = 14) -> float:
    """Median milliseconds of a micro-batch that has almost nothing to do."""
    options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest"}
    frame = spark.readStream.format("kohort").options(**options, maxOffsetsPerTrigger="100").load()
    return floor_of(frame, batches)


def floor_of(frame: Any, batches: int = 14) -> float:
    """Median milliseconds of a micro-batch into noop, as soon as ``batches`` have run."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime="0 seconds").start()
        while len(query.recentProgress) < batches and query.isActive:
            query.awaitTermination(1)
        query.stop()
        return statistics.median([p.durationMs["triggerExecution"] for p in query.recentProgress][2:])


def sources(spark: Any, address: str, per_batch: int) -> dict[str, Callable[[str], Any]]:
    """How a format reads the topic, raw and as columns."""
    from pyspark.sql import functions as f

    options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest"}

    def reader(form: str) -> Any:
        return spark.readStream.format(form).options(**options, maxOffsetsPerTrigger=str(per_batch))

    def decoded(form: str) -> Any:
        if form == "kohort":
            return reader(form).schema(SCHEMA).option("value.format", "json").load()
        return reader(form).load().select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("r")).select("r.*")

    return {"raw": lambda form: reader(form).load(), "json": decoded}


def measure(spark: Any, address: str, given: argparse.Namespace, forms: list[str]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    read = sources(spark, address, given.per_batch)
    for form in forms:
        results[f"{form} raw into noop"] = drain(read["raw"](form))
        results[f"{form} JSON as columns into noop"] = drain(read["json"](form))
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "100").option("numPartitions", "1").load()
    results["micro-batch of 100 rows: rate source, ms"] = floor_of(rate)
    results["micro-batch of 100 rows: kohort, ms"] = ticking(spark, address)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--per-batch", type=int, default=200_000)
    parser.add_argument("--connector", default="", help="folder of jars, or mvn")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    jars = connector_jars(given.connector) if given.connector else []
    command = [sys.executable, "-m", "kohort", "serve", "--listen", "127.0.0.1:0", "--memory", "--output", "json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["bootstrap"]
        fill(address, given.records, given.bytes, given.partitions)
        spark = session("bench", master="local[2]", conf={"spark.jars": ",".join(jars)} if jars else None)
        results = measure(spark, address, given, ["kafka", "kohort"] if jars else ["kohort"])
        spark.stop()
    finally:
        server.terminate()
        server.wait()
    if given.json:
        print(json.dumps({"records": given.records, "bytes": given.bytes, "results": results}))
        return
    for name, found in results.items():
        print(f"{name:40} {found}")


if __name__ == "__main__":
    main()
