"""Fuzzes the entrances of kohort: what strangers, disks and users hand it.

    python tools/fuzz/run.py                                   every entrance, a minute each
    python tools/fuzz/run.py --entrance broker-frames --minutes 30
    python tools/fuzz/run.py --entrance all --inputs 1000000   as many inputs of each
    python tools/fuzz/run.py --entrance schemas --coverage     guided by coverage (wants atheris)
    python tools/fuzz/run.py --entrance schemas --keep         what of that reaches new lines goes into the corpus
    python tools/fuzz/run.py --replay FILE                     one input again: ENTRANCE-....bin

Each entrance runs in a process of its own, so that one that ends is a finding, too. Every input comes from the seed:
what is found is cut down, written to build/fuzz, and the command that replays it is printed. Exit code 1: something
was found.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:1] = [str(ROOT / "tools"), str(ROOT / "tests")]  # this folder's files are no modules of their own

from fuzz.campaign import COUNTS_FILE, LAST_FILE, Bounds, campaign, said_of  # noqa: E402
from fuzz.entrances import PLACES, entrance_of  # noqa: E402
from fuzz.measure import Judge  # noqa: E402

FOUND = ROOT / "build" / "fuzz"
COLUMNS = ("entrance", "runs", "inputs", "a second", "slowest ms", "memory MB", "found")


def main() -> int:
    """Run what is asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entrance", default="all", choices=["all", *PLACES], help="which; all of them, one by one")
    parser.add_argument("--minutes", type=float, default=None, help="at most so long for each entrance")
    parser.add_argument("--inputs", type=int, default=None, help="so many inputs for each entrance")
    parser.add_argument("--seed", type=int, default=0, help="of all chance")
    parser.add_argument("--coverage", action="store_true", help="let coverage choose the inputs, by atheris")
    parser.add_argument(
        "--keep", action="store_true", help="put what --coverage found to reach new lines in the corpus"
    )
    parser.add_argument("--replay", type=Path, help="run one input that was kept")
    parser.add_argument("--out", type=Path, default=FOUND, help="where findings are written")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.replay is not None:
        return replay(asked.replay)
    if asked.minutes is None and asked.inputs is None:
        asked.minutes = 1.0
    if (asked.coverage or asked.keep) and asked.entrance == "all":
        parser.error("--coverage and --keep are for one entrance at a time")
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.coverage or asked.keep:
        from fuzz.guided import guided, keep_reaching

        if asked.keep:
            return keep_reaching(asked.entrance, asked.out)
        return guided(asked.entrance, asked.out, asked.minutes or 1.0)
    if asked.child:
        campaign(entrance_of(asked.entrance), Bounds(asked.minutes, asked.inputs, asked.seed), asked.out)
        return 0
    names = list(PLACES) if asked.entrance == "all" else [asked.entrance]
    rows = [in_child(name, asked) for name in names]
    print_table(rows)
    return 1 if any(row["found"] for row in rows) else 0


def in_child(name: str, asked: argparse.Namespace) -> dict[str, object]:
    """Fuzz one entrance in a process; the row of its table."""
    command = [
        sys.executable,
        __file__,
        "--child",
        "--entrance",
        name,
        "--seed",
        str(asked.seed),
        "--out",
        str(asked.out),
    ]
    if asked.minutes is not None:
        command += ["--minutes", str(asked.minutes)]
    if asked.inputs is not None:
        command += ["--inputs", str(asked.inputs)]
    counts, last = asked.out / COUNTS_FILE.format(name), asked.out / LAST_FILE.format(name)
    counts.unlink(missing_ok=True)
    done = subprocess.run(command, check=False)
    row: dict[str, object] = json.loads(counts.read_text()) if counts.exists() else dict.fromkeys(COLUMNS, 0)
    row["entrance"] = name
    if done.returncode:
        kept = asked.out / f"{name}-ended.bin"
        kept.write_bytes(said_of(last) if last.exists() else b"")
        print(f"{name}: the process ended with {done.returncode}; the input: python tools/fuzz/run.py --replay {kept}")
        row["found"] = int(str(row["found"])) + 1
    last.unlink(missing_ok=True)
    return row


def print_table(rows: list[dict[str, object]]) -> None:
    """Print what was done, a line for each entrance."""
    lines = [COLUMNS, *(tuple(str(row.get(column, "")) for column in COLUMNS) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    for line in lines:
        print(
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
        )


def replay(path: Path) -> int:
    """Run one input, and say what comes of it."""
    name = next((name for name in sorted(PLACES, key=len, reverse=True) if path.name.startswith(name)), None)
    name = name or (path.parent.name if path.parent.name in PLACES else None)
    if name is None:
        print(f"{path}: its name, or that of its folder, has to begin with that of an entrance: {', '.join(PLACES)}")
        return 2
    found = Judge(entrance_of(name)).run(path.read_bytes())
    print(f"{found.kind}: {found.what}" if found else "nothing is wrong with it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
