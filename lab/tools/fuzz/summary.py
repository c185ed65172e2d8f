"""Summaries of campaigns, one line of JSON per process, which can be added up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

SUMMARY_FILE = "summary.jsonl"


class Done(NamedTuple):
    """Summary of one process: its entrance, its inputs, and the state of the sources."""

    entrance: str
    seed: int
    code: str
    runs: int
    inputs: int
    per_second: int
    slowest_ms: float
    memory_mb: float
    found: int


def write(done: Iterable[Done], folder: Path) -> None:
    """Append lines to a folder's summary."""
    with (folder / SUMMARY_FILE).open("a") as file:
        file.writelines(json.dumps(one._asdict()) + "\n" for one in done)


def read(folder: Path) -> list[Done]:
    """Return all lines of a folder's summary; lines of an earlier format are skipped."""
    path = folder / SUMMARY_FILE
    lines = path.read_text().splitlines() if path.exists() else []
    return [Done(**found) for line in lines if (found := json.loads(line)).keys() == set(Done._fields)]


def inputs_by_entrance(done: Iterable[Done], code: str) -> dict[str, int]:
    """Return the number of inputs per entrance on a state of the sources.

    A repeated seed counts once, with its longest campaign: equal seeds give equal inputs.
    """
    longest: dict[tuple[str, int], int] = {}
    for one in done:
        if one.code == code:
            key = one.entrance, one.seed
            longest[key] = max(longest.get(key, 0), one.inputs)
    total: dict[str, int] = {}
    for (entrance, _), inputs in longest.items():
        total[entrance] = total.get(entrance, 0) + inputs
    return total


def added(parts: list[Done]) -> Done:
    """Add up the processes of one entrance; their seconds are added too."""
    seconds = sum(one.inputs / max(one.per_second, 1) for one in parts)
    inputs = sum(one.inputs for one in parts)
    return parts[0]._replace(
        runs=sum(one.runs for one in parts),
        inputs=inputs,
        per_second=round(inputs / max(seconds, 0.001)),
        slowest_ms=max(one.slowest_ms for one in parts),
        memory_mb=max(one.memory_mb for one in parts),
        found=sum(one.found for one in parts),
    )
