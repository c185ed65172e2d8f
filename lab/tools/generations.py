"""Simulate generations into docs/lab/generations.json, and write the tables and figures of docs/lab/generations.md.

    python lab/tools/generations.py                       writes tables and figures from the JSON
    python lab/tools/generations.py --check               exits 1 if they do not match the JSON
    python lab/tools/generations.py --run                 runs all simulations (1 to 2 hours), then writes
    python lab/tools/generations.py --run --sizes 3,10 --generations zookeeper      runs some; keeps the others

``SEEDS`` has the seeds of each size. The figures need matplotlib; the check does not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from kohort_lab.sim.generations.catalogue import GENERATIONS
from kohort_lab.sim.generations.changes import CHANGES
from kohort_lab.sim.generations.comparison import Comparison, CostRow, costs, rows_of
from kohort_lab.sim.generations.plots import draw

DOCS: Final = Path(__file__).parents[2] / "docs" / "lab"
PAGE: Final = DOCS / "generations.md"
STORED: Final = DOCS / "generations.json"
SEEDS: Final = {3: range(5), 10: range(3), 30: range(1), 100: range(1), 300: range(1), 1_000: range(1)}
"""Seeds by number of members; larger groups have fewer, because their runs take long."""
SOME: Final = {300: ("joins",), 1_000: ("joins",)}
"""Changes by number of members, for sizes that do not run all changes."""
OMITTED: Final = {1_000: ("zookeeper",)}
"""Omitted generations by number of members: the reads of ZooKeeper consumers grow with the square of the members."""
CALM: Final = tuple(name for name, change in CHANGES.items() if not change.is_fault)
FAULTS: Final = tuple(name for name, change in CHANGES.items() if change.is_fault)
FIGURES: Final[dict[str, tuple[Sequence[str], Sequence[str]]]] = {
    "generations-changes.svg": (CALM, ("requests", "notifications", "unowned_s", "moved")),
    "generations-faults.svg": (FAULTS, ("requests", "unowned_s", "split_s", "zombie_s", "reread")),
}
BLOCK: Final = "<!-- {name} -->\n{text}<!-- /{name} -->"
SHOWN: Final = (
    ("requests", "requests"),
    ("notifications", "notified"),
    ("interrupted", "interrupted"),
    ("unowned_s", "no owner, p·s"),
    ("moved", "moved"),
    ("split_s", "two commit, p·s"),
    ("zombie_s", "zombie, p·s"),
    ("reread", "read twice"),
    ("lasted_s", "seconds"),
)


def stored() -> list[CostRow]:
    """Return the stored rows; an empty list before the first run."""
    return [CostRow(**row) for row in json.loads(STORED.read_text())] if STORED.exists() else []


def store(rows: Sequence[CostRow]) -> None:
    order = sorted(
        rows, key=lambda r: (r.members, list(CHANGES).index(r.change), list(GENERATIONS).index(r.generation))
    )
    lines = ",\n".join(json.dumps(asdict(row)) for row in order)
    STORED.write_text(f"[\n{lines}\n]\n")


def run(sizes: Sequence[int], generations: Sequence[str], jobs: int) -> None:
    """Simulate these sizes and generations; new rows replace stored ones."""
    for size in sizes:
        for generation in (name for name in generations if name not in OMITTED.get(size, ())):
            found = [
                c
                for run in costs(Comparison([generation], [size], SEEDS[size], SOME.get(size, ())), jobs=jobs)
                for c in run
            ]
            rows = {(r.members, r.change, r.generation): r for r in stored()}
            rows |= {(r.members, r.change, r.generation): r for r in rows_of(found)}
            store(list(rows.values()))
            print(f"{generation}, {size} members, {len(SEEDS[size])} seeds", flush=True)


def source() -> str:
    """Return the checksum of the stored rows, which each figure contains."""
    return hashlib.sha256(STORED.read_bytes()).hexdigest()


def figures(rows: Sequence[CostRow]) -> None:
    for name, (changes, measures) in FIGURES.items():
        (DOCS / name).write_text(draw(rows, changes, measures, source()))


def table(rows: Sequence[CostRow], size: int) -> str:
    lines = ["| change | generation | " + " | ".join(title for _, title in SHOWN) + " |"]
    lines.append("|---|---|" + "--:|" * len(SHOWN))
    for row in rows:
        if row.members == size:
            cells = " | ".join(number(getattr(row, name)) for name, _ in SHOWN)
            late = f" ({row.unsettled} of {row.seeds} unsettled)" if row.unsettled else ""
            lines.append(f"| {row.change} | {row.generation}{late} | {cells} |")
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    """Format a number; from 10 on without decimals."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def sizes_run(rows: Sequence[CostRow]) -> str:
    """Return the table of sizes, seeds and changes."""
    lines = ["| members | partitions | seeds | changes |", "|--:|--:|--:|---|"]
    for size in sorted({row.members for row in rows}):
        of_size = [row for row in rows if row.members == size]
        changes = [name for name in CHANGES if any(row.change == name for row in of_size)]
        change_names = "all" if len(changes) == len(CHANGES) else ", ".join(changes)
        lines.append(f"| {size:,} | {of_size[0].partitions:,} | {of_size[0].seeds} | {change_names} |")
    return "\n".join(lines) + "\n"


def page(rows: Sequence[CostRow], text: str) -> str:
    """Return the page with new tables."""

    def fill(found: re.Match[str]) -> str:
        name = found.group(1)
        made: Callable[[], str] = (lambda: sizes_run(rows)) if name == "sizes" else (lambda: table(rows, int(name[8:])))
        return BLOCK.format(name=name, text=made())

    return re.sub(r"<!-- (sizes|members-\d+) -->\n.*?<!-- /\1 -->", fill, text, flags=re.DOTALL)


def stale() -> list[str]:
    """Return the names of the page and figures that do not match the stored rows."""
    rows, source_text = stored(), source()
    old = [name for name in FIGURES if source_text not in (DOCS / name).read_text()]
    return old + ([PAGE.name] if page(rows, PAGE.read_text()) != PAGE.read_text() else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--sizes", default=",".join(map(str, SEEDS)))
    parser.add_argument("--generations", default=",".join(GENERATIONS))
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.check:
        if old := stale():
            sys.exit(f"not made from {STORED.name}: {', '.join(old)}; run python lab/tools/generations.py")
        return
    if options.run:
        run([int(size) for size in options.sizes.split(",")], options.generations.split(","), options.jobs)
    rows = stored()
    figures(rows)
    if PAGE.exists():
        PAGE.write_text(page(rows, PAGE.read_text()))


if __name__ == "__main__":
    main()
