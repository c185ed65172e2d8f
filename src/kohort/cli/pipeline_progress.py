"""What a run says while it runs: a bar with rows a second and the time left, or a line for each micro-batch."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kohort.spark.pipeline.definition import Pipeline
    from kohort.spark.pipeline.ledger import Entry


def rows_waiting(pipeline: Pipeline) -> int | None:
    """Return how many rows a run to the end has before it; None where only Spark's checkpoint knows. Raises KohortError
    where the brokers do not answer, or do not have a topic."""
    from kohort.spark.pipeline.lag import source_lag

    found = {source.name: source_lag(source) for source in pipeline.sources}
    fresh = not (pipeline.state / "spark").exists()
    rows = 0
    for source in pipeline.streams:
        stands = found[source.name]
        if not fresh and not source.group:
            return None
        if fresh and source.start == "earliest":
            rows += sum(p.latest - p.earliest for p in stands.partitions.values())
        elif not fresh or source.start == "group":
            rows += stands.waiting
    return rows


class Progress:
    """Told of each micro-batch. On a terminal a finite run has a bar; without one, each micro-batch has a line."""

    def __init__(
        self,
        pipeline: Pipeline,
        waiting: int | None,
        *,
        finite: bool,
        quiet: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``now``: seconds of any clock."""
        self._pipeline = pipeline
        self._waiting = waiting
        self._finite = finite
        self._quiet = quiet
        self._now = now
        self._began = now()
        self._first_done: float | None = None
        self._rows_of_first = 0
        self._rows = 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        self._began = self._now()
        if not self._quiet:
            click.echo(self._plan(), err=True)
            if self._finite and sys.stderr.isatty():
                self._start_bar()
        return self

    def _plan(self) -> str:
        topics = ", ".join(topic for source in self._pipeline.streams for topic in source.topics)
        if self._waiting is None:
            return f"reading {topics} from where the checkpoint stands"
        most = sum(source.max_rows or 0 for source in self._pipeline.streams)
        batches = f" in about {math.ceil(self._waiting / most):,} batches" if most and self._waiting else ""
        then = "" if self._finite else ", then what comes; Ctrl-C ends"
        return f"reading {self._waiting:,} records of {topics}{batches}{then}"

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TaskProgressColumn())
        speed = TextColumn("{task.fields[speed]} rows/s")
        self._bar = Bar(*columns, speed, TimeRemainingColumn(), console=Console(stderr=True))
        self._task = self._bar.add_task(self._pipeline.name, total=self._waiting, speed="0")
        self._bar.start()

    def entry_done(self, entry: Entry) -> None:
        """Show that a micro-batch is written, how fast it goes, and how long it will take."""
        rows, now = entry.rows_in.rows, self._now()
        self._rows += rows
        speed = self._rows / max(1e-9, now - self._began)
        if self._bar is not None:
            self._bar.update(self._task, advance=rows, speed=f"{speed:,.0f}")
        elif (rows or any(entry.sinks.values())) and not self._quiet:
            click.echo(self._line(entry, speed, self._pace(now)), err=True)
        if rows and self._first_done is None:
            self._first_done, self._rows_of_first = now, self._rows

    def _pace(self, now: float) -> float:
        """Rows a second since the first micro-batch, which pays for what is made once; 0 until there is a second."""
        since = 0.0 if self._first_done is None else now - self._first_done
        return (self._rows - self._rows_of_first) / since if since > 0 else 0.0

    def _line(self, entry: Entry, speed: float, pace: float) -> str:
        line = f"batch {entry.batch}: {entry.rows_in.rows:,} rows"
        line += f", re-delivered {entry.redelivered:,}" if entry.redelivered else ""
        line += f", {entry.dead_letters:,} dead letters" if entry.dead_letters else ""
        line += f", {entry.late:,} late" if entry.late else ""
        line += f", {sum(entry.sinks.values()):,} rows out" if entry.stateful else ""
        line += f"; {self._rows:,} so far, {speed:,.0f} rows/s"
        if self._finite and self._waiting and self._waiting >= self._rows:
            left = self._waiting - self._rows
            line += f", {100 * self._rows // self._waiting} %"
            line += f", about {told_time(left / pace)} left" if left and pace else ""
        return line

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


def told_time(seconds: float) -> str:
    """Return a time as people say it: 40 s, 12 min, 3 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
