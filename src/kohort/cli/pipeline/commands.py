"""``kohort pipeline``, and its subcommands ``init``, ``validate``, ``status``, ``compact`` and ``reset``."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from kohort.cli.pipeline.replay import replay
from kohort.cli.pipeline.run import dry_run, load_checked, run, source_line, test
from kohort.cli.terminal.options import FILE, confirm, yes_option
from kohort.cli.terminal.output import output_of, print_result, report_lines
from kohort.errors import KohortError
from kohort.results.pipelines import PipelineStatus, PipelineValid
from kohort.verbs.pipelines import pipeline_status
from kohort.verbs.refusals import RefusedByState

if TYPE_CHECKING:
    from kohort.spark.pipeline.definition import Pipeline, Summary
    from kohort.spark.pipeline.sinks.folder_claim import OwnedFiles


@click.command(short_help="Show lag of partitions, last micro-batches, and the last run.")
@click.argument("file", type=FILE)
@output_of(PipelineStatus)
def status(file: Path, output: str) -> None:
    """Show the progress of the pipeline in FILE: lag of its partitions, last micro-batches, last run."""
    from kohort.spark.pipeline.parse import load_pipeline

    pipeline = load_pipeline(file)
    found = pipeline_status(pipeline)
    if output != "table":
        print_result(found, output)
        return
    click.echo(f"pipeline {found.name}, checkpoint {pipeline.state}")
    if found.problem:
        click.echo(f"  brokers: {found.problem}")
    for source in found.sources:
        click.echo(f"  {source_line(source)}")
        for name, p in source.partitions.items():
            at = "no offset committed" if p.committed is None else f"at {p.committed:,}"
            click.echo(f"    {name}: {at} of {p.latest:,}, lag {p.lag:,}")
    if found.running:
        since = datetime.fromtimestamp(found.running.since_ms / 1000, UTC).isoformat(timespec="seconds")
        click.echo(f"  running since {since}, process {found.running.pid} on {found.running.host}")
    for line in _batch_lines(found, stateful=pipeline.stateful):
        click.echo(line)


def _batch_lines(found: PipelineStatus, *, stateful: bool) -> list[str]:
    if not found.batches:
        return ["  no micro-batch is complete yet" if found.running else "  the pipeline has not run yet"]
    lines = [
        f"  batch {b.batch}, {b.done}: {b.rows:,} rows{_again(b.redelivered)}, {b.dead_letters:,} dead letters"
        + (f", {b.late:,} late" if b.late else "")
        + (f", {sum(b.sinks.values()):,} rows out" if stateful else "")
        for b in found.batches
    ]
    if found.last_run is not None:
        ledger, seconds = found.last_run["ledger"], found.last_run["seconds"]
        rate = ledger["rows_in"] / seconds if seconds else 0
        sinks = ", ".join(f"{name} {rows:,}" for name, rows in ledger["sinks"].items())
        # results that old versions of kohort wrote lack the count of redelivered rows
        again = _again(ledger.get("redelivered", 0))
        lines.append(
            f"  last run: {ledger['rows_in']:,} rows in{again}, {sinks} out, {seconds:.1f} s, "
            f"{rate:,.0f} rows/s, {'balanced' if found.last_run['balanced'] else 'NOT balanced'}"
        )
    return lines


def _again(rows: int) -> str:
    return f", re-delivered {rows:,}" if rows else ""


@click.command(short_help="Remove the checkpoint, so that the next run starts over.")
@click.argument("file", type=FILE)
@click.option("--outputs", is_flag=True, help="Also remove the rows of the Parquet sinks, and the summaries.")
@yes_option
def reset(file: Path, outputs: bool, yes: bool) -> None:
    """Remove the checkpoint and the ledger of the pipeline in FILE.

    The next run starts at the offsets that the key "start" in FILE selects. The committed offsets of the group stay:
    with "start: group", the next run starts at them, and kohort group reset-offsets changes them. A Parquet sink
    rejects a new checkpoint while it has rows of the old one; --outputs removes these rows. Rows of other pipelines in
    the same folder stay.
    """
    from kohort.spark.pipeline.parse import load_pipeline
    from kohort.spark.pipeline.running.process import current_run

    found = load_pipeline(file)
    now = current_run(found)
    if now:
        raise RefusedByState(f"pipeline {found.name} is running: stop process {now.pid} on {now.host} first")
    rows = _output_rows(found) if outputs else []
    state = [found.state] if found.state.exists() else []
    if not state and not rows:
        click.echo(f"pipeline {found.name} has no checkpoint at {found.state}", err=True)
        return
    what = [*map(str, state), *(f"the rows in {own.folder.path}" for own in rows)]
    confirm(f"Remove {', '.join(what)}?", yes=yes)
    for own in rows:
        own.remove()
        click.echo(f"removed the rows in {own.folder.path}", err=True)
    for path in state:
        shutil.rmtree(path, ignore_errors=True)
        click.echo(f"removed {path}", err=True)
    for source in found.streams:
        if source.start == "group":
            click.echo(f"source {source.name} starts at the committed offsets of group {source.group}", err=True)


def _output_rows(pipeline: Pipeline) -> list[OwnedFiles]:
    from kohort.spark.pipeline.sinks.folder_claim import owned_files
    from kohort.spark.pipeline.sinks.latest import LatestSink
    from kohort.spark.pipeline.sinks.parquet import ParquetSink

    outputs: list[ParquetSink | LatestSink | Summary] = [
        s for s in pipeline.sinks if isinstance(s, ParquetSink | LatestSink)
    ]
    outputs += pipeline.summaries
    found = [owned_files(pipeline, output) for output in outputs]
    return [rows for rows in found if rows.files]


@click.command(short_help="Merge the small files of a pipeline's Parquet sinks.")
@click.argument("file", type=FILE)
@click.option("--size", default="128m", show_default=True, help="Approximate size of a merged file.")
def compact(file: Path, size: str) -> None:
    """Merge small files of the Parquet sinks in FILE into large files, separately in each folder of partition_by.

    The pipeline may run meanwhile: only files of completed micro-batches are merged. At the moment when a merged file
    replaces small files, a program that reads the folder may see rows twice, or a file may be missing.
    """
    from kohort.spark.options.table import size_bytes
    from kohort.spark.pipeline.parse import load_pipeline
    from kohort.spark.pipeline.pipeline_owner import claim_checkpoint
    from kohort.spark.pipeline.sinks.folder_claim import claim_sink
    from kohort.spark.pipeline.sinks.parquet import ParquetSink
    from kohort.spark.pipeline.sinks.parquet_folder import committed_upto

    large = size_bytes("--size", size)
    found = load_pipeline(file)
    sinks = [sink for sink in found.sinks if isinstance(sink, ParquetSink)]
    if not sinks:
        raise KohortError(f"pipeline {found.name} has no Parquet sink")
    if not found.state.exists():
        raise KohortError(f"pipeline {found.name} has not run yet: {found.state} has no checkpoint")
    claim_checkpoint(found)
    upto = committed_upto(found)
    for sink in sinks:
        merged = claim_sink(found, sink).compact(upto, large=large)
        if merged is None:
            raise RefusedByState(f"sink {sink.name}: another process compacts {sink.path}")
        click.echo(f"sink {sink.name}: {merged.files:,} files merged into {merged.into:,}", err=True)


class Pipelines(click.Group):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return ["init", "validate", "test", "dry-run", "run", "status", "replay", "compact", "reset"]


@click.group(cls=Pipelines, short_help="Check and run Spark pipelines over consumer groups.")
def pipeline() -> None:
    """Run Spark pipelines from topics to tables, declared in one file; every row is counted.

    \b
    Examples:
      kohort pipeline init orders.yaml --topic orders
      kohort pipeline validate orders.yaml
      kohort pipeline test orders.yaml
      kohort pipeline run orders.yaml --until-caught-up
    """


@pipeline.command(short_help="Write an example pipeline file.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--topic", default="orders", show_default=True, help="Topic to read.")
def init(file: Path, topic: str) -> None:
    """Write FILE: an example pipeline with a test. An existing file is not overwritten."""
    from kohort.spark.pipeline.parse import starter

    name = "".join(c if c.isalnum() else "-" for c in file.stem).strip("-") or "pipeline"
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(starter(name, topic))
    except FileExistsError:
        raise KohortError(f"{file} exists already") from None
    click.echo(f"wrote {file}; try: kohort pipeline test {file}", err=True)


@pipeline.command(short_help="Check a pipeline file without a broker and without Spark.")
@click.argument("file", type=FILE)
@output_of(PipelineValid)
def validate(file: Path, output: str) -> None:
    """Check FILE without brokers and without Spark.

    Checks keys, types, names, environment variables, Python functions, schemas, SQL and column names. kohort pipeline
    dry-run also makes the checks of Spark itself.
    """
    found = load_checked(file)
    sources: dict[str, Literal["table", "stream"]] = {s.name: ("table" if s.table else "stream") for s in found.sources}
    sinks, tests = {s.name: s.kind for s in found.sinks}, len(found.tests)
    result = PipelineValid(name=found.name, valid=True, sources=sources, sinks=sinks, tests=tests)
    line = (
        f"{file}: pipeline {found.name} is valid: {_names(sources)} -> {len(found.steps)} steps, "
        f"{len(found.rules)} rules -> {_names(sinks)}; {tests} tests"
    )
    report_lines(output, result, [line])


for command in (test, dry_run, run, status, replay, compact, reset):
    pipeline.add_command(command)


def _names(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
