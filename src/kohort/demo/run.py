"""Runs the demo from the source files to the checks."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from kohort.aio.admin import Admin
from kohort.coordinator.journal import JournalEntry
from kohort.demo import checks, flight_delays_file
from kohort.demo.checks import Check
from kohort.demo.expected import Expected, SourceTables, expect_from, read_tables
from kohort.demo.group import GROUP, SESSION_TIMEOUT_MS, DemoGroup, DemoJournal, end_offsets, lag_of
from kohort.demo.processes import PARTITIONS, DemoHooks, Processes, load_table
from kohort.demo.report import DemoOutput
from kohort.insight.rebalances import rebalances
from kohort.insight.why import explain
from kohort.spark.pipeline.parse import load_pipeline
from kohort.spark.pipeline.running.run import RunReport, run_pipeline
from kohort.spark.runtime.session import SHORT_RUN, session

PIPELINE_FILE: Final = flight_delays_file()
PIPELINE_GROUP: Final = "demo-pipeline"
QUICK_FLIGHTS: Final = 20_000
BROKER_SETTINGS: Final = {"group.initial.rebalance.delay.ms": "500", "log.retention.ms": "-1"}


@dataclass(slots=True)
class DemoResult:
    checks: list[Check] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return bool(self.checks) and all(c.holds for c in self.checks)


def run_demo(
    *,
    data: Path | None = None,
    source: Path | None = None,
    quick: bool = False,
    say: DemoOutput,
    hooks: DemoHooks | None = None,
) -> DemoResult:
    """Run the demo in the empty folder ``data``, or in a temporary folder that is removed afterwards.

    ``source``: folder of the flight data; ``quick``: load only a part of the flights.
    """
    began = time.monotonic()
    hooks = hooks or DemoHooks()
    with _folder(data) as folder, Processes(folder / "logs") as processes, ExitStack() as stack:
        stack.callback(hooks.end)
        outcome = _Demo(folder, processes, say, hooks).run(source, quick=quick)
        outcome.report |= {
            "holds": outcome.holds,
            "seconds": round(time.monotonic() - began, 1),
            "checks": [asdict(check) for check in outcome.checks],
            "rebalances": outcome.sentences,
        }
        (folder / "report.json").write_text(json.dumps(outcome.report, indent=1, default=str))
        say.head(f"{'All checks passed' if outcome.holds else 'CHECKS FAILED'}, {outcome.report['seconds']} s")
        if data is not None:
            say.line(f"topics, Parquet and report.json are in {folder}")
        hooks.done()
    return outcome


@contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        if any(data.iterdir()):
            raise FileExistsError(f"{data} is not empty: the demo counts every row and needs an empty folder")
        yield data.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="kohort-demo-") as name:
        yield Path(name)


class _Demo:
    def __init__(self, folder: Path, processes: Processes, say: DemoOutput, hooks: DemoHooks) -> None:
        self._folder = folder
        self._hooks = hooks
        self._processes = processes
        self._say = say
        self._outcome = DemoResult()
        self._bootstrap = ""

    def run(self, source: Path | None, *, quick: bool) -> DemoResult:
        tables = read_tables(source, flights_limit=QUICK_FLIGHTS if quick else None)
        self._say.head("Flights from New York, 2013, and the weather of each hour")
        self._say.line(f"{tables.flights.num_rows:,} flights, {tables.weather.num_rows:,} rows of weather")
        self._start_broker()
        self._load("weather", tables)
        with closing(DemoJournal(self._bootstrap, GROUP)) as journal:
            group = DemoGroup(self._bootstrap, "flights", self._processes, self._folder / "seen", journal)
            self._load_and_kill_member(group, tables)
            self._finish_group(group, tables)
            entries = journal.read_all()
        self._hooks.group_finished(entries[-1].at_ms)
        expected = expect_from(tables)
        self._verify(self._run_pipeline(expected), expected)
        self._explain(group, entries)
        self._say.checks(self._outcome.checks)
        return self._outcome

    def _start_broker(self) -> None:
        self._bootstrap = self._processes.start_broker(self._folder / "broker", BROKER_SETTINGS)
        self._say.line(f"broker: kohort serve on {self._bootstrap}, data on disk")
        with Admin(bootstrap_servers=self._bootstrap, client_id="demo") as admin:
            admin.create_topics({"flights": PARTITIONS, "weather": PARTITIONS})
        self._hooks.broker_started(self._bootstrap)

    def _load(self, topic: str, tables: SourceTables, on_rows: Callable[[int], None] = lambda _: None) -> None:
        table = tables.flights if topic == "flights" else tables.weather
        with self._say.progress(f"loading {topic}", table.num_rows) as advance:

            def rows(count: int) -> None:
                advance(count)
                on_rows(count)

            acknowledged = load_table(self._bootstrap, topic, table, rows)
        on_log = sum(end_offsets(self._bootstrap, topic).values())
        self._outcome.checks.append(checks.check_loaded(topic, table.num_rows, acknowledged, on_log))

    def _load_and_kill_member(self, group: DemoGroup, tables: SourceTables) -> None:
        self._say.head(f"Three consumers of {GROUP}; one is killed and one is added while flights arrive")
        group.start_members(3)
        self._say.line("member-1, member-2 and member-3 share the 6 partitions")
        third_loaded = threading.Event()
        loaded = 0

        def count(rows: int) -> None:
            nonlocal loaded
            loaded += rows
            if loaded >= tables.flights.num_rows // 3:
                third_loaded.set()

        def kill_and_add() -> None:
            third_loaded.wait()
            if group.stop_waiting.is_set():
                return
            killed = group.kill_one()
            self._say.line(f"SIGKILL to {killed.name} (pid {killed.pid})")
            group.wait_for_removal(killed)
            self._say.line(f"{killed.name} {killed.sentence} (session timeout {SESSION_TIMEOUT_MS} ms)")
            group.add_one()
            self._say.line(f"{group.added} joined")

        with ThreadPoolExecutor(1, "demo-kill") as background:
            killing = background.submit(kill_and_add)
            try:
                self._load("flights", tables, count)
            except BaseException:
                group.stop_waiting.set()
                raise
            finally:
                third_loaded.set()
            killing.result()

    def _finish_group(self, group: DemoGroup, tables: SourceTables) -> None:
        group.wait_for_lag_0()
        seen = group.seen()
        shares = ", ".join(f"{name} {count:,}" for name, count in sorted(seen.by_member.items()))
        self._say.line(f"delivered: {shares}")
        self._outcome.checks.append(checks.check_lag(GROUP, lag_of(self._bootstrap, GROUP, ["flights"])))
        self._outcome.checks.append(checks.check_deliveries(seen, tables.flights.num_rows, GROUP))
        self._outcome.report["seen"] = {"by_member": seen.by_member, "distinct": seen.distinct, "again": seen.again}
        group.leave()

    def _run_pipeline(self, expected: Expected) -> RunReport:
        self._say.head(f"The Spark pipeline {PIPELINE_FILE.name}, as group {PIPELINE_GROUP}, once")
        environ = os.environ | {"KOHORT_BROKERS": self._bootstrap, "KOHORT_OUT": str(self._folder / "out")}
        pipeline = load_pipeline(PIPELINE_FILE, environ)
        spark = session("kohort-demo", conf=SHORT_RUN)
        try:
            with self._say.progress("joining", expected.rows_in) as advance:
                report = run_pipeline(pipeline, spark, once=True, on_entry=lambda entry: advance(entry.rows_in.rows))
        finally:
            spark.stop()
        self._outcome.report["pipeline"] = report.as_json()
        self._say.line(f"{report.ledger.batches} micro-batches, {report.seconds:.1f} s without Spark's own start")
        return report

    def _verify(self, report: RunReport, expected: Expected) -> None:
        into = self._outcome.checks
        into += checks.check_ledger(report, expected)
        into.append(checks.check_dead_letters(self._bootstrap, "flights-rejected", expected))
        into.append(checks.check_lag(PIPELINE_GROUP, lag_of(self._bootstrap, PIPELINE_GROUP, ["flights", "weather"])))
        check, found = checks.check_results(self._folder / "out" / "delays", expected)
        into.append(check)
        self._say.head("Results")
        self._say.results(found)

    def _explain(self, group: DemoGroup, entries: list[JournalEntry]) -> None:
        self._outcome.sentences = sentences = [explain(rebalance).sentence for rebalance in rebalances(entries)]
        self._say.rebalances(GROUP, sentences)
        killed = group.killed
        if killed is None:
            return
        named = [s for s in sentences if killed.name in s]
        found = f"{killed.name} {killed.sentence}"
        self._outcome.report["killed"] = {"name": killed.name, "pid": killed.pid, "notice_ms": killed.notice_ms}
        self._outcome.checks.append(
            Check("each rebalance has its cause; one names the killed member", bool(named), found)
        )
