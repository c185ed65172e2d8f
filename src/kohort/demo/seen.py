"""What the members of a group saw: from their notes to coverage and re-deliveries, exactly.

A member notes each run of offsets before it commits them: so a member that is killed has noted all it processed, and
what was noted and not committed is delivered again to another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class DemoRun(NamedTuple):
    """Records ``first`` to ``last`` (both included) of a partition, seen by a member in one poll."""

    member: str
    partition: int
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Seen:
    """How often the records of a topic were delivered."""

    deliveries: int
    distinct: int
    missing: dict[int, list[tuple[int, int]]]
    by_member: dict[str, int]

    @property
    def again(self) -> int:
        """Deliveries of a record that had been delivered before."""
        return self.deliveries - self.distinct


def read_notes(paths: Iterable[Path]) -> list[DemoRun]:
    """Return the runs that members noted. A line cut short by a kill was never committed, and is left out."""
    runs = []
    for path in sorted(paths):
        for line in path.read_text().splitlines():
            try:
                note = json.loads(line)
            except ValueError:
                continue
            runs.append(DemoRun(path.stem, note["partition"], note["first"], note["last"]))
    return runs


def count_seen(runs: Iterable[DemoRun], ends: Mapping[int, int]) -> Seen:
    """Compare runs with the log: each partition must be covered from 0 to its end."""
    runs = list(runs)
    by_member: dict[str, int] = {}
    for run in runs:
        by_member[run.member] = by_member.get(run.member, 0) + run.rows
    distinct = 0
    missing = {}
    for partition, end in ends.items():
        covered, gaps = _cover([r for r in runs if r.partition == partition], end)
        distinct += covered
        if gaps:
            missing[partition] = gaps
    return Seen(sum(r.rows for r in runs), distinct, missing, by_member)


def _cover(runs: list[DemoRun], end: int) -> tuple[int, list[tuple[int, int]]]:
    """Return how many offsets below ``end`` the runs cover, and the gaps as (first, last)."""
    gaps = []
    at = covered = 0
    for run in sorted(runs, key=lambda r: r.first):
        if run.first > at:
            gaps.append((at, run.first - 1))
        fresh_from = max(at, run.first)
        if run.last >= fresh_from:
            covered += run.last - fresh_from + 1
            at = run.last + 1
    if at < end:
        gaps.append((at, end - 1))
    return covered, gaps
