"""The command ``kohort sim compare``: cost of the same changes and faults for each group generation."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from kohort_lab.commands.seeds import parse_seeds

if TYPE_CHECKING:
    from kohort_lab.sim.generations.comparison import Comparison, CostRow


class CostColumn(NamedTuple):
    """Table column: heading and attribute of ``CostRow``."""

    heading: str
    name: str


COLUMNS: Final = (
    CostColumn("change", "change"),
    CostColumn("generation", "generation"),
    CostColumn("requests", "requests"),
    CostColumn("notified", "notifications"),
    CostColumn("interrupted", "interrupted"),
    CostColumn("no owner p·s", "unowned_s"),
    CostColumn("moved", "moved"),
    CostColumn("two commit p·s", "split_s"),
    CostColumn("zombie p·s", "zombie_s"),
    CostColumn("read twice", "reread"),
    CostColumn("seconds", "lasted_s"),
    CostColumn("unsettled", "unsettled"),
)
MEMBERS_MAX: Final = 5_000
PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 14px system-ui, sans-serif; margin: 2rem; }} svg {{ max-width: 100%; height: auto }}</style>
<h1>{title}</h1>{svg}</html>
"""


def parse_members(text: str) -> list[int]:
    """Parse group sizes such as ``"3,10,30"``. Raises BadParameter for an invalid size."""
    sizes = []
    for part in text.split(","):
        if not part.strip().isdecimal() or not 2 <= int(part) <= MEMBERS_MAX:
            raise click.BadParameter(f"invalid group size {part!r}: expected a number from 2 to {MEMBERS_MAX}")
        sizes.append(int(part))
    return sizes


def names_among(allowed: Callable[[], Sequence[str]], what: str) -> Callable[[Any, Any, str | None], list[str]]:
    """Return a click callback that parses comma-separated names; the default is all of ``known()``."""

    def read(_context: Any, _parameter: Any, text: str | None) -> list[str]:
        names = [name.strip() for name in text.split(",")] if text else list(allowed())
        if unknown := [name for name in names if name not in allowed()]:
            raise click.BadParameter(f"unknown {what} {unknown[0]!r}; expected one of: {', '.join(allowed())}")
        return names

    return read


def _generations() -> list[str]:
    from kohort_lab.sim.generations.catalogue import GENERATIONS

    return list(GENERATIONS)


def _changes() -> list[str]:
    from kohort_lab.sim.generations.changes import CHANGES

    return list(CHANGES)


@click.command()
@click.option("--members", default="3,10", show_default=True, help="Comma-separated group sizes.")
@click.option("--partitions", type=click.IntRange(1, 100_000), help="Number of partitions; default: two per member.")
@click.option("--seeds", default="0", show_default=True, help="One seed, or a range FIRST..END (END excluded).")
@click.option(
    "--generations", callback=names_among(_generations, "generation"), help="Comma-separated generations; default: all."
)
@click.option("--changes", callback=names_among(_changes, "change"), help="Comma-separated changes; default: all.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64), help="Number of worker processes.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Output file of the plot (.svg or .html).",
)
def compare(
    members: str,
    partitions: int | None,
    seeds: str,
    generations: list[str],
    changes: list[str],
    jobs: int,
    output: str,
    plot: Path | None,
) -> None:
    """Compare the cost of changes and faults between generations of consumer groups, under the same seeds.

    \b
    kohort sim compare
    kohort sim compare --members 3,30,300 --seeds 0..3 --plot all.svg
    kohort sim compare --changes "joins,is cut off" --output json
    """
    from kohort.cli.terminal.show import escaped
    from kohort_lab.sim.generations.comparison import Comparison, costs, rows_of

    if plot is not None and plot.suffix not in {".svg", ".html"}:
        raise click.BadParameter(f"cannot plot to {plot}: expected an .svg or .html file", param_hint="--plot")
    comparison = Comparison(generations, parse_members(members), parse_seeds(seeds), changes, partitions)
    runs, found = comparison.runs(), []
    for number, run in enumerate(costs(comparison, jobs=jobs)):
        found += run
        if sys.stderr.isatty():
            generation, setup, _ = runs[number]
            click.echo(f"{number + 1}/{len(runs)}: {generation}, {setup.members} members, seed {setup.seed}", err=True)
    rows = rows_of(found)
    if plot is not None:
        plot.write_text(_figure(rows, changes, plot), encoding="utf-8")
    if output == "json":
        result = {"schema": "kohort/v1/sim-compare", "seeds": seeds, "rows": [asdict(row) for row in rows]}
        click.echo(escaped(json.dumps(result, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False)))
    else:
        _print(comparison, rows)


def _figure(rows: Sequence[CostRow], changes: Sequence[str], file: Path) -> str:
    from kohort_lab.sim.generations.plots import MEASURES, draw

    svg = draw(rows, changes, list(MEASURES))
    if file.suffix == ".svg":
        return svg
    title = "Three generations of consumer groups"
    return PAGE.format(title=escape(title), svg=svg[svg.index("<svg") :])


def _print(comparison: Comparison, rows: Sequence[CostRow]) -> None:
    from kohort.cli.terminal.show import print_prose, print_table

    for size in comparison.members:
        of_size = [row for row in rows if row.members == size]
        seeds = f"{len(comparison.seeds)} seed{'s' if len(comparison.seeds) > 1 else ''}"
        print_prose(f"{size} members, {of_size[0].partitions} partitions, {seeds}")
        print_table([column.heading for column in COLUMNS], [_cells(row) for row in of_size])
        click.echo()
    print_prose(
        "p·s: partition-seconds. notified: notifications. interrupted: partitions without owner for a while. "
        "two commit: two owners at one time that could both commit. zombie: two owners of which one could commit. "
        "Means over the seeds."
    )


def _cells(row: CostRow) -> list[Any]:
    values = [getattr(row, column.name) for column in COLUMNS]
    return [round(value, 1) if isinstance(value, float) else value for value in values]
