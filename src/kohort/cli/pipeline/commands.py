"""``kohort pipeline``: make a pipeline file, check it, test it, run it on Spark, look after it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import click

from kohort.cli.pipeline.replay import replay
from kohort.cli.pipeline.run import dry_run, run, test
from kohort.cli.pipeline.state import compact, reset, status
from kohort.cli.terminal.output import output_of, print_result
from kohort.errors import KohortError
from kohort.results.pipelines import PipelineValid

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class Pipelines(click.Group):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return ["init", "validate", "test", "dry-run", "run", "status", "replay", "compact", "reset"]


@click.group(cls=Pipelines, short_help="Make, check, test and run Spark pipelines over consumer groups.")
def pipeline() -> None:
    """Move topics to tables, declared in one file, every row accounted for.

    \b
    Examples:
      kohort pipeline init orders.yaml --topic orders
      kohort pipeline validate orders.yaml
      kohort pipeline test orders.yaml
      kohort pipeline run orders.yaml --until-caught-up
    """


@pipeline.command(short_help="Write a pipeline file to begin with.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--topic", default="orders", show_default=True, help="The topic to read.")
def init(file: Path, topic: str) -> None:
    """Write FILE: a whole pipeline with a test, to be changed. A file that is there is left alone."""
    from kohort.spark.pipeline.parse import starter

    name = "".join(c if c.isalnum() else "-" for c in file.stem).strip("-") or "pipeline"
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(starter(name, topic))
    except FileExistsError:
        raise KohortError(f"{file} is there already") from None
    click.echo(f"wrote {file}; try: kohort pipeline test {file}", err=True)


@pipeline.command(short_help="Check a pipeline file without touching a broker or Spark.")
@click.argument("file", type=FILE)
@output_of(PipelineValid)
def validate(file: Path, output: str) -> None:
    """Check FILE: keys, types, names, environment, Python functions, schemas, SQL and the columns that it names.
    Nothing is connected to, nothing is run, and Spark need not be installed. What Spark alone can judge, dry-run
    tells."""
    from kohort.spark.pipeline.check_sql import check_sql
    from kohort.spark.pipeline.parse import load_pipeline

    found = load_pipeline(file)
    check_sql(found)
    sources: dict[str, Literal["table", "stream"]] = {s.name: ("table" if s.table else "stream") for s in found.sources}
    sinks = {s.name: s.kind for s in found.sinks}
    if output != "table":
        tests = len(found.tests)
        print_result(PipelineValid(name=found.name, valid=True, sources=sources, sinks=sinks, tests=tests), output)
        return
    click.echo(
        f"{file}: pipeline {found.name} is valid: {_names(sources)} -> {len(found.steps)} steps, "
        f"{len(found.rules)} rules -> {_names(sinks)}; {len(found.tests)} tests"
    )


for command in (test, dry_run, run, status, replay, compact, reset):
    pipeline.add_command(command)


def _names(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
