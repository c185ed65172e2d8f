"""``kohort pipeline status`` and ``reset``: what a pipeline has done and where it stands; beginning anew. No Spark."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kohort.cli.options import confirm, yes_option
from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.spark.pipeline.definition import Pipeline
    from kohort.spark.pipeline.standing import Standing

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_SHOWN = 5


@click.command(short_help="Show lag by partition, the last micro-batches, and the last run's ledger.")
@click.argument("file", type=_FILE)
@click.option("--output", type=click.Choice(["text", "json"]), default="text")
def status(file: Path, output: str) -> None:
    """Show where the pipeline of FILE stands: lag by partition, last micro-batches and rates, last run."""
    from kohort.spark.pipeline.parse import load_pipeline
    from kohort.spark.pipeline.standing import standing

    found = load_pipeline(file)
    batches, last = _batches(found), _last_run(found)
    sources: list[Standing] = []
    problem = ""
    try:
        sources = [standing(source) for source in found.sources]
    except KohortError as error:
        problem = str(error)
    if output == "json":
        said: dict[str, Any] = {"name": found.name, "sources": [s.as_json() for s in sources], "last_run": last}
        click.echo(json.dumps(said | {"batches": batches} | ({"problem": problem} if problem else {}), indent=1))
        return
    click.echo(f"pipeline {found.name}, checkpoint {found.state}")
    if problem:
        click.echo(f"  brokers: {problem}")
    for source in sources:
        click.echo(f"  source {source.name}: {source.sentence()}")
        for tp, p in sorted(source.partitions.items()):
            at = "nothing committed" if p.committed is None else f"at {p.committed:,}"
            click.echo(f"    {tp}: {at} of {p.latest:,}, lag {p.lag:,}")
    for line in _batch_lines(batches, last):
        click.echo(line)


def _batches(pipeline: Pipeline) -> list[dict[str, Any]]:
    """The last micro-batches, the newest last: number, when it was done, its rows and dead letters."""
    from kohort.spark.pipeline.ledger import Entry

    files = sorted((pipeline.state / "ledger").glob("*.json"))[-_SHOWN:]
    shown = []
    for path in files:
        entry = Entry.from_json(json.loads(path.read_text()))
        done = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        counts = {"rows": entry.rows_in.rows, "redelivered": entry.redelivered, "dead_letters": entry.dead_letters}
        shown.append({"batch": entry.batch, "done": done, **counts})
    return shown


def _last_run(pipeline: Pipeline) -> dict[str, Any] | None:
    path = pipeline.state / "last-run.json"
    return json.loads(path.read_text()) if path.exists() else None


def _batch_lines(batches: list[dict[str, Any]], last: dict[str, Any] | None) -> list[str]:
    if not batches:
        return ["  it has not run yet"]
    lines = [
        f"  batch {b['batch']}, {b['done']}: {b['rows']:,} rows{_again(b)}, {b['dead_letters']:,} dead letters"
        for b in batches
    ]
    if last is not None:
        ledger, seconds = last["ledger"], last["seconds"]
        rate = ledger["rows_in"] / seconds if seconds else 0
        sinks = ", ".join(f"{name} {rows:,}" for name, rows in ledger["sinks"].items())
        lines.append(
            f"  last run: {ledger['rows_in']:,} rows in{_again(ledger)}, {sinks} out, {seconds:.1f} s, "
            f"{rate:,.0f} rows/s, {'balanced' if last['balanced'] else 'NOT balanced'}"
        )
    return lines


def _again(counts: dict[str, Any]) -> str:
    rows = counts.get("redelivered", 0)  # not in what earlier versions wrote
    return f", re-delivered {rows:,}" if rows else ""


@click.command(short_help="Forget the checkpoint, so that the next run begins anew.")
@click.argument("file", type=_FILE)
@click.option("--outputs", is_flag=True, help="Remove the rows of its Parquet sinks and its summaries too.")
@yes_option
def reset(file: Path, outputs: bool, yes: bool) -> None:
    """Remove the checkpoint and the ledger of the pipeline of FILE. The next run begins where start: says.

    The group's offsets stay: with start: group the next run goes on from them, and kohort group reset moves them. A
    Parquet sink refuses a new checkpoint while it holds rows of the old one; --outputs removes those.
    """
    from kohort.spark.pipeline.parse import load_pipeline

    found = load_pipeline(file)
    folders = [found.state] + (_outputs(found) if outputs else [])
    present = [folder for folder in folders if folder.exists()]
    if not present:
        click.echo(f"pipeline {found.name} has no checkpoint at {found.state}", err=True)
        return
    confirm(f"Remove {', '.join(map(str, present))}?", yes=yes)
    for folder in present:
        shutil.rmtree(folder)
        click.echo(f"removed {folder}", err=True)
    for source in found.streams:
        if source.start == "group":
            click.echo(f"source {source.name} begins where group {source.group} stands", err=True)


def _outputs(pipeline: Pipeline) -> list[Path]:
    """What runs have written: the folder of each micro-batch, and summaries; nothing else of those folders."""
    found = [batch for sink in pipeline.sinks if sink.path for batch in sorted(sink.path.glob("batch=*"))]
    return found + [summary.path for summary in pipeline.summaries]
