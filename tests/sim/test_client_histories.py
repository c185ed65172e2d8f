"""Histories of simulated clients, checked by code that is independent of the simulator."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kohort_lab.history.checker import check_history
from kohort_lab.sim.planted.catalogue import all_bugs
from kohort_lab.sim.recorded_runs import write_run
from kohort_lab.sim.worlds.catalogue import WORLDS

HARDENING = Path(__file__).parents[2] / "docs" / "lab" / "hardening.md"
SEEDS = {"group": [0, 7, 10, 12, 246], "transactions": [8], "moves": [1], "modern": [0, 3, 25, 32], "secured": [2]}


def checked(folder, world, seed, **how):
    path = folder / f"{world}-{seed}.jsonl"
    with path.open("w") as file:
        verdict = write_run(world, seed, file, **how)
    return verdict, check_history([path])


@pytest.mark.parametrize(("world", "seed"), [(world, seed) for world, seeds in SEEDS.items() for seed in seeds])
def test_client_history_of_each_world_has_no_anomalies(tmp_path, world, seed):
    verdict, found = checked(tmp_path, world, seed)
    assert verdict.passed, verdict.failure
    assert found.anomalies == ()
    assert found.operations > 100


@pytest.mark.parametrize(("world", "seed"), [("group", 0), ("transactions", 8)])
def test_recording_a_history_does_not_change_the_run(tmp_path, world, seed):
    verdict, _ = checked(tmp_path, world, seed)
    assert verdict.digest == WORLDS[world].run_seed(seed).digest


@pytest.mark.parametrize(
    ("bug", "seed", "check"),
    [
        ("base-offset-kept", 0, "two-values-at-one-offset"),
        ("retry-appended-again", 0, "duplicate-record"),
        ("last-batch-lost", 0, "two-values-at-one-offset"),
        ("older-commit-stays", 0, "started-behind-commit"),
        ("partition-given-twice", 1, "two-owners"),
        ("commits-what-was-fetched", 2, "commit-beyond-read"),
    ],
)
def test_planted_bug_is_found_in_the_client_history_alone(tmp_path, bug, seed, check):
    with all_bugs()[bug].planted():
        _, found = checked(tmp_path, "group", seed, alone=True)
    assert check in found.counts


def test_controls_page_lists_each_planted_bug_once():
    named = re.findall(r"`([a-z-]+)`", HARDENING.read_text())
    assert sorted(name for name in named if name in all_bugs()) == sorted(all_bugs())


def test_sim_history_writes_what_check_history_reads(tmp_path):
    path = tmp_path / "seed.jsonl"
    kohort = [sys.executable, "-m", "kohort"]
    with path.open("w") as file:
        subprocess.run([*kohort, "sim", "history", "0"], stdout=file, stderr=subprocess.PIPE, check=True)
    done = subprocess.run([*kohort, "check-history", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.rpartition(": ")[2]) == (0, "nothing is wrong\n")
