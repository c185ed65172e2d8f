"""Fuzz the entrances of kohort: inputs from clients, disks and users.

    python lab/tools/fuzz/run.py                                   every entrance, a minute each
    python lab/tools/fuzz/run.py --entrance broker-frames --minutes 30
    python lab/tools/fuzz/run.py --entrance all --inputs 1000000   as many inputs of each
    python lab/tools/fuzz/run.py --entrance tokens schemas --inputs 1000000 --jobs 2   shared out to processes
    python lab/tools/fuzz/run.py --entrance schemas --coverage     guided by coverage (wants atheris)
    python lab/tools/fuzz/run.py --entrance schemas --keep         what of that reaches new lines goes into the corpus
    python lab/tools/fuzz/run.py --replay FILE                     one input again: ENTRANCE-....bin

Each entrance runs in a separate process, so that a crash is a finding too. Every input comes from the seed. A finding
is minimized and written to build/fuzz, with the command that replays it. Exit code 1: a finding. With --jobs N, N
processes with seeds SEED to SEED + N - 1 share each entrance. Each process adds a line to build/fuzz/summary.jsonl; "in
all" is the number of inputs in all its lines on the same sources, so that runs with different seeds add up.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:1] = [str(ROOT / "lab" / "tools"), str(ROOT / "tests")]  # this folder's files are not top-level modules

from code_state import code_of  # noqa: E402 - after sys.path is set

from fuzz import summary  # noqa: E402 - after sys.path is set
from fuzz.campaign import COUNTS_FILE, LAST_FILE, Bounds, campaign, input_of_file  # noqa: E402 - after sys.path is set
from fuzz.entrances import PLACES, entrance_of  # noqa: E402 - after sys.path is set
from fuzz.measure import InputRunner  # noqa: E402 - after sys.path is set
from fuzz.summary import Done  # noqa: E402 - after sys.path is set

FOUND = ROOT / "build" / "fuzz"
COLUMNS = ("entrance", "runs", "inputs", "a second", "slowest ms", "memory MB", "found", "in all")


def main() -> int:
    """Run the selected entrances; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--entrance", default=["all"], nargs="+", choices=["all", *PLACES], help="entrance, or all, in turn"
    )
    parser.add_argument("--minutes", type=float, default=None, help="time limit of each entrance in minutes")
    parser.add_argument("--inputs", type=int, default=None, help="number of inputs of each entrance")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes per entrance")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random choices")
    parser.add_argument("--coverage", action="store_true", help="choose inputs by coverage, with atheris")
    parser.add_argument(
        "--keep", action="store_true", help="add inputs of --coverage that reach new lines to the corpus"
    )
    parser.add_argument("--replay", type=Path, help="replay a stored input")
    parser.add_argument("--out", type=Path, default=FOUND, help="folder for findings")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.replay is not None:
        return replay(arguments.replay)
    if arguments.minutes is None and arguments.inputs is None:
        arguments.minutes = 1.0
    names = list(PLACES) if "all" in arguments.entrance else list(dict.fromkeys(arguments.entrance))
    if (arguments.coverage or arguments.keep) and len(names) > 1:
        parser.error("--coverage and --keep are for one entrance at a time")
    if arguments.jobs < 1:
        parser.error("--jobs: at least 1")
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.coverage or arguments.keep:
        from fuzz.guided import guided, keep_reaching

        if arguments.keep:
            return keep_reaching(names[0], arguments.out)
        return guided(names[0], arguments.out, arguments.minutes or 1.0)
    if arguments.child:
        campaign(entrance_of(names[0]), Bounds(arguments.minutes, arguments.inputs, arguments.seed), arguments.out)
        return 0
    return shared_out(names, arguments)


def shared_out(names: list[str], arguments: argparse.Namespace) -> int:
    """Fuzz the entrances in turn, each in several processes; return the exit code."""
    code, rows = code_of(ROOT), []
    for name in names:
        seeds = range(arguments.seed, arguments.seed + arguments.jobs)
        children = [(seed, subprocess.Popen(command_of(name, seed, arguments))) for seed in seeds]
        done = [done_by(child, name, seed, code, arguments.out) for seed, child in children]
        summary.write(done, arguments.out)
        rows.append(summary.added(done))
    print_table(rows, summary.inputs_by_entrance(summary.read(arguments.out), code))
    return 1 if any(row.found for row in rows) else 0


def command_of(name: str, seed: int, arguments: argparse.Namespace) -> list[str]:
    """Return the command of a process for one entrance and seed."""
    (arguments.out / COUNTS_FILE.format(name, seed)).unlink(missing_ok=True)
    command = [
        sys.executable,
        __file__,
        "--child",
        "--entrance",
        name,
        "--seed",
        str(seed),
        "--out",
        str(arguments.out),
    ]
    if arguments.minutes is not None:
        command += ["--minutes", str(arguments.minutes)]
    if arguments.inputs is not None:
        command += ["--inputs", str(-(-arguments.inputs // arguments.jobs))]
    return command


def done_by(child: subprocess.Popen[bytes], name: str, seed: int, code: str, out: Path) -> Done:
    """Wait for a process, and return its summary; an early end is a finding."""
    ended_with = child.wait()
    counts, last = out / COUNTS_FILE.format(name, seed), out / LAST_FILE.format(name, seed)
    counts_of_seed = json.loads(counts.read_text()) if counts.exists() else dict.fromkeys(Done._fields[3:], 0)
    done = Done(name, seed, code, **counts_of_seed)
    if ended_with:
        kept = out / f"{name}-ended-{seed}.bin"
        kept.write_bytes(input_of_file(last) if last.exists() else b"")
        print(f"{name}: the process ended with {ended_with}; the input: python lab/tools/fuzz/run.py --replay {kept}")
        done = done._replace(found=done.found + 1)
    last.unlink(missing_ok=True)
    counts.unlink(missing_ok=True)
    return done


def print_table(rows: list[Done], in_all: dict[str, int]) -> None:
    """Print a line for each entrance."""
    cells = [(r.entrance, r.runs, r.inputs, r.per_second, r.slowest_ms, r.memory_mb, r.found) for r in rows]
    lines = [COLUMNS, *(tuple(map(str, (*one, in_all.get(str(one[0]), 0)))) for one in cells)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    for line in lines:
        print(
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
        )


def replay(path: Path) -> int:
    """Run one input, and print the result."""
    name = next((name for name in sorted(PLACES, key=len, reverse=True) if path.name.startswith(name)), None)
    name = name or (path.parent.name if path.parent.name in PLACES else None)
    if name is None:
        print(f"{path}: its name, or that of its folder, has to begin with that of an entrance: {', '.join(PLACES)}")
        return 2
    found = InputRunner(entrance_of(name)).run(path.read_bytes())
    print(f"{found.kind}: {found.what}" if found else "nothing is wrong with it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
