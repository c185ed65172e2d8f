"""Every row accounted for: what came in is what went out, plus what was set aside, for every sink.

A count alone would not see one row lost and another doubled. So rows are also marked: the exclusive-or of a hash of
each row's topic, partition and offset, taken from the data at both ends. Equal counts and equal marks mean the same
rows.
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
    """Rows, and the mark of which rows."""

    rows: int = 0
    mark: int = 0

    def __add__(self, other: object) -> Count:
        if not isinstance(other, Count):
            return NotImplemented
        return Count(self.rows + other.rows, self.mark ^ other.mark)

    def without(self, other: Count) -> Count:
        """Return what is left when ``other``, a part of these, is taken away."""
        return Count(self.rows - other.rows, self.mark ^ other.mark)


NOTHING: Final = Count()


@dataclass(slots=True)
class Entry:
    """What one micro-batch did. ``marked``: the steps kept ``_source``, so marks can be compared past them."""

    batch: int
    rows_in: Count = NOTHING
    undecoded: Count = NOTHING
    stepped: Count = NOTHING
    passed: Count = NOTHING
    dropped: dict[str, Count] = field(default_factory=dict)
    quarantined: dict[str, Count] = field(default_factory=dict)
    sinks: dict[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    marked: bool = True
    redelivered: int = 0
    """Of the rows in: those that may have been delivered before, by this pipeline or by another member of its group."""
    stateful: bool = False
    """Of windows or a join of streams: the rows that came out of the steps are not those that went in."""
    sources: dict[str, int] = field(default_factory=dict)
    """Stateful: rows in by source, which Spark tells when the micro-batch is complete; until then there are none."""
    late: int = 0
    stands_for: dict[str, int] = field(default_factory=dict)
    """Stateful, by sink of windows: how many rows of the source the rows that it was given stand for."""
    state: dict[str, int] = field(default_factory=dict)
    """Stateful, by operator of Spark's: rows that it keeps for later micro-batches."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Entry:
        return msgspec.convert(given, cls)  # ledgers of earlier versions have fewer fields


@dataclass(slots=True)
class Ledger:
    """The sum over micro-batches, and what does not add up."""

    rows_in: int = 0
    undecoded: int = 0
    filtered: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    sinks: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    redelivered: int = 0
    """Of ``rows_in``: rows that may have been delivered before."""
    problems: list[str] = field(default_factory=list)
    late: int = 0
    """Rows that came after their watermark, and that Spark therefore left out of a window or a join."""
    stands_for: dict[str, int] = field(default_factory=dict)
    """By sink of windows: how many rows of the source its rows stand for."""
    waited: dict[str, int] = field(default_factory=dict)
    """By sink of windows: rows that were in open windows, kept in Spark's state, before the first of these batches."""
    held: dict[str, int] = field(default_factory=dict)
    """The same, after the last of them."""
    sources: dict[str, int] = field(default_factory=dict)
    """Rows by source, where there are several."""
    state: dict[str, int] = field(default_factory=dict)
    """Rows that Spark keeps for later micro-batches after the last of these, by operator."""

    @property
    def balanced(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"balanced": self.balanced}


def total(entries: Iterable[Entry], *, filters: bool = False) -> Ledger:
    """Add up micro-batches and check each; ``filters``: a step may leave rows out on purpose."""
    ledger = Ledger()
    for entry in entries:
        ledger.batches += 1
        ledger.rows_in += entry.rows_in.rows
        ledger.redelivered += entry.redelivered
        ledger.undecoded += entry.undecoded.rows
        ledger.dead_letters += entry.dead_letters
        _add(ledger.dropped, {k: c.rows for k, c in entry.dropped.items()})
        _add(ledger.quarantined, {k: c.rows for k, c in entry.quarantined.items()})
        _add(ledger.sinks, entry.sinks)
        ledger.late += entry.late
        _add(ledger.sources, entry.sources)
        ledger.state = dict(entry.state) or ledger.state
        _add(ledger.stands_for, entry.stands_for)
        if filters and not entry.stateful:
            ledger.filtered += max(0, entry.rows_in.rows - entry.undecoded.rows - entry.stepped.rows)
        ledger.problems += [f"batch {entry.batch}: {p}" for p in problems_of(entry, filters=filters)]
    return ledger


def problems_of(entry: Entry, *, filters: bool = False) -> list[str]:
    """Return what does not add up in one micro-batch, in sentences."""
    problems = []
    if entry.redelivered > entry.rows_in.rows:
        problems.append(f"{entry.redelivered:,} of {entry.rows_in.rows:,} rows were delivered before")
    decoded = entry.rows_in.without(entry.undecoded)
    if entry.stateful:
        pass  # windows and joins make other rows than they are given
    elif entry.stepped.rows < decoded.rows and not filters:
        problems.append(
            f"the steps lost {decoded.rows - entry.stepped.rows:,} of {decoded.rows:,} rows; "
            "if that is meant, say filters: true at the step"
        )
    elif entry.stepped.rows > decoded.rows:
        problems.append(f"the steps made {entry.stepped.rows:,} rows of {decoded.rows:,}: a join that matches twice?")
    elif entry.marked and not filters and entry.stepped.mark != decoded.mark:
        problems.append("the steps lost some rows and doubled others: as many, but not the same")
    judged = sum((*entry.dropped.values(), *entry.quarantined.values()), start=entry.passed)
    if judged.rows != entry.stepped.rows or (entry.marked and judged.mark != entry.stepped.mark):
        problems.append(f"rules saw {judged.rows:,} rows, the steps gave {entry.stepped.rows:,}")
    for name, rows in entry.sinks.items():
        if rows != entry.passed.rows:
            problems.append(f"sink {name} holds {rows:,} rows of {entry.passed.rows:,}")
    aside = entry.undecoded.rows + sum(c.rows for c in entry.quarantined.values())
    if entry.dead_letters != aside:
        problems.append(f"{aside:,} rows were set aside, {entry.dead_letters:,} dead letters were acknowledged")
    return problems


def waiting(entries: Iterable[Entry]) -> dict[str, int]:
    """Return, by sink of windows with ``counts``, the rows of one source that are in no window which was written, after
    all micro-batches of a checkpoint. None where the rows in of one are not known: its run was killed before Spark
    told."""
    found: dict[str, int] = {}
    came = 0
    for entry in entries:
        if not entry.sources:
            return {}
        came += entry.rows_in.rows - entry.undecoded.rows - entry.late
        _add(found, entry.stands_for)
    return {name: came - rows for name, rows in found.items()}


def _add(into: dict[str, int], more: Mapping[str, int]) -> None:
    for name, rows in more.items():
        into[name] = into.get(name, 0) + rows


class LedgerStore:
    """Entries as files beside the checkpoint, one for each micro-batch: one that is repeated replaces its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, entry: Entry) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        target = self._folder / f"{entry.batch:010d}.json"
        fresh = target.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(entry.as_json()))
        fresh.replace(target)

    def entries(self) -> list[Entry]:
        return [Entry.from_json(json.loads(p.read_text())) for p in sorted(self._folder.glob("*.json"))]


def last_run(pipeline: Pipeline) -> dict[str, Any] | None:
    """Return the report of the last run that came to its end."""
    path = pipeline.state / "last-run.json"
    return json.loads(path.read_text()) if path.exists() else None
