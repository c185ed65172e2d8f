"""Comparison of many runs: mean costs by generation, change and group size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from kohort_lab.sim.generations.group_world import Setup
from kohort_lab.sim.generations.measure import ChangeCost, measure

PARTITIONS_EACH: Final = 2
"""Default number of partitions per member."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs to compare: every generation, size and seed."""

    generations: Sequence[str]
    members: Sequence[int]
    seeds: Sequence[int]
    changes: Sequence[str] = ()
    """Changes; empty for all."""
    partitions: int | None = None
    """Number of partitions for every size; None: ``PARTITIONS_EACH`` per member."""

    def runs(self) -> list[tuple[str, Setup, Sequence[str]]]:
        """Return the arguments of each ``measure`` call, small groups first."""
        return [
            (generation, Setup(seed, size, self.partitions or PARTITIONS_EACH * size), self.changes)
            for size in self.members
            for seed in self.seeds
            for generation in self.generations
        ]


@dataclass(frozen=True, slots=True)
class CostRow:
    """Mean cost over the seeds of a change, in the units of ChangeCost."""

    generation: str
    change: str
    members: int
    partitions: int
    seeds: int
    unsettled: int
    """Number of seeds without complete ownership after two minutes."""
    lasted_s: float
    requests: float
    notifications: float
    interrupted: float
    unowned_s: float
    moved: float
    split_s: float
    zombie_s: float
    reread: float


MEANS: Final = (
    "lasted_s", "requests", "notifications", "interrupted", "unowned_s", "moved", "split_s", "zombie_s", "reread",
)  # fmt: skip


def costs(comparison: Comparison, *, jobs: int = 1) -> Iterator[list[ChangeCost]]:
    """Yield the costs of each run, in the order of ``Comparison.runs``."""
    runs = comparison.runs()
    if jobs == 1:
        yield from map(_costs_of, runs)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_costs_of, runs)


def _costs_of(run: tuple[str, Setup, Sequence[str]]) -> list[ChangeCost]:
    generation, setup, changes = run
    return list(measure(generation, setup, changes))


def rows_of(found: Iterable[ChangeCost]) -> list[CostRow]:
    """Return the mean costs, in input order of sizes, changes and generations."""
    by_kind: dict[tuple[int, str, str], list[ChangeCost]] = {}
    for cost in found:
        by_kind.setdefault((cost.members, cost.change, cost.generation), []).append(cost)
    sizes, changes = (list(dict.fromkeys(key[i] for key in by_kind)) for i in (0, 1))
    order = sorted(by_kind, key=lambda key: (sizes.index(key[0]), changes.index(key[1])))
    return [_row(by_kind[key]) for key in order]


def _row(found: Sequence[ChangeCost]) -> CostRow:
    first = found[0]
    means = {name: round(fmean(getattr(cost, name) for cost in found), 3) for name in MEANS}
    unsettled = sum(not cost.settled for cost in found)
    return CostRow(first.generation, first.change, first.members, first.partitions, len(found), unsettled, **means)
