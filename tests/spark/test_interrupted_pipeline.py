"""Ctrl-C while a pipeline runs. The micro-batch in flight completes, and the output has no log lines of Spark."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from kohort import Admin, Broker, Producer
from support.processes.member_process import eventually
from support.processes.pipeline_process import PipelineProcess, ledger_of, rows_of
from support.processes.process_session import family

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

WAIT_S = 600.0
WINDOWS = """\
name: clicks
brokers: "${BROKERS}"
source: {topics: [clicks], group: clicks, limit: {rows: 50}}
decode: {format: json, schema: "user string, ms int, at timestamp"}
steps:
  - window: {time: at, size: 1 minute, watermark: 1 minute, agg: {n: count(*)}}
sinks:
  - parquet: {path: out}
    counts: n
dlq: {topic: dead}
trigger: {every: 200 milliseconds}
metrics: {http: "${METRICS}"}
checkpoint: state
"""
FOREIGN = ("Traceback", "py4j", "Py4J", "KeyboardInterrupt", "Exception", "ERROR", "incubator")


def click(minute: int, user: str = "ann", ms: Any = 12) -> bytes:
    return json.dumps({"user": user, "ms": ms, "at": f"2026-01-01T00:{minute:02}:30Z"}).encode()


def send(bootstrap: str, *values: bytes) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send("clicks", value, partition=0)


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def metrics(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {line.partition("{")[0].removeprefix("kohort_pipeline_"): float(line.rpartition(" ")[2]) for line in lines}


@pytest.mark.campaign
def test_ctrl_c_ends_a_pipeline_run_after_the_micro_batch_in_flight_and_all_counts_agree(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "clicks.yaml").write_text(WINDOWS)
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"clicks": 1})
        send(broker.bootstrap, *[click(n // 10) for n in range(100)], *[click(9, ms="12")] * 3)
        environ = {"BROKERS": broker.bootstrap, "METRICS": f"127.0.0.1:{port}"}
        run = PipelineProcess(tmp_path / "clicks.yaml", environ, "--continuous", log=tmp_path / "run.log")
        state = tmp_path / "state" / "clicks"
        try:
            eventually("all is read", lambda: run.check_runs() or ledger_of(state).rows_in == 103, WAIT_S)
            # click(0) is late: its window closed at watermark 8:30. click(9) is in time.
            send(broker.bootstrap, click(0), click(9))
            eventually("the late one too", lambda: run.check_runs() or ledger_of(state).rows_in == 105, WAIT_S)
            totals = metrics(port)
            os.killpg(run.process.pid, signal.SIGINT)  # like Ctrl-C in a terminal, to all processes in the foreground
            code = run.process.wait(WAIT_S)
        finally:
            run.kill()

    assert code == 0, run.printed
    assert not [line for line in run.printed.splitlines() if any(word in line for word in FOREIGN)], run.printed
    assert "stopping after the micro-batch in flight; Ctrl-C again stops at once" in run.printed
    ledger = ledger_of(state)
    assert (totals["rows_in_total"], totals["dead_letters_total"], totals["late_total"]) == (105, 3, 1)
    assert (ledger.rows_in, ledger.dead_letters, ledger.late, ledger.problems) == (105, 3, 1, [])
    rows = rows_of(tmp_path / "out", ("n",))
    stands_for = sum(row["n"] for row in rows)
    assert ledger.stands_for == {"parquet": stands_for}
    line = f"sink parquet: 105 in = {stands_for} in {len(rows)} closed windows + 3 dead letters + 1 late"
    assert f"{line} + {101 - stands_for} in open windows" in run.printed


@pytest.mark.campaign
def test_ctrl_c_while_spark_starts_ends_pipeline_and_spark_at_once(tmp_path: Path) -> None:
    (tmp_path / "clicks.yaml").write_text(WINDOWS)
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"clicks": 1})
        environ = {"BROKERS": broker.bootstrap, "METRICS": "127.0.0.1:0"}
        run = PipelineProcess(tmp_path / "clicks.yaml", environ, "--continuous", log=tmp_path / "run.log")
        try:
            eventually("Spark starts", lambda: run.check_runs() or "starting Spark" in run.printed, WAIT_S)
            time.sleep(1)  # Spark takes some seconds to start
            os.killpg(run.process.pid, signal.SIGINT)
            began = time.monotonic()
            code = run.process.wait(WAIT_S)
            took = time.monotonic() - began
            eventually("Spark ends with it", lambda: not family(run.process), WAIT_S)
        finally:
            run.kill()

    assert (code, took < 5) == (130, True), run.printed
    assert not [line for line in run.printed.splitlines() if any(word in line for word in FOREIGN)], run.printed
