"""Reproducible runs, event logs, and shrinking of failing seeds."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from kohort.cli.main import main
from kohort_lab.sim.planted.catalogue import all_bugs
from kohort_lab.sim.shrink import shrink
from kohort_lab.sim.story import story_html, story_text
from kohort_lab.sim.swarm import plan_of
from kohort_lab.sim.worlds.catalogue import WORLDS
from kohort_lab.sim.worlds.one_broker import run_plan, run_seed

RUN = """
import sys; from kohort_lab.sim.worlds.catalogue import WORLDS
v = WORLDS[sys.argv[1]].run_seed(int(sys.argv[2])); print(v.events, v.digest)
"""


@pytest.mark.parametrize("world", WORLDS)
def test_seed_gives_equal_bytes_under_any_hash_seed(world):
    def run(hash_seed):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", RUN, world, "2"], env=env, capture_output=True, text=True, check=True
        )
        events, digest = done.stdout.split()
        assert int(events) > 0
        return digest

    assert run("0") == run("4711")


def test_different_seeds_give_different_histories():
    assert run_seed(2).digest != run_seed(5).digest


def test_story_has_plan_events_and_verdict():
    verdict = run_seed(2)

    text, page = story_text(verdict), story_html(verdict)

    assert text.startswith(str(verdict.plan))
    assert "owns: generation 1" in text
    assert f"{verdict.events} events" in text
    assert page.startswith("<!doctype html>")
    assert "http" not in page.replace("http-equiv", ""), "the page needs nothing from elsewhere"
    assert page.count("<tr") == len(verdict.happenings) + 1


def test_story_of_a_failure_names_the_failed_check():
    with all_bugs()["position-too-far"].planted():
        text = story_text(run_seed(2))

    assert "FAILED by handed_out: check_commit" in text


def test_failing_run_shrinks_and_fails_by_the_same_check():
    with all_bugs()["position-too-far"].planted():
        found = shrink(plan_of(5), run_plan, most_runs=12)

    assert found is not None
    plan = found.verdict.plan
    assert found.verdict.caught_by == "handed_out: check_commit"
    assert plan.consumers == 1
    assert plan.faults < plan_of(5).faults or not plan.faults
    assert found.runs <= 12


def test_passing_run_does_not_shrink():
    assert shrink(plan_of(2), run_plan, most_runs=1) is None


def test_failing_seed_prints_its_replay_command():
    with all_bugs()["position-too-far"].planted():
        result = CliRunner().invoke(main, ["sim", "run", "--seeds", "2"])

    assert result.exit_code == 1
    assert "replay it: kohort sim replay 2\n" in result.stderr


def test_replay_command_names_another_world():
    with all_bugs()["position-too-far"].planted():
        result = CliRunner().invoke(main, ["sim", "run", "--seeds", "2", "--world", "moves"])

    assert result.exit_code == 1
    assert "replay it: kohort sim replay 2 --world moves\n" in result.stderr


@pytest.mark.parametrize("world", ["group", "transactions", "moves", "secured"])
def test_each_world_runs_unencoded_and_in_several_processes(world):
    arguments = ["sim", "run", "--seeds", "0..3", "--world", world, "--output", "json"]
    faster = [] if world == "secured" else ["--unencoded"]  # quotas count request bytes
    alone, together = (CliRunner().invoke(main, [*arguments, *more]) for more in ([], ["--jobs", "2", *faster]))

    assert alone.exit_code == together.exit_code == 0, alone.output + together.output
    assert json.loads(alone.stdout) == json.loads(together.stdout)
    assert json.loads(alone.stdout)["seeds"] == 3
