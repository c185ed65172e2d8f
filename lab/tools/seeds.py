"""Sweep many seeds of every world of the simulator, in pieces; an interrupted sweep resumes.

    python lab/tools/seeds.py                                                   20,000 seeds of every world
    python lab/tools/seeds.py --seeds 0..500 --worlds group modern --jobs 2     some of some

Progress is in build/seeds, one file per state of the sources: src and lab/src as committed, with a mark of uncommitted
changes. Changed sources begin a new sweep; documents and tests may change meanwhile. Exit code 1: a seed failed; 130:
interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Final

import click
import msgspec
from code_state import code_of

from kohort_lab.commands.seeds import parse_seeds
from kohort_lab.sim.campaign import replay_command, verdicts
from kohort_lab.sim.worlds.catalogue import WORLDS

ROOT: Final = Path(__file__).parents[2]
KEPT_IN: Final = ROOT / "build" / "seeds"
PIECE: Final = 200
"""Number of seeds between two writes of the progress."""
COLUMNS: Final = ("world", "seeds", "clean", "failed", "seeds a processor second")


class Failed(msgspec.Struct):
    """A failed seed: its check, and the command to repeat it."""

    seed: int
    caught_by: str
    replay: str


class WorldDone(msgspec.Struct):
    """Completed seeds of one world: disjoint half-open ranges in order."""

    done: list[tuple[int, int]] = []
    failures: list[Failed] = []
    processor_s: float = 0.0

    @property
    def seeds(self) -> int:
        return sum(end - first for first, end in self.done)

    def missing(self, seeds: range) -> Iterator[range]:
        """Yield the missing parts of ``seeds`` in order, in pieces."""
        at = seeds.start
        for first, end in [*self.done, (seeds.stop, seeds.stop)]:
            gap = range(at, min(first, seeds.stop))
            yield from (gap[begin : begin + PIECE] for begin in range(0, len(gap), PIECE))
            at = max(at, end)

    def add(self, piece: range) -> None:
        """Add a completed piece."""
        joined: list[tuple[int, int]] = []
        for first, end in sorted([*self.done, (piece.start, piece.stop)]):
            if joined and first <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((first, end))
        self.done = joined


class Sweep(msgspec.Struct):
    """Progress of a sweep on one state of the code."""

    code: str
    worlds: dict[str, WorldDone] = {}


def begun(kept: Path, code: str) -> Sweep:
    """Return the stored sweep of this code, or a new one. Raises ValueError for an invalid file."""
    if not kept.exists():
        return Sweep(code)
    try:
        return msgspec.json.decode(kept.read_bytes(), type=Sweep)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{kept} is not a sweep of seeds ({error}); remove the file to start a new sweep") from None


def sweep(found: Sweep, kept: Path, seeds: range, worlds: Sequence[str], jobs: int) -> None:
    """Run the missing seeds, alternating between worlds, and write the progress to ``kept``."""
    of_worlds = {world: found.worlds.setdefault(world, WorldDone()) for world in worlds}
    pieces = {world: list(done.missing(seeds)) for world, done in of_worlds.items()}
    for turn in range(max(map(len, pieces.values()), default=0)):
        for world, missing in pieces.items():
            if turn < len(missing):
                _run_piece(world, of_worlds[world], missing[turn], jobs)
                _write(kept, found)


def _run_piece(world: str, done: WorldDone, piece: range, jobs: int) -> None:
    began_s = _processor_s()
    failures = []
    for verdict in verdicts(piece, world=world, jobs=jobs):
        if not verdict.passed:
            seed = verdict.plan.seed
            failures.append(Failed(seed, verdict.caught_by, replay_command(seed, world)))
            print(f"{world} {seed}: {verdict.caught_by}: {verdict.failure}", file=sys.stderr)
    done.add(piece)
    done.failures += failures
    done.processor_s += _processor_s() - began_s
    print(f"{world} {piece.start}..{piece.stop}: {len(failures)} failed", file=sys.stderr)


def _processor_s() -> float:
    """Return the processor time of this process and its ended children in seconds."""
    return sum(used.ru_utime + used.ru_stime for used in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def _write(kept: Path, found: Sweep) -> None:
    """Replace the file atomically: an interrupted write would lose hours."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    beside = kept.with_suffix(".tmp")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    beside.replace(kept)


def summary(found: Sweep) -> str:
    """Describe each world: number of seeds, failures, speed, and commands to repeat the failures."""
    rows: list[tuple[object, ...]] = [COLUMNS]
    for world, done in found.worlds.items():
        failed = len(done.failures)
        rate = f"{done.seeds / done.processor_s:.2f}" if done.processor_s else "-"
        rows.append((world, f"{done.seeds:,}", f"{done.seeds - failed:,}", failed, rate))
    lines = ["{!s:14}{!s:>9}{!s:>9}{!s:>9}{!s:>28}".format(*row) for row in rows]
    lines += [f"{f.replay}  # {f.caught_by}" for done in found.worlds.values() for f in done.failures]
    return "\n".join([f"code {found.code}", *lines])


def main(words: Sequence[str] | None = None, kept_in: Path = KEPT_IN) -> int:
    """Run the selected seeds; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0..20000", help="seed, or half-open range FIRST..END")
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS), help="worlds [all]")
    parser.add_argument("--jobs", type=int, default=2, choices=range(1, 65), metavar="N", help="number of processes")
    arguments = parser.parse_args(words)
    try:
        seeds = parse_seeds(arguments.seeds)
    except click.BadParameter as error:
        parser.error(error.message)
    code = code_of(ROOT)
    kept = kept_in / f"{code}.json"
    try:
        found = begun(kept, code)
    except ValueError as error:
        parser.error(str(error))
    _interrupt_alone()
    interrupted = False
    try:
        sweep(found, kept, seeds, list(dict.fromkeys(arguments.worlds)), arguments.jobs)
    except KeyboardInterrupt:
        interrupted = True
        print(f"interrupted: the same command goes on from {kept}", file=sys.stderr)
    print(summary(found))
    if interrupted:
        return 130
    return 1 if any(done.failures for done in found.worlds.values()) else 0


def _interrupt_alone() -> None:
    """Let Ctrl-C and SIGTERM interrupt only this process; its children end with it."""
    here = os.getpid()

    def interrupt(_number: int, _frame: object) -> None:
        if os.getpid() == here:
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


if __name__ == "__main__":
    sys.exit(main())
