"""What a run says while it runs: a bar with rows a second and the time left, or a line for each micro-batch."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.spark.pipeline.definition import Pipeline
    from kohort.spark.pipeline.ledger import Entry


class Progress:
    """Told of each micro-batch. On a terminal a finite run has a bar; without one, each micro-batch has a line."""

    def __init__(self, pipeline: Pipeline, *, finite: bool, quiet: bool) -> None:
        self._pipeline = pipeline
        self._finite = finite
        self._quiet = quiet
        self._began = time.monotonic()
        self._rows = 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if self._finite and not self._quiet and sys.stderr.isatty():
            with suppress(KohortError):  # the run itself says what is wrong with the brokers
                self._start_bar()
        return self

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        from kohort.spark.pipeline.standing import standing

        rows = sum(standing(source).waiting for source in self._pipeline.streams)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TaskProgressColumn())
        speed = TextColumn("{task.fields[speed]} rows/s")
        self._bar = Bar(*columns, speed, TimeRemainingColumn(), console=Console(stderr=True))
        self._task = self._bar.add_task(self._pipeline.name, total=rows, speed="0")
        self._bar.start()

    def entry_done(self, entry: Entry) -> None:
        """A micro-batch is written."""
        rows = entry.rows_in.rows
        self._rows += rows
        speed = f"{self._rows / max(1e-9, time.monotonic() - self._began):,.0f}"
        if self._bar is not None:
            self._bar.update(self._task, advance=rows, speed=speed)
        elif rows and not self._quiet:
            again = f", re-delivered {entry.redelivered:,}" if entry.redelivered else ""
            aside = f", {entry.dead_letters:,} dead letters" if entry.dead_letters else ""
            click.echo(
                f"batch {entry.batch}: {rows:,} rows{again}{aside}; {self._rows:,} so far, {speed} rows/s", err=True
            )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
