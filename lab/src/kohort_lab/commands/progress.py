"""How far a campaign of seeds has come: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

import click


class SeedsProgress:
    """Counts seeds. On a terminal: how many, how many failed, simulated seconds a second, and time left."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds
        self._began = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> SeedsProgress:
        if sys.stderr.isatty():
            self._start_bar()
        return self

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
        self._task = self._bar.add_task("", total=self._seeds)
        self._bar.start()

    def seed_done(self, simulated_ms: int, failed: int) -> None:
        """One more seed has its verdict; both counts are of all so far."""
        if self._bar is not None:
            speed = simulated_ms / 1000 / max(1e-9, time.monotonic() - self._began)
            self._bar.update(self._task, advance=1, description=f"{failed} failed, {speed:,.0f} simulated s/s")

    def say(self, text: str) -> None:
        """Tell of a failure at once, above the bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            click.echo(text, err=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
