"""The smallest run that still fails: fewer faults, members, partitions and records, less time.

A plan and its seed give a run, so whatever a smaller plan does is repeated by the same plan: a step is kept if the run
still fails by the same check. A smaller world draws other random numbers, so the smallest found is not the smallest
there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kohort_lab.sim.swarm import Plan
from kohort_lab.sim.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest failing run that was found, and how many runs that took."""

    verdict: Verdict
    runs: int


def shrink(
    plan: Plan,
    run_plan: Callable[[Plan], Verdict],
    most_runs: int = 200,
    told: Callable[[Plan], None] = lambda _: None,
) -> Shrunk | None:
    """Make ``plan`` smaller for as long as it fails; None if it does not fail. ``told`` hears of every smaller one."""
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
                told(smaller)
                break
    return Shrunk(smallest, runs)


def smaller_plans(plan: Plan) -> Iterator[Plan]:
    """Yield plans that are one step smaller, the boldest first."""
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
