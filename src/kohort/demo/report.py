"""Console output of the demo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from kohort.demo.checks import Check
from kohort.demo.expected import Group

if TYPE_CHECKING:
    from collections.abc import Callable


class DemoOutput:
    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=quiet, quiet=quiet, highlight=False)

    def head(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}[/bold]")

    def line(self, text: str) -> None:
        self._console.print(f"  {text}", markup=False, soft_wrap=True)

    @contextmanager
    def progress(self, name: str, rows: int) -> Iterator[Callable[[int], None]]:
        columns = (TextColumn("  {task.description}"), BarColumn(30), MofNCompleteColumn(), TaskProgressColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self._console) as bar:
            task = bar.add_task(name, total=rows)
            yield lambda done: bar.advance(task, done)

    def results(self, found: Mapping[Group, Mapping[str, float]]) -> None:
        merged: dict[tuple[str, str], list[Mapping[str, float]]] = {}
        for (origin, _, weather), row in found.items():
            merged.setdefault((origin, weather), []).append(row)
        table = Table(title="Delays by origin and weather (minutes; by hour in the Parquet)", title_justify="left")
        for name in ("origin", "weather", "flights", "departure", "arrival", "15 min late", "worst hour"):
            table.add_column(name, justify="left" if name in ("origin", "weather") else "right")
        for (origin, weather), rows in sorted(merged.items()):
            flights = f"{sum(int(r['flights']) for r in rows):,}"
            means = f"{_mean(rows, 'mean_dep_delay'):.1f}", f"{_mean(rows, 'mean_arr_delay'):.1f}"
            late = f"{100 * _mean(rows, 'share_late'):.0f} %"
            delays = {hour: row["mean_dep_delay"] for (o, hour, w), row in found.items() if (o, w) == (origin, weather)}
            worst = max(delays, key=delays.__getitem__)
            table.add_row(origin, weather, flights, *means, late, f"{worst:02d}h ({delays[worst]:.0f})")
        self._console.print(table)

    def rebalances(self, group: str, sentences: Sequence[str]) -> None:
        self.head(f"The {len(sentences)} rebalances of {group}, and why")
        for number, sentence in enumerate(sentences, 1):
            self.line(f"{number}. {sentence}")

    def checks(self, checks: Sequence[Check]) -> None:
        self.head("Checks")
        for check in checks:
            mark = "[green]ok[/green]    " if check.holds else "[red]FAILED[/red]"
            self._console.print(f"  {mark} {check.name}", highlight=False, soft_wrap=True)
            self._console.print(f"         {check.found}", style="dim", markup=False, soft_wrap=True)


def _mean(rows: Sequence[Mapping[str, float]], name: str) -> float:
    known = [r for r in rows if r[name] is not None]
    weight = sum(r["flights"] for r in known)
    return sum(r[name] * r["flights"] for r in known) / weight if weight else 0.0
