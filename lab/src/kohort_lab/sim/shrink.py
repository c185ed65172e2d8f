"""Shrinking of a failing run: fewer faults, members, partitions and records, shorter time.

A plan and its seed determine a run. A shrinking step is kept if the run still fails by the same check. A smaller world
draws other random numbers, so the result is not the global minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kohort_lab.sim.swarm import Plan
from kohort_lab.sim.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Smallest failing run, and the number of runs used."""

    verdict: Verdict
    runs: int


def shrink(
    plan: Plan,
    run_plan: Callable[[Plan], Verdict],
    most_runs: int = 200,
    on_smaller: Callable[[Plan], None] = lambda _: None,
) -> Shrunk | None:
    """Shrink ``plan`` while it fails; None if it does not fail. Calls ``on_smaller`` with each smaller plan."""
    smallest = run_plan(plan)
    runs = 1
    if smallest.passed:
        return None
    check = smallest.caught_by
    progress = True
    while progress and runs < most_runs:
        progress = False
        for smaller in smaller_plans(smallest.plan):
            if runs >= most_runs:
                break
            runs += 1
            verdict = run_plan(smaller)
            if verdict.caught_by == check and not verdict.passed:
                smallest, progress = verdict, True
                on_smaller(smaller)
                break
    return Shrunk(smallest, runs)


def smaller_plans(plan: Plan) -> Iterator[Plan]:
    """Yield plans one step smaller, largest step first."""
    if plan.faults_ms > 5_000:
        yield replace(plan, faults_ms=plan.faults_ms // 2)
    for fault in sorted(plan.faults):
        yield replace(plan, faults=plan.faults - {fault})
    if plan.consumers > 1:
        yield replace(plan, consumers=plan.consumers - 1)
    if len(plan.topics) > 1:
        for topic in plan.topics:
            yield replace(plan, topics={t: n for t, n in plan.topics.items() if t != topic})
    for topic, partitions in plan.topics.items():
        if partitions > 1:
            yield replace(plan, topics={**plan.topics, topic: partitions // 2})
    if plan.records > 5:
        yield replace(plan, records=plan.records // 2)
    if plan.static:
        yield replace(plan, static=False)
    if len(plan.assignors) > 1:
        yield replace(plan, assignors=plan.assignors[:1])
