"""Shared code of the Spark benches: the stock connector, a filled topic, micro-batches of a query."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import kohort
from kohort.spark import session
from kohort.wire.record_batch import NewRecord, build_batch

TOPIC = "bench"
PER_BUILT = 400
SCHEMA = "id long, country string, amount double, pad string"
HERE = Path(__file__).parent
POM = HERE.parent / "tests" / "interop" / "clients" / "spark-connector" / "pom.xml"


def connector_jars(jars: str) -> list[str]:
    """Return the jars of the stock connector: from a folder, or by Maven in the version of the interop tests."""
    folder = Path(jars)
    if jars == "mvn":
        folder = Path(tempfile.mkdtemp(prefix="kohort-connector-"))
        goal = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
        subprocess.run([*goal, f"-DoutputDirectory={folder}", "-DincludeScope=runtime"], check=True, timeout=900)
    return sorted(map(str, folder.glob("*.jar")))


def arguments(doc: str, **defaults: int) -> argparse.ArgumentParser:
    """Return a parser of the common options, and of ``--name`` for each of ``defaults``."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    for name, value in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--connector", default="", help="folder of the stock connector's jars, or mvn")
    parser.add_argument("--json", action="store_true")
    return parser


def bench_session(connector: str, cores: int = 2) -> tuple[Any, list[str]]:
    """Start a session; return it with the measured formats."""
    jars = connector_jars(connector) if connector else []
    conf = {"spark.jars": ",".join(jars)} if jars else None
    # Workers import the sources of the benches.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    return session("bench", master=f"local[{cores}]", conf=conf), ["kafka", "kohort"] if jars else ["kohort"]


def value_of(size: int) -> bytes:
    """A JSON object of about ``size`` bytes."""
    row = {"id": 1234567, "country": "FR", "amount": 12.5, "pad": ""}
    row["pad"] = "x" * max(0, size - len(json.dumps(row)))
    return json.dumps(row).encode()


def fill(address: str, records: int, size: int, partitions: int) -> None:
    """A topic of JSON values."""
    with kohort.Admin(bootstrap_servers=address) as admin:
        admin.create_topics({TOPIC: partitions})
    now_ms = time.time_ns() // 1_000_000  # retention would delete older records under the queries
    value = value_of(size)
    batch = build_batch([NewRecord(b"%08d" % n, value, (), now_ms) for n in range(PER_BUILT)])
    with kohort.Producer(bootstrap_servers=address) as producer:
        for n in range(records // PER_BUILT):
            producer.send_prebuilt(TOPIC, n % partitions, batch)
        producer.flush()


def stream(spark: Any, form: str, address: str, per_batch: int, **options: str) -> Any:
    """Return a stream reader of the topic from its start."""
    settings = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest", **options}
    return spark.readStream.format(form).options(**settings, maxOffsetsPerTrigger=str(per_batch))


def drain(writer: Any) -> list[tuple[float, int]]:
    """Run a stream to the topic's end; return duration (ms) and rows of each micro-batch but the first."""
    with tempfile.TemporaryDirectory() as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        found = [p for p in query.recentProgress if p.numInputRows]
    return [(p.durationMs["triggerExecution"], p.numInputRows) for p in found[1:] or found]


def in_turn(runs: Mapping[str, Callable[[], list[tuple[float, int]]]], rounds: int) -> dict[str, dict[str, float]]:
    """Run each of ``runs`` in turn, ``rounds`` times after a warm-up, so that other work affects all.

    Returns the median micro-batch of each.
    """
    took: dict[str, list[tuple[float, int]]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            found = run()
            took[name] += found if turn else []
    medians = {}
    for name, batches in took.items():
        ms, rows = (statistics.median(column) for column in zip(*batches, strict=True))
        medians[name] = {"batch_ms": ms, "rows": rows, "rows_per_s": round(rows / max(ms, 1) * 1000)}
    return medians


def report(results: dict[str, Any], options: argparse.Namespace) -> None:
    """Print the results as lines, or as JSON with the arguments."""
    if options.json:
        print(json.dumps({**vars(options), "results": results}))
        return
    for name, found in results.items():
        print(f"{name:48} {found}")
