"""``kohort pipeline test``, ``dry-run`` and ``run``, which start Spark."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kohort.cli.terminal.options import FILE
from kohort.cli.terminal.output import output_of, print_result, report_lines
from kohort.errors import KohortError
from kohort.extras import needs
from kohort.results.pipelines import PipelineChecked, PipelineRan, PipelineSource, PipelineTested, PipelineTestRow
from kohort.results.result import schema_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.spark.pipeline.definition import Pipeline
    from kohort.spark.pipeline.ledger import Entry, Ledger
    from kohort.spark.pipeline.running.run import RunReport


def rows_waiting(pipeline: Pipeline) -> int | None:
    """Return the number of unread records in the pipeline's topics.

    Returns None if only Spark's checkpoint stores how far the topics were read.
    """
    from kohort.spark.pipeline.sources import source_lag

    found = {source.name: source_lag(source) for source in pipeline.sources}
    fresh = not (pipeline.state / "spark").exists()
    rows = 0
    for source in pipeline.streams:
        lag = found[source.name]
        if not fresh and not source.group:
            return None
        if fresh and source.start == "earliest":
            rows += sum(p.latest - p.earliest for p in lag.partitions.values())
        elif not fresh or source.start == "group":
            rows += lag.lag
    return rows


class Progress:
    """Prints the progress of a pipeline run.

    A finite run on a terminal has a bar, any other run a line per micro-batch.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        waiting: int | None,
        *,
        finite: bool,
        quiet: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline = pipeline
        self._waiting = waiting
        self._finite = finite
        self._quiet = quiet
        self._now = now
        self._began = now()
        self._first_done: float | None = None
        self._rows_of_first = 0
        self._rows = 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        self._began = self._now()
        if not self._quiet:
            click.echo(self._plan(), err=True)
            if self._finite and sys.stderr.isatty():
                self._start_bar()
        return self

    def _plan(self) -> str:
        topics = ", ".join(topic for source in self._pipeline.streams for topic in source.topics)
        if self._waiting is None:
            return f"reading {topics} from the offsets in the checkpoint"
        most = sum(source.max_rows or 0 for source in self._pipeline.streams)
        batches = f" in about {math.ceil(self._waiting / most):,} batches" if most and self._waiting else ""
        then = "" if self._finite else ", then new records until Ctrl-C"
        return f"reading {self._waiting:,} records of {topics}{batches}{then}"

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TaskProgressColumn())
        speed = TextColumn("{task.fields[speed]} rows/s")
        self._bar = Bar(*columns, speed, TimeRemainingColumn(), console=Console(stderr=True))
        self._task = self._bar.add_task(self._pipeline.name, total=self._waiting, speed="0")
        self._bar.start()

    def entry_done(self, entry: Entry) -> None:
        rows, now = entry.rows_in.rows, self._now()
        self._rows += rows
        speed = self._rows / max(1e-9, now - self._began)
        if self._bar is not None:
            self._bar.update(self._task, advance=rows, speed=f"{speed:,.0f}")
        elif (rows or any(entry.sinks.values())) and not self._quiet:
            click.echo(self._line(entry, speed, self._pace(now)), err=True)
        if rows and self._first_done is None:
            self._first_done, self._rows_of_first = now, self._rows

    def _pace(self, now: float) -> float:
        """Return the rows per second since the end of the first micro-batch.

        Spark's start makes that micro-batch slow.
        """
        since = 0.0 if self._first_done is None else now - self._first_done
        return (self._rows - self._rows_of_first) / since if since > 0 else 0.0

    def _line(self, entry: Entry, speed: float, pace: float) -> str:
        line = f"batch {entry.batch}: {entry.rows_in.rows:,} rows"
        line += f", re-delivered {entry.redelivered:,}" if entry.redelivered else ""
        line += f", {entry.dead_letters:,} dead letters" if entry.dead_letters else ""
        line += f", {entry.late:,} late" if entry.late else ""
        line += f", {sum(entry.sinks.values()):,} rows out" if entry.stateful else ""
        line += f"; {self._rows:,} so far, {speed:,.0f} rows/s"
        if self._finite and self._waiting and self._waiting >= self._rows:
            left = self._waiting - self._rows
            line += f", {100 * self._rows // self._waiting} %"
            line += f", about {time_left(left / pace)} left" if left and pace else ""
        return line

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


def time_left(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"


RUN_HELP = """Run the pipeline in FILE on Spark, from topics to sinks, and count every row.

A run continues from the checkpoint of the last run. With --until-caught-up, or trigger: available-now in the file, it
stops at the log ends that the topics had when it started. With --continuous, or trigger: {every: ...}, it runs until
Ctrl-C. At the end it prints the ledger: rows in, rows out and dead letters of each sink. The exit code is 1 if these
row counts do not add up.

\b
Examples:
  kohort pipeline run orders.yaml --until-caught-up
  KOHORT_BROKERS=kafka:9092 kohort pipeline run orders.yaml --continuous
  kohort pipeline run orders.yaml --until-caught-up --output json | jq .ledger
"""

EVERY = "1 second"
"""Trigger interval of --continuous if the pipeline file has no interval."""


@contextmanager
def _spark(pipeline: Pipeline, master: str, *, short: bool = False) -> Iterator[SparkSession]:
    """Start a Spark session.

    Ctrl-C ends the process at once. Only a pipeline run first completes its micro-batch.
    """
    from kohort.cli.terminal.exits import ExitCode
    from kohort.spark.pipeline.running.process import exit_on_signal
    from kohort.spark.runtime.environment import spark_home
    from kohort.spark.runtime.session import SHORT_RUN, session

    with exit_on_signal(ExitCode.INTERRUPTED) as install:
        spark_home()  # check for pyspark before the slow start of Spark; raises MissingExtra
        click.echo("starting Spark", err=True)
        began = time.monotonic()
        spark = session(f"kohort-{pipeline.name}", master=master, conf=SHORT_RUN if short else None)
        install()
        click.echo(f"Spark {spark.version} started in {time.monotonic() - began:.0f} s", err=True)
        try:
            yield spark
        finally:
            spark.stop()


@click.command(short_help="Run the tests in a pipeline file; no broker is needed.")
@click.argument("file", type=FILE)
@click.option("--only", metavar="TEXT", default="", help="Run only the tests whose names contain TEXT.")
@click.option("--watch", is_flag=True, help="Repeat the tests after each change of FILE or its Python files.")
@output_of(PipelineTested)
def test(file: Path, only: str, watch: bool, output: str) -> None:
    """Run the tests in FILE: send the records of each test through the pipeline, and compare the output rows.

    The exit code is 1 if a test fails. Spark takes some seconds to start; with --watch it starts only once.
    """
    found = load_checked(file)
    if not any(only in test.name for test in found.tests):
        raise KohortError(f"{file} has no tests" + (f" with {only!r} in their names" if only else ""))
    with _spark(found, "local[2]", short=True) as spark:
        passed = _run_tests(found, only, spark, output)
        while watch:
            wait_for_change(file)
            try:
                _run_tests(load_checked(file), only, spark, output)
            except KohortError as error:
                click.echo(f"kohort pipeline: {error}", err=True)
    sys.exit(0 if passed else 1)


def load_checked(file: Path) -> Pipeline:
    from kohort.spark.pipeline.check_sql import check_sql
    from kohort.spark.pipeline.parse import load_pipeline

    found = load_pipeline(file)
    check_sql(found)
    return found


def _run_tests(pipeline: Pipeline, only: str, spark: SparkSession, output: str) -> bool:
    from kohort.spark.pipeline.file_tests import run_test

    rows = []
    for test in [test for test in pipeline.tests if only in test.name]:
        problems = run_test(pipeline, test, spark)
        rows.append(PipelineTestRow(name=test.name, line=test.line, passed=not problems, problems=problems))
        if output == "table":
            click.echo(f"{'FAILED' if problems else 'ok    '} {test.name} (line {test.line})")
            for problem in problems:
                click.echo(f"       {problem}")
    if output != "table":
        print_result(PipelineTested(tests=rows), output)
    return all(row.passed for row in rows)


def wait_for_change(file: Path, every_s: float = 0.5) -> None:
    def change_times() -> dict[Path, int]:
        found = {}
        for path in (file, *file.absolute().parent.glob("*.py")):
            with suppress(OSError):  # an editor may be replacing the pipeline file at this moment
                found[path] = path.stat().st_mtime_ns
        return found

    before = change_times()
    click.echo(f"watching {file} and the Python files in its folder until Ctrl-C", err=True)
    while change_times() == before:
        time.sleep(every_s)


@click.command("dry-run", short_help="Check a pipeline file against brokers and Spark; no row is read.")
@click.argument("file", type=FILE)
@output_of(PipelineChecked)
def dry_run(file: Path, output: str) -> None:
    """Check FILE against its brokers and Spark: the topics exist, and Spark accepts every step of the pipeline.

    Shows the number of unread records. Reads no records, and creates no topics or files.
    """
    from kohort.spark.pipeline.sources import source_lag

    found = load_checked(file)
    # read the lag before the slow start of Spark: if no broker answers, the error comes early
    lags = [asdict(source_lag(source)) for source in found.sources]
    with needs("spark", "Spark"):
        from kohort.spark.pipeline.file_tests import dry_run_frame
        from kohort.spark.pipeline.running.stateful import check_dead_letters, check_streams, result_frame

    if found.stateful:
        check_dead_letters(found)
    with _spark(found, "local[2]", short=True) as spark:
        columns = {f.name: f.dataType.simpleString() for f in dry_run_frame(found, spark).schema.fields}
        if found.stateful:
            check_streams(result_frame(spark, found), found)
    sources = msgspec.convert(lags, list[PipelineSource])
    lines = [source_line(source) for source in sources]
    lines.append("columns of the sinks: " + ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    lines += [f"sink {sink.name}: {sink.kind} {sink.place}".rstrip() for sink in found.sinks]
    report_lines(output, PipelineChecked(name=found.name, sources=sources, columns=columns), lines)


def source_line(source: PipelineSource) -> str:
    topics = ", ".join(sorted({name.rpartition("-")[0] for name in source.partitions}))
    unread = f"group {source.group}, lag {source.lag:,}" if source.group else f"no group, {source.lag:,} rows"
    return f"source {source.name}: {topics}, {len(source.partitions)} partitions, {unread}"


@click.command(help=RUN_HELP, short_help="Run a pipeline file on Spark.")
@click.argument("file", type=FILE)
@click.option(
    "--until-caught-up", "--once", "once", is_flag=True, help="Stop at the log ends that the topics have at the start."
)
@click.option("--continuous", is_flag=True, help="Run until Ctrl-C, regardless of the trigger in FILE.")
@click.option("--master", default="local[*,3]", show_default=True, help="URL of the Spark master.")
@output_of(PipelineRan)
def run(file: Path, once: bool, continuous: bool, master: str, output: str) -> None:
    from kohort.spark.pipeline.check_whole import check_not_member
    from kohort.spark.pipeline.definition import AVAILABLE_NOW

    if once and continuous:
        raise click.UsageError("--until-caught-up and --continuous exclude each other")
    found = load_checked(file)
    finite = once or (found.every == AVAILABLE_NOW and not continuous)
    if finite:
        check_not_member(found)
    with needs("spark", "Spark"):
        from kohort.spark.pipeline.running.process import exclusive_run
        from kohort.spark.pipeline.running.run import claim, run_pipeline

    # read the lag before the slow start of Spark: if no broker answers, the error comes early
    waiting = rows_waiting(found)
    with exclusive_run(found):
        claim(found)
        with _spark(found, master) as spark:
            with Progress(found, waiting, finite=finite, quiet=output != "table") as progress:
                report = run_pipeline(found, spark, once=finite, on_entry=progress.entry_done, every=EVERY, locked=True)
            result = msgspec.convert({"schema": schema_name(PipelineRan), **report.as_json()}, PipelineRan)
            report_lines(output, result, ledger_lines(report))
    sys.exit(0 if report.balanced else 1)


def ledger_lines(report: RunReport) -> list[str]:
    ledger = report.ledger
    again = f", re-delivered {ledger.redelivered:,}" if ledger.redelivered else ""
    did = f"{ledger.batches} batches, {report.seconds:.1f} s"
    lines = [f"pipeline {report.name}: {ledger.rows_in:,} rows in{again}, {did}"]
    lines += [f"  source {name}: {rows:,} rows" for name, rows in ledger.sources.items()]
    lines += [_sink_line(ledger, name) for name in ledger.sinks]
    lines += [f"  dead letters, {reason}: {rows:,}" for reason, rows in ledger.quarantined.items()]
    lines += [f"  dead letters, not decoded: {ledger.undecoded:,}"] if ledger.undecoded else []
    lines += [f"  dropped, {reason}: {rows:,}" for reason, rows in ledger.dropped.items()]
    lines += [f"  table {name}: {table.rows:,} rows" for name, table in report.tables.items()]
    lines += [f"  waiting in Spark's state, {name}: {rows:,}" for name, rows in ledger.state.items()]
    lines += [f"  summary {name}: {rows:,} rows" for name, rows in report.summaries.items()]
    lines += [f"  lag of {name}: {lag:,}" for name, lag in report.lag.items()]
    lines += [f"  DOES NOT ADD UP: {problem}" for problem in [*ledger.problems, *report.problems]]
    return lines


def _sink_line(ledger: Ledger, name: str) -> str:
    out, stands_for = ledger.sinks[name], ledger.stands_for.get(name)
    rows_in = f"{ledger.rows_in:,} in"
    if ledger.waited.get(name):
        rows_in += f" + {ledger.waited[name]:,} from open windows"
    dead = ledger.undecoded + sum(ledger.quarantined.values())
    terms = [f"{dead:,} dead letters"]
    terms += [f"{ledger.skipped:,} tombstones"] if ledger.skipped else []
    terms += [f"{sum(ledger.dropped.values()):,} dropped"] if ledger.dropped else []
    terms += [f"{ledger.filtered:,} filtered"] if ledger.filtered else []
    terms += [f"{ledger.late:,} late"] if ledger.late else []
    terms += [f"{ledger.held[name]:,} in open windows"] if name in ledger.held else []
    # windows and joins write rows that correspond to no single input row
    if ledger.sources and stands_for is None:
        return f"  sink {name}: {', '.join([rows_in, *terms])}; {out:,} rows of windows or joins out"
    # after windows and joins the rows add up (``=``) only with the rows in open windows, if their number is known
    equal = "=" if not ledger.sources or name in ledger.held else "->"
    first = f"{out:,} out" if stands_for is None else f"{stands_for:,} in {out:,} closed windows"
    return f"  sink {name}: {rows_in} {equal} {' + '.join([first, *terms])}"
