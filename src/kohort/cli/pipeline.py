"""``kohort pipeline``: check a pipeline file, and run it on Spark."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.spark.pipeline.run import RunReport

RUN_HELP = """Run a pipeline file on Spark, from topics to sinks, every row accounted for.

Goes on from the checkpoint of the last run. With --once, or with trigger: available-now, it stops at the end that the
topics have now; else it runs until Ctrl-C. At the end it prints the ledger: rows in, rows out and dead letters of every
sink. Exits with 1 if they do not add up.

\b
Examples:
  kohort pipeline run orders.yaml --once
  KOHORT_BROKERS=kafka:9092 kohort pipeline run orders.yaml
  kohort pipeline run orders.yaml --once --output json | jq .ledger
"""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(short_help="Check and run Spark pipelines over consumer groups.")
def pipeline() -> None:
    """Check a pipeline file, and run it on Spark."""


@pipeline.command(short_help="Check a pipeline file without touching a broker or Spark.")
@click.argument("file", type=_FILE)
@click.option("--output", type=click.Choice(["text", "json"]), default="text")
def validate(file: Path, output: str) -> None:
    """Check FILE: keys, types, names, environment, Python functions. Nothing is connected to, nothing is run."""
    from kohort.spark.pipeline.parse import load_pipeline

    try:
        found = load_pipeline(file)
    except KohortError as error:
        _fail(error)
    sources = {s.name: ("table" if s.table else "stream") for s in found.sources}
    sinks = {s.name: s.kind for s in found.sinks}
    if output == "json":
        click.echo(json.dumps({"name": found.name, "valid": True, "sources": sources, "sinks": sinks}))
        return
    click.echo(
        f"{file}: pipeline {found.name} is valid: {_names(sources)} -> {len(found.steps)} steps, "
        f"{len(found.rules)} rules -> {_names(sinks)}"
    )


@pipeline.command(help=RUN_HELP, short_help="Run a pipeline file on Spark.")
@click.argument("file", type=_FILE)
@click.option("--once", is_flag=True, help="Stop at the end that the topics have now.")
@click.option("--master", default="local[*,3]", show_default=True, help="Spark master.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text")
def run(file: Path, once: bool, master: str, output: str) -> None:
    from kohort.spark.pipeline.ledger import Entry
    from kohort.spark.pipeline.parse import load_pipeline

    def say(entry: Entry) -> None:
        rows = entry.rows_in.rows
        if rows and output == "text":
            click.echo(f"batch {entry.batch}: {rows:,} in, {entry.dead_letters:,} dead letters", err=True)

    try:
        found = load_pipeline(file)
        from kohort.spark.pipeline.run import run_pipeline
        from kohort.spark.session import session

        spark = session(f"kohort-{found.name}", master=master)
        try:
            report = run_pipeline(found, spark, once=once, on_entry=say)
        finally:
            spark.stop()
    except KohortError as error:
        _fail(error)
    click.echo(json.dumps(report.as_json(), indent=1) if output == "json" else "\n".join(ledger_lines(report)))
    sys.exit(0 if report.balanced else 1)


def ledger_lines(report: RunReport) -> list[str]:
    """The ledger for people: one line for each sink, then what was set aside and why."""
    ledger = report.ledger
    lines = [f"pipeline {report.name}: {ledger.rows_in:,} rows in, {ledger.batches} batches, {report.seconds:.1f} s"]
    aside = ledger.undecoded + sum(ledger.quarantined.values())
    for name, out in ledger.sinks.items():
        terms = [f"{out:,} out", f"{aside:,} dead letters"]
        terms += [f"{sum(ledger.dropped.values()):,} dropped"] if ledger.dropped else []
        terms += [f"{ledger.filtered:,} filtered"] if ledger.filtered else []
        lines.append(f"  sink {name}: {ledger.rows_in:,} in = {' + '.join(terms)}")
    lines += [f"  dead letters, {reason}: {rows:,}" for reason, rows in ledger.quarantined.items()]
    lines += [f"  dead letters, not decoded: {ledger.undecoded:,}"] if ledger.undecoded else []
    lines += [f"  dropped, {reason}: {rows:,}" for reason, rows in ledger.dropped.items()]
    lines += [f"  table {name}: {table.rows:,} rows" for name, table in report.tables.items()]
    lines += [f"  summary {name}: {rows:,} rows" for name, rows in report.summaries.items()]
    lines += [f"  lag of {name}: {lag:,}" for name, lag in report.lag.items()]
    lines += [f"  DOES NOT ADD UP: {problem}" for problem in [*ledger.problems, *report.problems]]
    return lines


def _names(kinds: dict[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in kinds.items())


def _fail(error: KohortError) -> NoReturn:
    click.echo(f"kohort pipeline: {error}", err=True)
    sys.exit(1)
