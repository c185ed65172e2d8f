"""A latest sink equals the database, even if its pipeline is killed at any time and restarted."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kohort import Admin, Broker, Producer
from kohort.spark.pipeline.running.run import WORKER_TOO_SLOW
from support.change_events import SCHEMA, ChangedTable
from support.processes.member_process import eventually
from support.processes.pipeline_process import PipelineProcess, last_run, ledger_of, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(7200)]

RECORDS = 20_000
KILLS = 10
LIMIT = 1000
"""Maximum number of records in a micro-batch."""
WAIT_S = 600.0
LONGEST_S = 3.0
ENDS_MOST = 4
ITEMS = f"""\
name: items
brokers: "${{BROKERS}}"
source: {{topics: [items], group: items, limit: {{rows: {LIMIT}}}}}
decode: {{format: debezium, schema: "{SCHEMA}"}}
sinks:
  - latest: {{path: out, key: id, buckets: 4, order: __position}}
dlq: {{topic: dead}}
checkpoint: state
"""
COLUMNS = [part.split()[0] for part in SCHEMA.replace("(12,2)", "").split(", ")]


@pytest.mark.campaign
def test_latest_rows_equal_the_database_if_the_pipeline_is_killed_at_any_time(tmp_path: Path) -> None:
    (tmp_path / "items.yaml").write_text(ITEMS)
    table, chance = ChangedTable(seed=11), random.Random(11)
    table.change(RECORDS)
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"items": table.partitions})
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for record in table.records:
                producer.send("items", record.value, record.key, partition=record.partition)
        for number in range(KILLS):
            run_and_kill(chance, tmp_path, broker.bootstrap, number)
        run_to_the_end(tmp_path, broker.bootstrap)

    rows = rows_of(tmp_path / "out", COLUMNS)
    assert len({row["id"] for row in rows}) == len(rows)
    assert {row["id"]: row for row in rows} == table.rows
    ledger, tombstones = ledger_of(tmp_path / "state" / "items"), sum(r.value is None for r in table.records)
    assert ledger.problems == []
    assert (ledger.rows_in, ledger.skipped) == (len(table.records), tombstones)
    assert ledger.sinks == {"latest": len(table.records) - tombstones}
    assert last_run(tmp_path / "state" / "items")["balanced"]


def started(folder: Path, bootstrap: str, log: str) -> PipelineProcess:
    return PipelineProcess(folder / "items.yaml", {"BROKERS": bootstrap}, log=folder / log)


def run_and_kill(chance: random.Random, folder: Path, bootstrap: str, number: int) -> None:
    """Kill a run a moment after it wrote rows or completed a micro-batch."""
    files = chance.choice(("out/latest-*.parquet", "state/items/ledger/*.json"))
    before, run = times_of(folder, files), started(folder, bootstrap, f"killed-{number}.log")
    try:
        eventually(files, lambda: run.process.poll() is not None or times_of(folder, files) - before, WAIT_S)
        time.sleep(chance.uniform(0, LONGEST_S))  # the seed decides the time of the kill
    finally:
        run.kill()


def times_of(folder: Path, files: str) -> set[tuple[Path, int]]:
    found = set()
    for path in folder.glob(files):
        with suppress(FileNotFoundError):
            found.add((path, path.stat().st_mtime_ns))
    return found


def run_to_the_end(folder: Path, bootstrap: str) -> None:
    for attempt in range(ENDS_MOST):
        run = started(folder, bootstrap, f"end-{attempt}.log")
        try:
            code = run.process.wait(WAIT_S)
        finally:
            run.kill()
        if WORKER_TOO_SLOW not in run.printed:
            break
    assert code == 0, run.printed[-4000:]
