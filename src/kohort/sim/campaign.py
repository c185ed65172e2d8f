"""Many seeds, in several processes: their verdicts one by one as they are found, in the order of the seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

from kohort.sim.unencoded import unencoded
from kohort.sim.verdict import Verdict
from kohort.sim.worlds.catalogue import GROUP, WORLDS

AT_ONCE = 4


def verdicts(seeds: Sequence[int], *, world: str = GROUP, jobs: int = 1, encoded: bool = True) -> Iterator[Verdict]:
    """Yield the verdict of each seed; of one that passed without its story."""
    judge = partial(judge_seed, world=world, encoded=encoded)
    if jobs == 1:
        yield from map(judge, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(judge, seeds, chunksize=AT_ONCE)


def judge_seed(seed: int, *, world: str = GROUP, encoded: bool = True) -> Verdict:
    """Judge one seed of one world; ``encoded`` as for ``verdicts``."""
    kind = WORLDS[world]
    if encoded:
        verdict = kind.run_seed(seed)
    else:
        with unencoded():
            verdict = kind.run_seed(seed)
    return replace(verdict, story="", happenings=()) if verdict.passed else verdict
