"""``kohort pipeline test``, ``dry-run`` and ``run``: the commands that start Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.spark.pipeline.definition import Pipeline
    from kohort.spark.pipeline.run import RunReport

RUN_HELP = """Run a pipeline file on Spark, from topics to sinks, every row accounted for.

Goes on from the checkpoint of the last run. With --until-caught-up, or with trigger: available-now, it stops at the end
that the topics have now; with --continuous, or with trigger: {every: ...}, it runs until Ctrl-C. At the end it prints
the ledger: rows in, rows out and dead letters of every sink. Exits with 1 if they do not add up.

\b
Examples:
  kohort pipeline run orders.yaml --until-caught-up
  KOHORT_BROKERS=kafka:9092 kohort pipeline run orders.yaml --continuous
  kohort pipeline run orders.yaml --until-caught-up --output json | jq .ledger
"""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_master = click.option("--master", default="local[*,3]", show_default=True, help="Spark master.")
_output = click.option("--output", type=click.Choice(["text", "json"]), default="text")
EVERY = "1 second"
"""How often a run begins a micro-batch that is made continuous by the command, where the file has no interval."""


@contextmanager
def _spark(pipeline: Pipeline, master: str, *, short: bool = False) -> Iterator[SparkSession]:
    from kohort.spark.session import SHORT_RUN, session

    spark = session(f"kohort-{pipeline.name}", master=master, conf=SHORT_RUN if short else None)
    try:
        yield spark
    finally:
        spark.stop()


@click.command(short_help="Run the tests in a pipeline file; no broker is needed.")
@click.argument("file", type=_FILE)
@click.option("--only", metavar="TEXT", default="", help="Only tests whose name holds this.")
@_output
def test(file: Path, only: str, output: str) -> None:
    """Give each test's records to the steps and rules of FILE and compare what comes of them. Exits with 1 if one
    fails."""
    from kohort.spark.pipeline.parse import load_pipeline

    found = load_pipeline(file)
    chosen = [t for t in found.tests if only in t.name]
    if not chosen:
        click.echo(f"kohort pipeline: {file} has no tests{f' with {only!r} in their name' if only else ''}", err=True)
        sys.exit(1)
    from kohort.spark.pipeline.file_tests import run_test

    with _spark(found, "local[2]", short=True) as spark:
        outcomes = [run_test(found, t, spark) for t in chosen]
    if output == "json":
        told = [{"name": o.name, "line": o.line, "passed": o.passed, "problems": o.problems} for o in outcomes]
        click.echo(json.dumps(told, indent=1))
    else:
        for outcome in outcomes:
            click.echo(f"{'ok    ' if outcome.passed else 'FAILED'} {outcome.name} (line {outcome.line})")
            for problem in outcome.problems:
                click.echo(f"       {problem}")
    sys.exit(0 if all(o.passed for o in outcomes) else 1)


@click.command("dry-run", short_help="Connect and analyse, but read no rows and write nothing.")
@click.argument("file", type=_FILE)
@_output
def dry_run(file: Path, output: str) -> None:
    """Check FILE against its brokers and against Spark: topics exist, how much waits in them, and every step makes
    sense to Spark. Nothing is read, created or written."""
    from kohort.spark.pipeline.parse import load_pipeline
    from kohort.spark.pipeline.standing import standing

    found = load_pipeline(file)
    sources = [standing(source) for source in found.sources]  # before Spark is started: this may fail at once
    from kohort.spark.pipeline.file_tests import analysed

    with _spark(found, "local[2]", short=True) as spark:
        columns = {f.name: f.dataType.simpleString() for f in analysed(found, spark).schema.fields}
    if output == "json":
        said: dict[str, Any] = {"name": found.name, "sources": [s.as_json() for s in sources], "columns": columns}
        click.echo(json.dumps(said, indent=1))
        return
    for source in sources:
        click.echo(f"source {source.name}: {source.sentence()}")
    click.echo("to the sinks: " + ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    for sink in found.sinks:
        click.echo(f"sink {sink.name}: {sink.kind} {sink.path or sink.topic or ''}".rstrip())


@click.command(help=RUN_HELP, short_help="Run a pipeline file on Spark.")
@click.argument("file", type=_FILE)
@click.option("--until-caught-up", "--once", "once", is_flag=True, help="Stop at the end that the topics have now.")
@click.option("--continuous", is_flag=True, help="Run until Ctrl-C, whatever the file's trigger says.")
@_master
@_output
def run(file: Path, once: bool, continuous: bool, master: str, output: str) -> None:
    from kohort.cli.pipeline_progress import Progress
    from kohort.spark.pipeline.check_whole import check_goes_on
    from kohort.spark.pipeline.definition import AVAILABLE_NOW
    from kohort.spark.pipeline.parse import load_pipeline

    if once and continuous:
        raise click.UsageError("--until-caught-up and --continuous exclude each other")
    found = load_pipeline(file)
    finite = once or (found.every == AVAILABLE_NOW and not continuous)
    if finite:
        check_goes_on(found)  # before Spark is started
    from kohort.spark.pipeline.run import run_pipeline

    with _spark(found, master) as spark, Progress(found, finite=finite, quiet=output == "json") as progress:
        report = run_pipeline(found, spark, once=finite, on_entry=progress.entry_done, every=EVERY)
    click.echo(json.dumps(report.as_json(), indent=1) if output == "json" else "\n".join(ledger_lines(report)))
    sys.exit(0 if report.balanced else 1)


def ledger_lines(report: RunReport) -> list[str]:
    """The ledger for people: one line for each sink, then what was set aside and why."""
    ledger = report.ledger
    again = f", re-delivered {ledger.redelivered:,}" if ledger.redelivered else ""
    did = f"{ledger.batches} batches, {report.seconds:.1f} s"
    lines = [f"pipeline {report.name}: {ledger.rows_in:,} rows in{again}, {did}"]
    lines += [f"  source {name}: {rows:,} rows" for name, rows in ledger.sources.items()]
    aside = ledger.undecoded + sum(ledger.quarantined.values())
    for name, out in ledger.sinks.items():
        terms = [f"{out:,} out", f"{aside:,} dead letters"]
        terms += [f"{sum(ledger.dropped.values()):,} dropped"] if ledger.dropped else []
        terms += [f"{ledger.filtered:,} filtered"] if ledger.filtered else []
        terms += [f"{ledger.late:,} late"] if ledger.late else []
        equal = "=" if not ledger.sources else "->"  # windows and joins make other rows than they are given
        lines.append(f"  sink {name}: {ledger.rows_in:,} in {equal} {' + '.join(terms)}")
    lines += [f"  sink {name}: {rows:,} rows wait in open windows" for name, rows in ledger.held.items()]
    lines += [f"  dead letters, {reason}: {rows:,}" for reason, rows in ledger.quarantined.items()]
    lines += [f"  dead letters, not decoded: {ledger.undecoded:,}"] if ledger.undecoded else []
    lines += [f"  dropped, {reason}: {rows:,}" for reason, rows in ledger.dropped.items()]
    lines += [f"  table {name}: {table.rows:,} rows" for name, table in report.tables.items()]
    lines += [f"  summary {name}: {rows:,} rows" for name, rows in report.summaries.items()]
    lines += [f"  lag of {name}: {lag:,}" for name, lag in report.lag.items()]
    lines += [f"  DOES NOT ADD UP: {problem}" for problem in [*ledger.problems, *report.problems]]
    return lines
