"""One broker under faults, then calm, with all checks; also every formerly failed seed."""

from pathlib import Path

import pytest

from kohort_lab.sim.worlds.one_broker import run_seed

EVERY_RUN = range(30)
MORE = range(30, 500)
CHUNK = 10
EVER_FAILED = [int(line.split()[0]) for line in Path(__file__).with_name("seeds.txt").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", MORE[::CHUNK])
def test_group_survives_its_faults_and_settles(first):
    for seed in range(first, first + CHUNK):
        verdict = run_seed(seed)
        assert verdict.passed, f"{verdict.plan}\n{verdict.story}\n{verdict.failure}\nkohort sim replay {seed}"


@pytest.mark.parametrize("seed", EVER_FAILED)
def test_formerly_failed_seed_passes(seed):
    verdict = run_seed(seed)

    assert verdict.passed, f"{verdict.story}\n{verdict.failure}"


def test_many_seeds_survive_faults():
    counts = {}
    for seed in EVERY_RUN:
        verdict = run_seed(seed)
        assert verdict.passed, f"{verdict.plan}\n{verdict.story}\n{verdict.failure}\nkohort sim replay {seed}"
        for what, times in verdict.counts.items():
            counts[what] = counts.get(what, 0) + times

    assert counts["killed"] > 5
    assert counts["frozen"] > 5
    assert counts["owns"] > 40
    assert counts["revoked"] > 10
