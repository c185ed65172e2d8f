"""A seed repeats itself byte for byte; its story can be read; a failing one shrinks."""

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
def test_a_seed_is_the_same_byte_for_byte_under_any_hash_seed(world):
    def run(hash_seed):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", RUN, world, "2"], env=env, capture_output=True, text=True, check=True
        )
        events, digest = done.stdout.split()
        assert int(events) > 0
        return digest

    assert run("0") == run("4711")


def test_another_seed_is_another_history():
    assert run_seed(2).digest != run_seed(5).digest


def test_a_story_tells_the_plan_what_happened_and_the_verdict():
    verdict = run_seed(2)

    text, page = story_text(verdict), story_html(verdict)

    assert text.startswith(str(verdict.plan))
    assert "owns: generation 1" in text
    assert f"{verdict.events} events" in text
    assert page.startswith("<!doctype html>")
    assert "http" not in page.replace("http-equiv", ""), "the page needs nothing from elsewhere"
    assert page.count("<tr") == len(verdict.happenings) + 1


def test_the_story_of_a_failure_says_which_check_failed():
    with all_bugs()["position-too-far"].planted():
        text = story_text(run_seed(2))

    assert "FAILED by handed_out: check_commit" in text


def test_a_failing_run_shrinks_and_fails_by_the_same_check():
    with all_bugs()["position-too-far"].planted():
        found = shrink(plan_of(5), run_plan, most_runs=12)

    assert found is not None
    plan = found.verdict.plan
    assert found.verdict.caught_by == "handed_out: check_commit"
    assert plan.consumers == 1
    assert plan.faults < plan_of(5).faults or not plan.faults
    assert found.runs <= 12


def test_a_run_that_passes_does_not_shrink():
    assert shrink(plan_of(2), run_plan, most_runs=1) is None


def test_a_failing_seed_prints_the_command_that_replays_it():
    with all_bugs()["position-too-far"].planted():
        result = CliRunner().invoke(main, ["sim", "run", "--seeds", "2"])

    assert result.exit_code == 1
    assert "replay it: kohort sim replay 2\n" in result.stderr


def test_seeds_of_another_world_are_replayed_there():
    with all_bugs()["position-too-far"].planted():
        result = CliRunner().invoke(main, ["sim", "run", "--seeds", "2", "--world", "moves"])

    assert result.exit_code == 1
    assert "replay it: kohort sim replay 2 --world moves\n" in result.stderr


@pytest.mark.parametrize("world", ["group", "transactions", "moves", "secured"])
def test_every_world_can_be_run_unencoded_and_by_several_processes(world):
    asked = ["sim", "run", "--seeds", "0..3", "--world", world, "--output", "json"]
    faster = [] if world == "secured" else ["--unencoded"]  # quotas count the bytes of requests
    alone, together = (CliRunner().invoke(main, [*asked, *more]) for more in ([], ["--jobs", "2", *faster]))

    assert alone.exit_code == together.exit_code == 0, alone.output + together.output
    assert json.loads(alone.stdout) == json.loads(together.stdout)
    assert json.loads(alone.stdout)["seeds"] == 3
