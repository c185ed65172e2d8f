"""Kill a broker repeatedly while clients of two libraries work, and check their histories.

    python lab/tools/crash/run.py --rounds 500                  SIGKILL, files as the kill left them
    python lab/tools/crash/run.py --rounds 100 --tear           and files torn as a crash of the machine tears them
    python lab/tools/crash/run.py --rounds 100 --set log.flush.interval.messages=1
    python lab/tools/crash/run.py --rounds 100 --nodes 3        three nodes: one is stopped and started, too
    python lab/tools/crash/run.py --rounds 40 --driver          and a Spark pipeline whose driver is killed
    python lab/tools/crash/run.py --rounds 40 --damage          and starts on folders with damaged and missing files
    python lab/tools/crash/run.py --rounds 100 --tear --compact and compactions that are cut off

A round: kill the broker at a random moment, sometimes again during its start, sometimes a client too; then wait for
progress. The clients are those of lab/tools/history/run.py: plain, idempotent and transactional producers, groups of
both protocols. After twenty rounds the clients stop, all topics are read, and the histories are checked
(docs/lab/history-format.md); the next twenty use a new folder. ``--tear`` damages the last segment of some logs and its
derived files like a machine crash during a write: bytes after the last batch, truncated or missing indexes, missing
snapshots. No acknowledged record is in the removed bytes. ``--damage`` removes acknowledged records from copies of the
folder at the end of each run: the broker must report the loss and serve the rest. Exit code 1: an anomaly.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "lab" / "tools"), str(ROOT / "tests")]

from crash.nodes import start_all, stop_one  # noqa: E402 - after sys.path is set
from crash.trials import try_damages  # noqa: E402 - after sys.path is set
from kohort import KohortError  # noqa: E402 - after sys.path is set
from kohort_lab.history.checker import CheckedHistory  # noqa: E402 - after sys.path is set

if TYPE_CHECKING:
    from crash.drivers import Drivers

HISTORY_TOOL = Path(__file__).parents[1] / "history" / "run.py"
ROUNDS_OF_A_RUN = 20
WORKS_S = (0.05, 2.0)
"""Minimum and maximum time in s that all clients run before a kill."""
STARTS_S = (0.02, 0.6)
"""Minimum and maximum time in s from the start of a broker to its kill."""
AGAIN = 0.2
WITH_A_CLIENT = 0.3
WITHOUT_WAITING = 0.3
"""Probability that the next round starts before all clients have made progress."""
OF_A_NODE = 0.5
"""Probability that a round stops one node, if there are several."""
KILLED_WITHOUT_IT = 0.4
"""Probability that the process is killed while a node is stopped."""
OF_A_DRIVER = 0.2
"""Probability that a round first kills Spark's driver."""
SMALL = ("log.segment.bytes=16384", "offsets.topic.segment.bytes=65536")
"""Small segments, so that a run has closed segments for damage or compaction."""
COMPACTING = (
    "log.cleaner.backoff.ms=500",
    "log.cleaner.min.cleanable.ratio=0.05",
    "log.cleaner.delete.retention.ms=2000",
)
"""Constant compaction of internal topics, which removes transaction markers."""
TORN = 0.5
TORN_MOST = 4096


@dataclass(slots=True)
class Tally:
    """Numbers and findings of a campaign."""

    rounds: int = 0
    kills: int = 0
    clients_killed: int = 0
    torn: int = 0
    nodes_stopped: int = 0
    drivers_killed: int = 0
    drivers_ended: int = 0
    damages: int = 0
    operations: int = 0
    transactions: int = 0
    longest_start_s: float = 0.0
    """Longest time from a process's start until it serves."""
    anomalies: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """Errors of a pipeline, or of a start on damaged files."""

    def take(self, found: CheckedHistory) -> None:
        self.operations += found.operations
        self.transactions += found.transactions
        for check, count in found.counts.items():
            self.anomalies[check] = self.anomalies.get(check, 0) + count

    def __str__(self) -> str:
        found = [f"{check} {count}" for check, count in self.anomalies.items()]
        found += [f"{len(self.problems)} problems"] if self.problems else []
        wrong = ", ".join(found) or "nothing is wrong"
        return (
            f"{self.rounds} rounds, {self.kills} kills of the broker, {self.clients_killed} of clients, "
            f"{self.torn} files torn, {self.nodes_stopped} nodes stopped, {self.drivers_killed} drivers killed "
            f"({self.drivers_ended} ended by themselves), {self.damages} starts on damaged files; "
            f"{self.operations} operations, {self.transactions} transactions; "
            f"longest start {self.longest_start_s:.1f} s: {wrong}"
        )


def history_tool() -> ModuleType:
    """Return lab/tools/history/run.py as a module."""
    spec = importlib.util.spec_from_file_location("history_tool", HISTORY_TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def tear(data: Path, rng: random.Random) -> int:
    """Damage some files of a stopped broker; return their number."""
    torn = 0
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        logs = sorted(folder.glob("*.log"))
        if not logs or rng.random() > TORN:
            continue
        torn += sum(1 for _ in _tear_last(folder, logs[-1], rng))
    return torn


def _tear_last(folder: Path, log: Path, rng: random.Random) -> Iterator[Path]:
    if rng.random() < 0.5:  # an incomplete batch
        with log.open("ab") as file:
            file.write(rng.randbytes(rng.randrange(1, TORN_MOST)))
        yield log
    for index in (log.with_suffix(".index"), log.with_suffix(".timeindex"), log.with_suffix(".txnindex")):
        if index.exists() and rng.random() < 0.3:
            if rng.random() < 0.5:
                index.unlink()
            else:
                with index.open("r+b") as file:
                    file.truncate(rng.randrange(0, max(index.stat().st_size, 1)))
            yield index
    snapshots = sorted(folder.glob("*.snapshot"))
    if snapshots and rng.random() < 0.3:
        snapshots[-1].unlink()
        yield snapshots[-1]


class Campaign:
    """Rounds on one folder with the same clients."""

    def __init__(self, tool: ModuleType, options: argparse.Namespace, rng: random.Random, tally: Tally) -> None:
        self._tool = tool
        self._options = options
        self._rng = rng
        self._tally = tally
        self._drivers: Drivers | None = None

    def run(self, folder: Path, rounds: int) -> CheckedHistory:
        """Run the rounds and check the clients' histories."""
        data, tally, options = folder / "data", self._tally, self._options
        small = SMALL if options.damage or options.compact else ()
        settings = [*small, *(COMPACTING if options.compact else ()), *options.set]
        with ExitStack() as stack:
            broker = stack.enter_context(self._tool.OurBroker(data, *settings, nodes=options.nodes))

            def strike(crowd) -> None:  # type: ignore[no-untyped-def]  # of a module that is loaded
                if options.driver:
                    self._drivers = drivers_of(broker.bootstrap, folder)
                    stack.callback(self._drivers.kill)
                for _ in range(rounds):
                    self._round(broker, crowd, data)
                crowd.wait_until_at_work()
                tally.clients_killed += crowd.killed

            found: CheckedHistory = self._tool.watch(broker, folder, strike)
            if self._drivers is not None:
                tally.problems += self._drivers.account()
                tally.drivers_killed += self._drivers.killed
                tally.drivers_ended += self._drivers.ended
            if options.damage:
                broker.end(kill=True)
                done, problems = try_damages(self._tool, data, folder, self._rng)
                tally.damages += done
                tally.problems += problems
        return found

    def _round(self, broker, crowd, data: Path) -> None:  # type: ignore[no-untyped-def]  # of a module that is loaded
        rng, tally = self._rng, self._tally
        time.sleep(rng.uniform(*WORKS_S))
        crowd.look_after()
        tally.rounds += 1
        if self._drivers is not None:
            self._drivers.look_after()
            if rng.random() < OF_A_DRIVER:
                self._drivers.strike(rng)
        if self._options.nodes > 1 and rng.random() < OF_A_NODE and not self._without_a_node(broker):
            return
        self._kill(broker, data)
        if rng.random() < WITH_A_CLIENT:
            crowd.kill(rng.randrange(len(self._tool.CLIENTS)))
        broker.start()
        while rng.random() < AGAIN:
            time.sleep(rng.uniform(*STARTS_S))
            self._kill(broker, data)
            broker.start()
        began = time.monotonic()
        broker.wait()
        tally.longest_start_s = max(tally.longest_start_s, time.monotonic() - began)
        if rng.random() > WITHOUT_WAITING:
            crowd.wait_until_at_work()

    def _without_a_node(self, broker) -> bool:  # type: ignore[no-untyped-def]  # of a module that is loaded
        """Stop one node and start it again; return True if the process is to be killed instead of that start."""
        rng = self._rng
        stop_one(broker.bootstrap, self._options.nodes, rng)
        self._tally.nodes_stopped += 1
        time.sleep(rng.uniform(*WORKS_S))
        if rng.random() < KILLED_WITHOUT_IT:
            return True
        start_all(broker.bootstrap, rng)
        return False

    def _kill(self, broker, data: Path) -> None:  # type: ignore[no-untyped-def]  # of a module that is loaded
        broker.end(kill=True)
        self._tally.kills += 1
        if self._options.tear:
            self._tally.torn += tear(data, self._rng)


def drivers_of(bootstrap: str, folder: Path) -> Drivers:
    """Start a pipeline; imports PySpark only here."""
    from crash.drivers import Drivers

    return Drivers(bootstrap, folder)


def play(options: argparse.Namespace) -> Tally:
    """Run all rounds; print each result, and keep the files of a run with an anomaly."""
    tool, tally = history_tool(), Tally()
    number = 0
    while tally.rounds < options.rounds:
        folder = Path(tempfile.mkdtemp(prefix=f"crash-{number}-", dir=options.keep))
        rng, problem_count = random.Random(f"{options.seed} {number}"), len(tally.problems)
        found = Campaign(tool, options, rng, tally).run(folder, min(ROUNDS_OF_A_RUN, options.rounds - tally.rounds))
        tally.take(found)
        print(f"after {tally}", flush=True)
        for problem in tally.problems[problem_count:]:
            print(f"{folder}: {problem}")
        for anomaly in found.anomalies:
            print(f"{folder}: {anomaly.check}: {anomaly.sentence}")
            for proof in anomaly.evidence:
                print(f"    {proof.place}  {proof.line}")
        if not found.counts and len(tally.problems) == problem_count and options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
        number += 1
    return tally


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS_OF_A_RUN)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tear", action="store_true", help="also damage files like a crash of the machine")
    parser.add_argument("--nodes", type=int, default=1, help="number of nodes in one process; one is sometimes stopped")
    parser.add_argument("--driver", action="store_true", help="also kill the driver of a Spark pipeline")
    parser.add_argument("--damage", action="store_true", help="after each run, start on damaged copies of the folder")
    parser.add_argument("--compact", action="store_true", help="compact internal topics continuously")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="option of the broker")
    parser.add_argument("--keep", type=Path, help="existing folder for histories and data")
    return parser.parse_args(arguments)


def main() -> int:
    try:
        tally = play(options_of(sys.argv[1:]))
    except KohortError as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if tally.anomalies or tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
