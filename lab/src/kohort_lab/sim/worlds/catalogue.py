"""Worlds by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kohort_lab.sim.swarm import Plan, plan_of
from kohort_lab.sim.verdict import Verdict, verdict_of
from kohort_lab.sim.worlds.copying import CopyingGroup, plan_of_copies
from kohort_lab.sim.worlds.modern import ModernGroups, plan_of_modern
from kohort_lab.sim.worlds.one_broker import OneBroker
from kohort_lab.sim.worlds.secured import SecuredGroup, plan_of_secured
from kohort_lab.sim.worlds.simulation import Simulation
from kohort_lab.sim.worlds.three_nodes import ThreeNodes, plan_of_moves


@dataclass(frozen=True, slots=True)
class SimulatedWorld:
    """World: the plan of a seed, and the run of a plan."""

    plan_of: Callable[[int], Plan]
    simulation: Callable[[Plan], Simulation]

    def run_plan(self, plan: Plan) -> Verdict:
        """Run a plan to its verdict."""
        return verdict_of(self.simulation(plan))

    def run_seed(self, seed: int) -> Verdict:
        """Run a seed to its verdict."""
        return self.run_plan(self.plan_of(seed))


GROUP: Final = "group"
WORLDS: Final = {
    GROUP: SimulatedWorld(plan_of, OneBroker),
    "transactions": SimulatedWorld(plan_of_copies, CopyingGroup),
    "moves": SimulatedWorld(plan_of_moves, ThreeNodes),
    "secured": SimulatedWorld(plan_of_secured, SecuredGroup),
    "modern": SimulatedWorld(plan_of_modern, ModernGroups),
}
"""Worlds by the name in ``--world``."""
