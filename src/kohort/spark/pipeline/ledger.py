"""Ledger of a pipeline: rows read = rows written to each sink + rows dropped or skipped + rows sent as dead letters.

Row counts alone would miss the loss of one row if another row is duplicated. So the ledger also compares marks before
and after the steps. A mark is the XOR of a hash of each row's topic, partition and offset. Equal counts and equal marks
mean the same rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kohort.spark.pipeline.definition import Pipeline


class Count(NamedTuple):
    rows: int = 0
    mark: int = 0

    def __add__(self, other: object) -> Count:
        if not isinstance(other, Count):
            return NotImplemented
        return Count(self.rows + other.rows, self.mark ^ other.mark)

    def without(self, other: Count) -> Count:
        return Count(self.rows - other.rows, self.mark ^ other.mark)


NOTHING: Final = Count()


@dataclass(slots=True)
class Entry:
    """Row counts of one micro-batch. ``marked``: False if rows after the steps have no source record to hash."""

    batch: int
    rows_in: Count = NOTHING
    undecoded: Count = NOTHING
    skipped: Count = NOTHING
    """Tombstones that the source skips (``tombstones: drop``)."""
    stepped: Count = NOTHING
    passed: Count = NOTHING
    dropped: dict[str, Count] = field(default_factory=dict)
    quarantined: dict[str, Count] = field(default_factory=dict)
    sinks: dict[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    marked: bool = True
    redelivered: int = 0
    stateful: bool = False
    """True for pipelines with windows or joins of streams, which return more or fewer rows than they read."""
    sources: dict[str, int] = field(default_factory=dict)
    """Number of input rows of each source, for stateful pipelines. Empty until Spark reports the progress."""
    late: int = 0
    stands_for: dict[str, int] = field(default_factory=dict)
    """Number of source rows in the aggregates written to each sink. Only for stateful pipelines."""
    state: dict[str, int] = field(default_factory=dict)
    """Number of rows in Spark's state for each operator, such as windows or join."""

    @property
    def decoded(self) -> Count:
        """Rows that the steps read."""
        return self.rows_in.without(self.undecoded).without(self.skipped)


@dataclass(slots=True)
class Ledger:
    rows_in: int = 0
    undecoded: int = 0
    skipped: int = 0
    filtered: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    sinks: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    redelivered: int = 0
    problems: list[str] = field(default_factory=list)
    late: int = 0
    """Number of rows that windows and joins ignored because the rows were older than the watermark."""
    stands_for: dict[str, int] = field(default_factory=dict)
    waited: dict[str, int] = field(default_factory=dict)
    """For each sink, the number of rows that earlier runs left in open windows."""
    held: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    state: dict[str, int] = field(default_factory=dict)

    @property
    def balanced(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"balanced": self.balanced}


def total(entries: Iterable[Entry], *, filters: bool = False) -> Ledger:
    """Add up ledger entries, and check that each entry is balanced.

    ``filters``: True if a step may drop rows on purpose.
    """
    ledger = Ledger()
    for entry in entries:
        ledger.batches += 1
        ledger.rows_in += entry.rows_in.rows
        ledger.redelivered += entry.redelivered
        ledger.undecoded += entry.undecoded.rows
        ledger.skipped += entry.skipped.rows
        ledger.dead_letters += entry.dead_letters
        _add(ledger.dropped, {reason: count.rows for reason, count in entry.dropped.items()})
        _add(ledger.quarantined, {reason: count.rows for reason, count in entry.quarantined.items()})
        _add(ledger.sinks, entry.sinks)
        ledger.late += entry.late
        _add(ledger.sources, entry.sources)
        ledger.state = dict(entry.state) or ledger.state
        _add(ledger.stands_for, entry.stands_for)
        if filters and not entry.stateful:
            ledger.filtered += max(0, entry.decoded.rows - entry.stepped.rows)
        ledger.problems += [f"batch {entry.batch}: {p}" for p in problems_of(entry, filters=filters)]
    return ledger


def problems_of(entry: Entry, *, filters: bool = False) -> list[str]:
    problems = []
    if entry.redelivered > entry.rows_in.rows:
        problems.append(f"{entry.redelivered:,} redelivered rows, but only {entry.rows_in.rows:,} rows read")
    decoded = entry.decoded
    if entry.stateful:
        pass  # windows and joins of streams return more or fewer rows than they read
    elif entry.stepped.rows < decoded.rows and not filters:
        problems.append(
            f"the steps lost {decoded.rows - entry.stepped.rows:,} of {decoded.rows:,} rows; "
            "if that is intended, set filters: true at the step"
        )
    elif entry.stepped.rows > decoded.rows:
        problems.append(
            f"the steps made {entry.stepped.rows:,} rows out of {decoded.rows:,}: does a join match a row twice?"
        )
    elif entry.marked and not filters and entry.stepped.mark != decoded.mark:
        problems.append("the steps lost some rows and duplicated as many others")
    judged = sum((*entry.dropped.values(), *entry.quarantined.values()), start=entry.passed)
    if judged.rows != entry.stepped.rows or (entry.marked and judged.mark != entry.stepped.mark):
        problems.append(f"the rules got {judged.rows:,} rows, but the steps returned {entry.stepped.rows:,}")
    for name, rows in entry.sinks.items():
        if rows != entry.passed.rows:
            problems.append(f"sink {name} wrote {rows:,} of {entry.passed.rows:,} rows")
    aside = entry.undecoded.rows + sum(c.rows for c in entry.quarantined.values())
    if entry.dead_letters != aside:
        problems.append(
            f"{aside:,} rows must become dead letters, but {entry.dead_letters:,} dead letters were acknowledged"
        )
    return problems


def rows_in_open_windows(entries: Iterable[Entry]) -> dict[str, int]:
    """Return the number of rows in open windows, for each sink that counts source rows.

    Returns {} if an entry lacks ``sources``: the run was killed before Spark reported the progress of the micro-batch.
    """
    found: dict[str, int] = {}
    read = 0
    for entry in entries:
        if not entry.sources:
            return {}
        read += entry.decoded.rows - entry.late
        _add(found, entry.stands_for)
    return {name: read - rows for name, rows in found.items()}


def _add(into: dict[str, int], more: Mapping[str, int]) -> None:
    for name, rows in more.items():
        into[name] = into.get(name, 0) + rows


class LedgerStore:
    """Store of ledger entries, with one file for each micro-batch. A repeated micro-batch overwrites its file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, entry: Entry) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        target = self._folder / f"{entry.batch:010d}.json"
        fresh = target.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(msgspec.json.encode(entry))
        fresh.replace(target)

    def entries(self) -> list[Entry]:
        return [read_entry(path) for path in sorted(self._folder.glob("*.json"))]


def read_entry(path: Path) -> Entry:
    return msgspec.json.decode(path.read_bytes(), type=Entry)


def last_run(pipeline: Pipeline) -> dict[str, Any] | None:
    path = pipeline.state / "last-run.json"
    return json.loads(path.read_text()) if path.exists() else None
