"""What became of the mutants, as a table of files and a list of survivors; and which survivors are explained."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from mutants.operators import Mutant

ROOT = Path(__file__).parents[2]
EXPLAINED = Path(__file__).parent / "explained.txt"
FATES = ("tests", "simulator", "timeout", "alive")
HEAD = ("file", "mutants", "by tests", "by simulator", "timed out", "alive", "explained")


@dataclass(frozen=True, slots=True)
class Row:
    """A mutant and its fate: killed by ``tests``, by the ``simulator``, ended at a ``timeout``, or ``alive``."""

    mutant: Mutant
    fate: str
    by: str
    seconds: float

    def as_json(self) -> dict[str, object]:
        """Give what a program may want to read."""
        one = self.mutant
        return {
            "key": one.key, "file": one.path, "line": one.line, "place": one.place, "operator": one.operator,
            "before": one.before, "after": one.after, "fate": self.fate, "by": self.by, "seconds": self.seconds,
        }  # fmt: skip


def explained() -> dict[str, str]:
    """Read why some mutants cannot be noticed: the key of each, and the line of reason over it."""
    reasons, reason = {}, ""
    for line in EXPLAINED.read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.strip():
            reasons[line.strip()] = reason
    return reasons


def report(rows: list[Row], reasons: dict[str, str]) -> str:
    """Say it for people: the table, the rate, the survivors that nobody has explained."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        of_file = counts.setdefault(row.mutant.path.removeprefix("src/kohort/"), Counter())
        of_file[row.fate] += 1
        of_file["explained"] += row.fate == "alive" and row.mutant.key in reasons
    total: Counter[str] = sum(counts.values(), Counter())
    lines = [HEAD, *(_line(path, counts[path]) for path in sorted(counts)), _line("all", total)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEAD))]
    table = [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=False))
        )
        for line in lines
    ]
    survivors = [
        f"{row.mutant.path}:{row.mutant.line} {row.mutant.operator} in {row.mutant.place}"
        f"{f' ({row.by})' if row.by else ''}\n    - {row.mutant.before}\n    + {row.mutant.after}"
        for row in rows
        if row.fate == "alive" and row.mutant.key not in reasons
    ]
    number, killed = sum(total[fate] for fate in FATES), sum(total[fate] for fate in FATES[:3])
    rate = f"{killed} of {number} killed: {100 * killed / number:.1f} %" if number else "no mutants"
    if noticeable := number - total["explained"]:
        rate += f"; of those that could be noticed {100 * killed / noticeable:.1f} %"
    return "\n".join([*table, "", rate, "", *survivors])


def _line(path: str, of_file: Counter[str]) -> tuple[str, ...]:
    number = sum(of_file[fate] for fate in FATES)
    return (path, str(number), *(str(of_file[fate]) for fate in FATES), str(of_file["explained"]))
