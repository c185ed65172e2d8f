"""Puts mistakes into the coordinator, the log and the client's membership, one at a time: does a test notice?

    python tools/mutants/run.py --sample 600 --seed 1        600 of all mutants, the same for the same seed
    python tools/mutants/run.py --files log/segment.py       all mutants of some files (any part of a path)
    python tools/mutants/run.py --again                      those again that were alive at the last run

First the tests that reach a mutant, the fastest first, then seeds of the simulator that reach it. Results are in
build/mutants: results.json, and survivors.txt with what stands in explained.txt left out. Nothing in the work tree is
changed. Exit code 1: a test fails without any mutant.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

from mutants import rooms  # noqa: E402
from mutants.operators import Mutant, SourceFile  # noqa: E402
from mutants.reach import PLAIN, SIMULATED, SLOW, Reach, inherited, recorded  # noqa: E402
from mutants.report import Row, explained, report  # noqa: E402

WORK = ROOT / "build" / "mutants"
CONTROL = -1
"""The number of runs without a mutant: 1 in so many of the tests must pass then, too."""


def main() -> int:
    """Make mutants as asked for, and tell what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="", help="only files whose path has one of these parts (blanks between)")
    parser.add_argument("--sample", type=int, default=0, help="so many of the mutants, drawn by the seed; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--controls", type=int, default=5, help="so many runs without a mutant, which must pass")
    parser.add_argument("--no-seeds", dest="seeds", action="store_false", help="without the simulator")
    parser.add_argument("--again", action="store_true", help="only what was alive in the last run's results")
    asked = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    parts = asked.files.split()
    sources = [path for path in rooms.sources() if not parts or any(part in str(path) for part in parts)]
    mutants = [mutant for path in sources for mutant in mutants_of(path)]
    made = len(mutants)
    if asked.again:
        alive = {row["key"] for row in json.loads((WORK / "results.json").read_text()) if row["fate"] == "alive"}
        mutants = [mutant for mutant in mutants if mutant.key in alive]
    if asked.sample and asked.sample < len(mutants):
        mutants = sorted(random.Random(asked.seed).sample(mutants, asked.sample), key=lambda one: (one.path, one.line))
    reach = recorded(rooms.ROOMS, rooms.tests(), rooms.SEEDS, WORK / "reach.json", asked.jobs)
    if not asked.seeds:
        reach.forget(SIMULATED)
    began = time.monotonic()
    rows, failing = tried(mutants, reach, asked.jobs, asked.controls, WORK)
    print(f"{len(mutants)} of {made} mutants in {time.monotonic() - began:.0f} s")
    if failing:
        print("tests fail without any mutant, so nothing that follows says anything:", *failing, sep="\n  ")
    print(report(rows, explained()))
    kept = {row.mutant.key: row.as_json() for row in rows}
    if asked.again:
        kept = {row["key"]: row for row in json.loads((WORK / "results.json").read_text())} | kept
    (WORK / "results.json").write_text(json.dumps(list(kept.values()), indent=1))
    return 1 if failing else 0


def mutants_of(path: Path) -> list[Mutant]:
    """Give all mutants of one file."""
    return SourceFile(str(path.relative_to(ROOT)), path.read_text()).mutants


def tried(
    mutants: list[Mutant],
    reach: Reach,
    jobs: int,
    controls: int,
    work: Path,
    tests: Iterable[Path] | None = None,
    *,
    grace_s: float = 4.0,
) -> tuple[list[Row], list[str]]:
    """Try mutants in so many processes: what became of each, and the tests that fail without a mutant."""
    by_line, importers = reach.by_line(), rooms.importers(rooms.sources())
    todo: list[dict[str, object]] = [
        {"id": at, "path": one.path, "index": one.index, "tests": who_reaches(one, by_line, importers, reach.seconds)}
        for at, one in enumerate(mutants)
    ]
    step = max(1, len(todo) // controls) if controls else len(todo) + 1
    todo += [row | {"id": CONTROL, "index": None} for row in todo[::step][:controls]]
    files = sorted(str(path) for path in (tests or rooms.tests()))
    children = []
    for job in range(jobs):
        results, task = work / f"results-{job}.jsonl", work / f"task-{job}.json"
        results.unlink(missing_ok=True)
        task.write_text(
            json.dumps(
                {"mutants": todo[job::jobs], "seconds": reach.seconds, "results": str(results), "grace_s": grace_s}
            )
        )
        env = inherited() | {
            "KOHORT_MUTANTS_TASK": str(task),
            "PYTHONPATH": f"{ROOT / 'tools'}{os.pathsep}{ROOT / 'tests'}",
        }
        command = [sys.executable, "-m", "pytest", *PLAIN, "-p", "mutants.killing", "-m", SLOW, *files]
        with (work / f"log-{job}.txt").open("w") as log:
            children.append(subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT))
    for child in children:
        child.wait()
    fates = [
        json.loads(line)
        for job in range(jobs)
        if (work / f"results-{job}.jsonl").exists()
        for line in (work / f"results-{job}.jsonl").read_text().splitlines()
    ]
    if len(fates) != len(todo):
        raise SystemExit(f"{len(todo) - len(fates)} mutants were not tried; see {work}/log-*.txt")
    if broken := sum(fate["fate"] == "broken" for fate in fates):
        raise SystemExit(f"{broken} mutants could not be tried: this tool is at fault")
    rows = [Row(mutants[fate["id"]], fate["fate"], fate["by"], fate["seconds"]) for fate in fates if fate["id"] >= 0]
    failing = [fate["by"] for fate in fates if fate["id"] == CONTROL and fate["fate"] != "alive" and fate["by"]]
    return sorted(rows, key=lambda row: (row.mutant.path, row.mutant.line)), failing


def who_reaches(
    mutant: Mutant, by_line: dict[str, dict[int, list[str]]], importers: dict[str, set[str]], seconds: dict[str, float]
) -> list[str]:
    """Name who reaches a mutant: tests of its file and of its package before others, of those the fastest first, seeds
    of the simulator last.

    What a file does at import every test reaches: there, who reaches any line of the file is named, or of one that
    imports it, as a constant or a table does nothing where it stands.
    """
    lines = by_line.get(mutant.path, {})
    found = {test for line in range(mutant.first, mutant.last + 1) for test in lines.get(line, ())}
    if is_at_import(mutant):
        asked = [lines, *(by_line.get(path, {}) for path in importers.get(mutant.path, ()))]
        found = {test for one in asked for tests in one.values() for test in tests}
    stem, package = f"test_{Path(mutant.path).stem}", f"tests/unit/{Path(mutant.path).parts[2]}/"
    return sorted(
        found,
        key=lambda test: (
            test.startswith(SIMULATED),
            stem not in test,
            not test.startswith(package),
            seconds.get(test, 1.0),
        ),
    )


def is_at_import(mutant: Mutant) -> bool:
    """Whether the mutant is outside of functions, or a default argument."""
    return mutant.operator == "default" or mutant.at_import


if __name__ == "__main__":
    sys.exit(main())
