"""Run seeds of the simulator's worlds and check their clients' histories with `kohort check-history`.

    python lab/tools/history/sweep.py                        40 seeds of each world
    python lab/tools/history/sweep.py --seeds 200            200 of each
    python lab/tools/history/sweep.py --worlds moves --first 17 --seeds 1     one, again

Neither this checker nor the simulator's own checks may alarm: an alarm is an error of the code or of the checker. The
history of such a seed is kept, and its path is printed. Exit code 1: an alarm.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kohort_lab.history.checker import CheckedHistory, check_history
from kohort_lab.sim.recorded_runs import write_run
from kohort_lab.sim.worlds.catalogue import WORLDS

SEEDS = 40


def judge(world: str, seed: int, folder: Path) -> tuple[CheckedHistory, list[str]]:
    """Run a seed; return the checked history, and all errors as sentences."""
    path = folder / f"{world}-{seed}.jsonl"
    with path.open("w") as file:
        verdict = write_run(world, seed, file)
    found = check_history([path])
    wrong = [f"{anomaly.check}: {anomaly.sentence}" for anomaly in found.anomalies]
    if verdict.failure is not None:
        wrong.insert(0, f"the simulator: {verdict.failure}")
    if not wrong:
        path.unlink()
    return found, wrong


def sweep(options: argparse.Namespace, say: Callable[[str], None] = print) -> int:
    """Check all seeds of all worlds; print alarms and counts. Return the number of seeds with an alarm."""
    folder = options.keep or Path(tempfile.mkdtemp(prefix="sweep-"))
    alarming = 0
    for world in options.worlds:
        began, operations, transactions, wrong_here = time.monotonic(), 0, 0, 0
        for seed in range(options.first, options.first + options.seeds):
            found, wrong = judge(world, seed, folder)
            operations += found.operations
            transactions += found.transactions
            wrong_here += bool(wrong)
            for sentence in wrong:
                say(f"{folder / f'{world}-{seed}.jsonl'}: {sentence}")
        alarming += wrong_here
        took = time.monotonic() - began
        size = f"{operations} operations, {transactions} transactions, {took:.0f} s"
        say(f"{world}: {options.seeds} seeds, {size}: {wrong_here or 'no'} seeds alarm")
    return alarming


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of seeds per world")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="existing folder for histories with an alarm")
    return parser.parse_args(arguments)


def main() -> int:
    return 1 if sweep(options_of(sys.argv[1:])) else 0


if __name__ == "__main__":
    sys.exit(main())
