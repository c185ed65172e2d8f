"""Seeds with the shortest work steps, so that events can fall between any two steps."""

import pytest

from kohort.steps import shortest_steps
from kohort_lab.sim.campaign import judge_seed
from kohort_lab.sim.worlds.catalogue import WORLDS


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("first", [0, pytest.param(5, marks=pytest.mark.campaign)])
def test_each_world_passes_with_shortest_steps(world, first):
    with shortest_steps():
        for seed in range(first, first + 5):
            verdict = judge_seed(seed, world=world)
            assert verdict.passed, f"{verdict.story}\n{verdict.failure}\nwithin shortest_steps: seed {seed} of {world}"


def test_shortest_steps_change_the_run():
    at_once = judge_seed(3)
    with shortest_steps():
        in_steps = judge_seed(3)

    assert in_steps.events > at_once.events
