"""Campaign: run many seeds in several processes and yield their verdicts in seed order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from kohort_lab.sim.entropy import audited
from kohort_lab.sim.unencoded import unencoded
from kohort_lab.sim.verdict import Verdict
from kohort_lab.sim.worlds.catalogue import GROUP, WORLDS

AT_ONCE = 4


def verdicts(
    seeds: Sequence[int], *, world: str = GROUP, jobs: int = 1, encoded: bool = True, audit: bool = False
) -> Iterator[Verdict]:
    """Yield the verdict of each seed; passed seeds without events. ``audit``: fail runs with outside entropy."""
    judge = partial(judge_seed, world=world, encoded=encoded, audit=audit)
    if jobs == 1:
        yield from map(judge, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(judge, seeds, chunksize=AT_ONCE)


def judge_seed(seed: int, *, world: str = GROUP, encoded: bool = True, audit: bool = False) -> Verdict:
    """Run and judge one seed; arguments as for ``verdicts``."""
    with nullcontext() if encoded else unencoded(), audited() if audit else nullcontext() as entropy_audit:
        verdict = WORLDS[world].run_seed(seed)
    if entropy_audit is not None and entropy_audit.failure is not None and verdict.passed:
        verdict = replace(verdict, failure=entropy_audit.failure, caught_by="entropy")
    return replace(verdict, story="", happenings=()) if verdict.passed else verdict


def replay_command(seed: int, world: str = GROUP) -> str:
    """Return the command that replays a seed."""
    where = "" if world == GROUP else f" --world {world}"
    return f"kohort sim replay {seed}{where}"
