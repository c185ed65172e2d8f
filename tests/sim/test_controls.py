"""Each planted bug is caught by its known seed and check."""

from pathlib import Path

import pytest

from kohort_lab.sim.controls import run_control
from kohort_lab.sim.planted.catalogue import all_bugs
from kohort_lab.sim.worlds.one_broker import run_seed

LIST = [line.split(maxsplit=2) for line in Path(__file__).with_name("planted.txt").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed", "check"), LIST, ids=[name for name, _, _ in LIST])
def test_planted_bug_is_caught_by_its_seed_and_check(name, seed, check):
    control = run_control(name, int(seed), 1)

    assert control.seed is not None, f"{name} ({control.what}) is not caught by seed {seed} any more"
    assert control.check == check


def test_every_planted_bug_is_listed():
    assert [line[0] for line in LIST] == list(all_bugs())
    assert len(LIST) >= 25


def test_planted_bug_ends_with_its_block():
    before = run_seed(2)
    with all_bugs()["position-too-far"].planted():
        assert not run_seed(2).passed
    after = run_seed(2)

    assert after.passed
    assert (before.events, before.story) == (after.events, after.story)
