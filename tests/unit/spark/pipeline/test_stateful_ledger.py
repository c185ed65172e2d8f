"""Ledger, metrics and status of pipelines with windows take input row counts from Spark's progress events."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from kohort.cli.pipeline.run import ledger_lines
from kohort.spark.pipeline.ledger import Count, Entry, LedgerStore, rows_in_open_windows
from kohort.spark.pipeline.metrics import Metrics
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.running.run import RunReport
from kohort.spark.pipeline.running.stateful import StatefulRunner, counting_column

WINDOWS = """\
name: clicks
brokers: localhost:9092
sources:
  clicks:
    topics: [clicks]
    decode: {format: json, schema: "id long, at timestamp"}
steps:
  - window: {time: at, size: 1 minute, watermark: 1 minute, agg: {n: count(*)}}
sinks: [{noop: , name: table, counts: n}]
dlq: {topic: dead}
"""


def progress(
    batch: int, rows: int, bad: int = 0, again: int = 0, late: int = 0, state: int = 0, kind: str = "stateStoreSave"
) -> Any:
    counts = {"rows": rows, "undecoded": bad, "skipped": 0, "redelivered": again}
    return SimpleNamespace(
        batchId=batch,
        observedMetrics={"kohort_clicks": counts},
        stateOperators=[SimpleNamespace(numRowsDroppedByWatermark=late, operatorName=kind, numRowsTotal=state)],
    )


class WindowRun:
    """Simulated run of a pipeline with windows. It makes the calls that Spark makes, without rows."""

    def __init__(self, folder: Path, text: str = WINDOWS) -> None:
        self.pipeline = parse_pipeline(text, folder / "clicks.yaml", {})
        self.store = LedgerStore(self.pipeline.state / "ledger")
        self.metrics = Metrics("clicks", now=lambda: 1.0)
        self.runner = StatefulRunner(self.pipeline, self.store, self.metrics.entry_done)

    def windows(self, batch: int, rows: int, stands_for: int) -> None:
        out = Count(rows)
        entry = Entry(batch, stepped=out, passed=out, sinks={"table": rows}, marked=False, stateful=True)
        entry.stands_for = {"table": stands_for}
        self.store.write(entry)
        self.runner.entries.append(entry)

    def metric(self, name: str) -> float:
        samples = [sample for metric in self.metrics.collect() for sample in metric.samples]
        return float(next(s.value for s in samples if s.name == f"kohort_pipeline_{name}"))

    def printed(self) -> list[str]:
        return ledger_lines(RunReport("clicks", self.runner.ledger(), seconds=1.0))


def test_row_counts_of_a_pipeline_with_windows_are_equal_in_metrics_and_ledger(tmp_path: Path) -> None:
    run = WindowRun(tmp_path)
    run.windows(0, 0, 0)
    run.runner.complete(progress(0, 100, bad=3))
    run.windows(1, 10, 104)
    assert run.metric("rows_in_total") == 100, "Spark has not reported the second micro-batch"
    run.runner.complete(progress(1, 15, again=5, late=2))
    run.runner.complete(progress(1, 15, again=5, late=2))

    ledger = run.runner.ledger()

    assert ledger.problems == []
    assert (ledger.rows_in, ledger.undecoded, ledger.dead_letters, ledger.late) == (115, 3, 3, 2)
    assert {name: run.metric(name) for name in ("rows_in_total", "dead_letters_total", "late_total")} == {
        "rows_in_total": 115,
        "dead_letters_total": 3,
        "late_total": 2,
    }
    assert (run.metric("rows_out_total"), run.metric("redelivered_total"), run.metric("last_batch_rows")) == (10, 5, 15)
    assert [(e.rows_in.rows, e.dead_letters, e.late) for e in run.store.entries()] == [(100, 3, 0), (15, 0, 2)]


def test_ledger_of_a_pipeline_with_windows_is_balanced(tmp_path: Path) -> None:
    run = WindowRun(tmp_path)
    run.windows(0, 10, 104)
    run.runner.complete(progress(0, 115, bad=3, late=2))

    line = "  sink table: 115 in = 104 in 10 closed windows + 3 dead letters + 2 late + 6 in open windows"
    assert line in run.printed()
    assert 104 + 3 + 2 + 6 == 115


def test_ledger_of_next_run_starts_with_the_rows_in_open_windows(tmp_path: Path) -> None:
    first = WindowRun(tmp_path)
    first.windows(0, 10, 104)
    first.runner.complete(progress(0, 110))
    second = WindowRun(tmp_path)
    second.windows(1, 2, 7)
    second.runner.complete(progress(1, 4))

    line = "  sink table: 4 in + 6 from open windows = 7 in 2 closed windows + 0 dead letters"
    assert f"{line} + 3 in open windows" in second.printed()


def test_ledger_reports_more_output_than_input_rows_and_missing_progress_events(tmp_path: Path) -> None:
    run = WindowRun(tmp_path)
    run.windows(0, 10, 104)
    run.runner.complete(progress(0, 100))
    assert run.runner.ledger().problems == ["sink table counts 104 rows, 4 more than were read"]

    run.windows(1, 1, 1)
    assert "Spark has not reported the input of micro-batches [1]" in run.runner.ledger().problems


def test_rows_in_open_windows_are_unknown_after_a_killed_run() -> None:
    entry = Entry(0, rows_in=Count(5), stateful=True, sources={"clicks": 5}, stands_for={"table": 3})

    assert rows_in_open_windows([entry]) == {"table": 2}
    assert rows_in_open_windows([entry, Entry(1, stateful=True)]) == {}


def counting(tmp_path: Path, text: str) -> str:
    return counting_column(parse_pipeline(text, tmp_path / "clicks.yaml", {}))


def test_count_column_of_a_window_step_is_found_without_the_counts_setting(tmp_path: Path) -> None:
    text = WINDOWS.replace(", counts: n", "")

    assert counting(tmp_path, text) == "n"
    assert counting(tmp_path, text.replace("count(*)", "COUNT( 1 )")) == "n"
    assert counting(tmp_path, text.replace("count(*)", "sum(id)")) == ""
    assert counting(tmp_path, text.replace("agg:", "slide: 30 seconds, agg:")) == "", (
        "a record counts in several windows"
    )
    assert counting(tmp_path, text.replace("sinks:", "  - sql: select * from input\nsinks:")) == ""
    assert counting(tmp_path, f"{text}expect: [{{not_null: n, else: drop}}]\n") == ""
    assert counting(tmp_path, f"{text}mode: update\n") == ""


def test_ledger_accepts_more_output_than_input_rows_without_the_counts_setting(
    tmp_path: Path,
) -> None:
    run = WindowRun(tmp_path, WINDOWS.replace(", counts: n", ""))
    run.windows(0, 10, 104)
    run.runner.complete(progress(0, 60, bad=2, late=2, state=3))

    assert run.runner.ledger().problems == []
    assert run.printed()[2:] == [
        "  sink table: 60 in, 2 dead letters, 2 late; 10 rows of windows or joins out",
        "  dead letters, not decoded: 2",
        "  waiting in Spark's state, windows: 3",
    ]


def test_ledger_of_a_stream_join_reports_the_rows_in_spark_state(tmp_path: Path) -> None:
    run = WindowRun(tmp_path)
    for batch, state in enumerate([52, 8]):
        run.store.write(entry := Entry(batch, sinks={"table": 18}, passed=Count(18), stepped=Count(18), stateful=True))
        run.runner.entries.append(entry)
        run.runner.complete(progress(batch, 20, state=state, kind="symmetricHashJoin"))

    assert run.runner.ledger().state == {"join": 8}
    assert run.store.entries()[0].state == {"join": 52}
    assert "  waiting in Spark's state, join: 8" in run.printed()
