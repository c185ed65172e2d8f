"""Which tests and which seeds of the simulator reach which lines: recorded once by coverage.py, and kept.

It is recorded anew for test files that changed; for all of them when anything else did. As a plugin of pytest
(``-p mutants.reach``) this module names the test whose lines are counted.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SIMULATED = "simulator"
AT_ONCE = 8
"""Files for one process, after which what was recorded is written down."""
PLAIN = (
    "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "mutants.calm", "--hypothesis-profile=mutants", "--no-header",
)  # fmt: skip
SLOW = "not campaign and not slow and not spark and not kafka and not toolchain"

Lines = dict[str, dict[str, list[int]]]


@dataclass(slots=True)
class Reach:
    """What is known: for each test its seconds of processor time, and the lines of the rooms that it reaches."""

    source: str = ""
    files: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    lines: Lines = field(default_factory=dict)

    def by_line(self) -> dict[str, dict[int, list[str]]]:
        """Turn it round: the tests that reach each line of each file."""
        turned: dict[str, dict[int, list[str]]] = {}
        for test, paths in self.lines.items():
            for path, lines in paths.items():
                of_path = turned.setdefault(path, {})
                for line in lines:
                    of_path.setdefault(line, []).append(test)
        return turned

    def forget(self, name: str) -> None:
        """Forget the tests of one file."""
        for test in [test for test in self.seconds if test.partition("::")[0] == name]:
            del self.seconds[test]
            self.lines.pop(test, None)


def recorded(rooms: Iterable[str], tests: Iterable[Path], seeds: int, kept: Path, jobs: int = 1) -> Reach:
    """Give what is known about the files of the tests, and record what is not known yet in so many processes."""
    reach = Reach(**json.loads(kept.read_text())) if kept.exists() else Reach()
    known = list(tests)
    source = _digest(path for top in ("src/kohort", "tests/support") for path in sorted((ROOT / top).rglob("*.py")))
    if reach.source != source:
        reach = Reach(source=source)
    wanted = {str(path.relative_to(ROOT)): _digest([path]) for path in known} | {SIMULATED: str(seeds)}
    for name in [name for name, digest in reach.files.items() if wanted.get(name) != digest]:
        del reach.files[name]
        reach.forget(name)
    missing = [name for name in wanted if name not in reach.files]
    waiting = [missing[at : at + AT_ONCE] for at in range(0, len(missing), AT_ONCE)]
    with ThreadPoolExecutor(jobs) as pool:
        under_way = {
            pool.submit(_recording, list(rooms), some, seeds, kept.parent / f"reach-{at}"): some
            for at, some in enumerate(waiting)
        }
        for at, done in enumerate(as_completed(under_way)):
            some = under_way[done]
            seconds, lines = done.result()
            reach.seconds |= seconds
            reach.lines |= lines
            reach.files |= {name: wanted[name] for name in some}
            kept.write_text(json.dumps({name: getattr(reach, name) for name in Reach.__slots__}))
            print(f"recorded what tests reach: {at + 1} of {len(waiting)} parts", flush=True)
    return reach


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def _recording(rooms: list[str], missing: list[str], seeds: int, work: Path) -> tuple[dict[str, float], Lines]:
    """Run files of tests in a process that records: the seconds of each test, and the lines that it reaches."""
    import coverage

    data_file, times_file = work.with_suffix(".coverage"), work.with_suffix(".seconds")
    data_file.unlink(missing_ok=True)
    include = ",".join(str(ROOT / room / "*") for room in rooms)
    env = inherited() | {
        "KOHORT_MUTANTS_REACH": str(data_file),
        "KOHORT_MUTANTS_INCLUDE": include,
        "KOHORT_MUTANTS_SECONDS": str(times_file),
        "KOHORT_MUTANTS_SEEDS": str(seeds if SIMULATED in missing else 0),
        "PYTHONPATH": f"{ROOT / 'tools'}{os.pathsep}{ROOT / 'tests'}",
    }
    files = [name for name in missing if name != SIMULATED] or ["tools/mutants/calm.py"]  # which has no tests
    command = [sys.executable, "-m", "pytest", *PLAIN, "-p", "mutants.reach", "-m", SLOW, *files]
    done = subprocess.run(command, cwd=ROOT, env=env, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode not in {0, pytest.ExitCode.NO_TESTS_COLLECTED}:
        raise SystemExit(f"the tests fail without any mutant:\n{done.stdout[-4000:]}")
    data = coverage.CoverageData(str(data_file))
    data.read()
    lines: Lines = {}
    for path in data.measured_files():
        name = str(Path(path).relative_to(ROOT))
        for line, contexts in data.contexts_by_lineno(path).items():
            for test in contexts:
                if test:
                    lines.setdefault(test, {}).setdefault(name, []).append(line)
    seconds: dict[str, float] = json.loads(times_file.read_text())
    data_file.unlink()
    times_file.unlink()
    return seconds, lines


def inherited() -> dict[str, str]:
    """Give the environment for a pytest of this tool: without options that are meant for the pytest around it, some of
    plugins that are off here."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}


class _Recorder:
    """The plugin: a context of coverage.py for each test, then for each seed."""

    def __init__(self) -> None:
        import coverage

        include = os.environ["KOHORT_MUTANTS_INCLUDE"].split(",")
        self.coverage = coverage.Coverage(
            data_file=os.environ["KOHORT_MUTANTS_REACH"], include=include, config_file=False, messages=False
        )
        self.seconds: dict[str, float] = {}
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.coverage.switch_context(item.nodeid)
        began = time.process_time()
        result = yield
        self.seconds[item.nodeid] = round(time.process_time() - began, 4)
        self.coverage.switch_context("")
        return result

    def pytest_sessionfinish(self) -> None:
        """After the tests the seeds, then all is written."""
        from kohort_lab.sim.worlds.catalogue import WORLDS

        for name in seed_names(WORLDS, int(os.environ["KOHORT_MUTANTS_SEEDS"])):
            self.coverage.switch_context(name)
            began = time.process_time()
            passes(name)
            self.seconds[name] = round(time.process_time() - began, 4)
        self.coverage.stop()
        self.coverage.save()
        Path(os.environ["KOHORT_MUTANTS_SECONDS"]).write_text(json.dumps(self.seconds))


def seed_names(worlds: Iterable[str], seeds: int) -> list[str]:
    """Name so many seeds of each world."""
    return [f"{SIMULATED}::{world}:{seed}" for seed in range(seeds) for world in worlds]


def passes(name: str) -> bool:
    """Run one seed of the simulator, by the name that it has here."""
    from kohort_lab.sim.campaign import judge_seed

    world, seed = name.removeprefix(f"{SIMULATED}::").split(":")
    return judge_seed(int(seed), world=world).passed


def pytest_configure(config: pytest.Config) -> None:
    """Begin where the environment asks for it: a process that is to kill mutants loads this module, too."""
    if "KOHORT_MUTANTS_REACH" in os.environ:
        config.pluginmanager.register(_Recorder())
