"""A pipeline on a standalone Spark cluster with two workers, run by ``kohort pipeline run`` and by ``spark-submit``."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kohort import Admin, Broker, Producer
from support.processes.pipeline_process import PipelineProcess, last_run, ledger_of
from support.spark.spark_standalone import spark_environ, spark_home, standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(7200)]

PARTITIONS = 8
BAD_EVERY = 1000
"""One in BAD_EVERY records is not JSON and becomes a dead letter."""
CHUNK = 10_000
"""Number of consecutive records sent to one partition."""
MORE = 20_000
RUNS_S = 3600.0
ORDERS = """\
name: orders
brokers: "${BROKERS}"
source: {topics: [orders], group: orders, limit: {rows: 1000000}}
decode: {format: json, schema: "n long, country string"}
steps:
  - sql: select *, n * 2 as twice from input
sinks:
  - parquet: {path: out}
    name: table
summaries:
  - {name: totals, counts: n, path: totals, sql: "select country, count(*) as n from table group by country"}
dlq: {topic: dead}
checkpoint: state
"""
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark-operating.md"


@dataclass
class Cluster:
    master: str
    folder: Path

    def executors(self) -> int:
        return len(list(self.folder.glob("work-*/app-*/*")))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with standalone(folder, workers=2) as url:
        yield Cluster(url, folder)


def value(n: int) -> bytes:
    return b'{"n": %d, "country": "%s"}' % (n, (b"FR", b"US")[n % 2]) if n % BAD_EVERY else b"no order"


def send(bootstrap: str, first: int, last: int) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        for at in range(first, last, CHUNK):
            numbers = range(at, min(at + CHUNK, last))
            producer.send_batch("orders", at // CHUNK % PARTITIONS, [value(n) for n in numbers])


def check(folder: Path, *, rows: int, in_all: int) -> None:
    """Check that the last run read ``rows`` rows, and all runs ``in_all``. Each good row must be written once."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    state = folder / "state" / "orders"
    report, ledger = last_run(state), ledger_of(state)
    bad = len(range(0, in_all, BAD_EVERY))
    assert (report["balanced"], report["lag"], report["ledger"]["rows_in"]) == (True, {"input": 0}, rows)
    assert (ledger.problems, ledger.rows_in, ledger.dead_letters) == ([], in_all, bad)
    assert ledger.sinks == {"table": in_all - bad}
    assert report["summaries"] == {"totals": 2}
    found = ds.dataset(sorted(map(str, (folder / "out").glob("*.parquet")))).to_table(["n", "twice"])
    assert found.num_rows == in_all - bad
    assert pc.count_distinct(found["n"]).as_py() == in_all - bad
    assert pc.sum(found["twice"]).as_py() == 2 * (sum(range(in_all)) - sum(range(0, in_all, BAD_EVERY)))


@pytest.mark.campaign
@pytest.mark.parametrize("rows", [200_000, 5_000_000])
def test_pipeline_on_a_spark_cluster_writes_each_good_row_once(rows: int, cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(ORDERS)
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"orders": PARTITIONS})
        send(broker.bootstrap, 0, rows)
        before = cluster.executors()
        environ = spark_environ() | {"BROKERS": broker.bootstrap}
        to_the_end = ("--master", cluster.master)
        run = PipelineProcess(tmp_path / "orders.yaml", environ, *to_the_end, log=tmp_path / "orders.log")
        try:
            assert run.process.wait(RUNS_S) == 0, run.printed[-4000:]
        finally:
            run.kill()
        assert cluster.executors() == before + 2, "both workers took part"
        check(tmp_path, rows=rows, in_all=rows)

        send(broker.bootstrap, rows, rows + MORE)
        submit(tmp_path, cluster.master, broker.bootstrap)
        assert cluster.executors() == before + 4
        check(tmp_path, rows=MORE, in_all=rows + MORE)


def submit(folder: Path, master: str, bootstrap: str) -> None:
    program = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (folder / "orders.py").write_text("\n".join(program))
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", master, "orders.py", "orders.yaml"]
    ran = subprocess.run(
        command,
        cwd=folder,
        env=spark_environ() | {"BROKERS": bootstrap},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUNS_S,
        check=False,
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-4000:]
