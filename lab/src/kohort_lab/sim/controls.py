"""Negative controls: plant each bug and run seeds until a check catches it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

from kohort_lab.sim.planted.catalogue import all_bugs

SEEDS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Control:
    """Result of one planted bug; ``seed`` is None if no seed caught it."""

    name: str
    area: str
    what: str
    seed: int | None
    check: str = ""
    failure: str = ""

    def __str__(self) -> str:
        return f"{self.name} {'-' if self.seed is None else self.seed} {self.check}".rstrip()


def run_control(name: str, first: int = 0, seeds: int = SEEDS) -> Control:
    """Plant the bug ``name`` and run up to ``seeds`` seeds from ``first`` on."""
    from kohort_lab.sim.worlds.catalogue import WORLDS

    bug = all_bugs()[name]
    run_seed = WORLDS[bug.world].run_seed
    with bug.planted():
        for seed in range(first, first + seeds):
            verdict = run_seed(seed)
            if not verdict.passed:
                return Control(name, bug.area, bug.what, seed, verdict.caught_by, verdict.failure or "")
    return Control(name, bug.area, bug.what, None)


def run_controls(names: Iterable[str], *, jobs: int = 1, seeds: int = SEEDS) -> Iterator[Control]:
    """Yield the result of each bug, in the order of ``names``."""
    bugs = list(names)
    if jobs == 1:
        for name in bugs:
            yield run_control(name, 0, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_control, bugs, [0] * len(bugs), [seeds] * len(bugs))
