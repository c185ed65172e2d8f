"""A plugin of pytest: instead of running the tests once, runs for each mutant those that reach it, in a fork.

Everything is collected and imported by then, so a mutant costs a fork and its tests. What a file does at import is
mutated in a process of its own (``fresh``). A test that takes ten times what it took is ended; that counts as noticed,
and is told apart.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from mutants.operators import Mutant, SourceFile
from mutants.reach import SIMULATED, passes
from mutants.swap import LiveFunctions, NotInPlace

ROOT = Path(__file__).parents[2]
SLOWER = 10.0
GRACE_WALL_S = 120.0
MEMORY = 3 << 30
TESTS_S = 8.0
"""How many seconds of tests a mutant gets, the likeliest and the fastest first."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant: killed by ``tests`` or ``simulator``, ``timeout``, ``alive``; by which test.
    ``broken``: this tool failed, and nothing was tried."""

    fate: str
    by: str = ""


def pytest_configure(config: pytest.Config) -> None:
    """Begin where the environment asks for it."""
    if "KOHORT_MUTANTS_TASK" in os.environ:
        config.pluginmanager.register(_Killer(json.loads(Path(os.environ["KOHORT_MUTANTS_TASK"]).read_text())))


class _Killer:
    def __init__(self, task: dict[str, object]) -> None:
        self._task = task
        self._reports: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        import kohort_lab.sim.campaign  # noqa: F401  what seeds need is imported before the forks, too

        self._items = {item.nodeid: item for item in session.items}
        self._live = LiveFunctions()
        self._seconds: dict[str, float] = self._task["seconds"]  # type: ignore[assignment]
        mutants: list[dict[str, object]] = self._task["mutants"]  # type: ignore[assignment]
        sources: dict[str, SourceFile] = {}
        with Path(str(self._task["results"])).open("a", buffering=1) as results:
            for row in mutants:
                path, index, tests = str(row["path"]), row["index"], row["tests"]
                if path not in sources:
                    sources[path] = SourceFile(path, (ROOT / path).read_text())
                mutant = None if index is None else sources[path].mutants[int(str(index))]
                began = time.perf_counter()
                fate = self._fate(sources[path], mutant, self._known(tests))
                took = round(time.perf_counter() - began, 2)
                results.write(json.dumps({"id": row["id"], "fate": fate.fate, "by": fate.by, "seconds": took}) + "\n")
        return True

    def _known(self, tests: list[str]) -> list[str]:
        return affordable([one for one in tests if one.startswith(SIMULATED) or one in self._items], self._seconds)

    def _fate(self, source: SourceFile, mutant: Mutant | None, tests: list[str]) -> Fate:
        if not tests:
            return Fate("alive", "nothing reaches it")
        filename = str(ROOT / source.path)
        try:
            if mutant is not None:
                LiveFunctions.check(source.code(filename), source.code(filename, mutant))
        except NotInPlace:
            return _in_fresh_process(mutant, tests, self._seconds)
        reading, writing = os.pipe()
        work = tempfile.mkdtemp(prefix="mutant-")
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._in_child(source, mutant, tests, writing, work)
        os.close(writing)
        try:
            fate = _watched(child, reading, tests, self._seconds)
        finally:
            os.close(reading)
            shutil.rmtree(work, ignore_errors=True)
        if fate.fate == "not in place":
            return _in_fresh_process(mutant, tests, self._seconds)
        return fate

    def _in_child(self, source: SourceFile, mutant: Mutant | None, tests: list[str], told: int, work: str) -> None:
        """Run the tests of a mutant in this fork; tell which one begins, and how it ended. Does not return."""
        try:
            _bounded(work)
            filename, grace_s = str(ROOT / source.path), float(str(self._task["grace_s"]))
            if mutant is not None:
                self._live.swap(source.code(filename), source.code(filename, mutant))
        except NotInPlace:
            os.write(told, b"not in place\n")
            os._exit(0)
        except BaseException:  # noqa: BLE001  no mutant has run yet: the fault is this tool's
            os.write(told, b"broken\n")
            os._exit(0)
        try:
            for at, test in enumerate(tests):
                os.write(told, b"%d\n" % at)
                signal.setitimer(signal.ITIMER_PROF, grace_s + SLOWER * self._seconds.get(test, 1.0))
                if not (passes(test) if test.startswith(SIMULATED) else self._passes(test)):
                    os.write(told, b"killed\n")
                    os._exit(0)
            os.write(told, b"alive\n")
        except BaseException:  # noqa: BLE001  whatever a mutant raises, it was noticed
            os.write(told, b"killed\n")
        os._exit(0)

    def _passes(self, test: str) -> bool:
        item = self._items[test]
        self._reports.clear()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return not any(report.failed for report in self._reports)


def affordable(tests: list[str], seconds: dict[str, float]) -> list[str]:
    """Choose among those that reach a mutant as many tests as there is time for, and all seeds. A test that takes too
    long is left out alone: a faster one behind it is not."""
    chosen, spent = [], 0.0
    for test in tests:
        took = 0.0 if test.startswith(SIMULATED) else seconds.get(test, 1.0)
        if not chosen or spent + took < TESTS_S:
            chosen.append(test)
            spent += took
    return chosen


def _bounded(work: str) -> None:
    """Bound what a mutant may take: memory, files in one folder, nothing said."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = work
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


def _watched(child: int, reading: int, tests: list[str], seconds: dict[str, float]) -> Fate:
    """Read what a child tells until it ends, or until one of its tests hangs."""
    at, said, held = 0, b"", b""
    while select.select([reading], [], [], GRACE_WALL_S + SLOWER * seconds.get(tests[at], 1.0))[0]:
        got = os.read(reading, 4096)
        if not got:
            break
        *lines, held = (held + got).split(b"\n")
        for line in lines:
            at, said = (int(line), said) if line.isdigit() else (at, line)
    if not said:
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if said == b"killed":
        return Fate("simulator" if tests[at].startswith(SIMULATED) else "tests", tests[at])
    if said:
        return Fate(said.decode())
    ended_itself = os.WIFSIGNALED(status) and os.WTERMSIG(status) not in {signal.SIGKILL, signal.SIGPROF}
    return Fate("tests" if ended_itself else "timeout", tests[at])


def _in_fresh_process(mutant: Mutant | None, tests: list[str], seconds: dict[str, float]) -> Fate:
    """Run the tests of a mutant in a process that imports the mutated file."""
    assert mutant is not None
    with tempfile.TemporaryDirectory(prefix="mutant-") as work:
        task = Path(work, "task.json")
        task.write_text(json.dumps({"path": mutant.path, "index": mutant.index, "tests": tests}))
        env = {name: value for name, value in os.environ.items() if not name.startswith("KOHORT_MUTANTS_")}
        command = [sys.executable, "-m", "mutants.fresh", str(task)]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=env | {"PYTEST_DEBUG_TEMPROOT": work, "TMPDIR": work},
                check=False,
                capture_output=True,
                timeout=3 * GRACE_WALL_S + SLOWER * sum(seconds.get(test, 1.0) for test in tests),
            )
        except subprocess.TimeoutExpired:
            return Fate("timeout", "a process of its own")
    return Fate({0: "alive", 2: "simulator"}.get(done.returncode, "tests"), "a process of its own")
