"""The worlds that a seed can be run in, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kohort.sim.swarm import Plan, plan_of
from kohort.sim.verdict import Runs, Verdict, verdict_of
from kohort.sim.worlds.copying import Copies, plan_of_copies
from kohort.sim.worlds.one_broker import Run
from kohort.sim.worlds.three_nodes import Moves, plan_of_moves


@dataclass(frozen=True, slots=True)
class Kind:
    """One world: what a seed stands for in it, and its actors."""

    plan_of: Callable[[int], Plan]
    actors: Callable[[Plan], Runs]

    def run_plan(self, plan: Plan) -> Verdict:
        """Run a plan, drawn from its seed or made smaller than that, to its verdict."""
        return verdict_of(self.actors(plan))

    def run_seed(self, seed: int) -> Verdict:
        return self.run_plan(self.plan_of(seed))


GROUP: Final = "group"
WORLDS: Final = {
    GROUP: Kind(plan_of, Run),
    "transactions": Kind(plan_of_copies, Copies),
    "moves": Kind(plan_of_moves, Moves),
}
"""A group on one broker; members that copy in transactions; three nodes whose leaders move."""
