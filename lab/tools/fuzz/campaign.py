"""One campaign on one entrance: inputs from a seed within a limit; findings are minimized and kept."""

from __future__ import annotations

import gc
import json
import logging
import mmap
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from fuzz.entrance import Entrance, Watch
from fuzz.measure import Finding, InputRunner

COUNTS_FILE = ".{}-{}.json"
LAST_FILE = ".{}-{}.last"
LAST_BYTES = 1 << 22
CUT_TRIES = 300
WARM_UP = 20
EVERY = 10
"""Number of runs between two checks of the clock."""


class Bounds(NamedTuple):
    """Time limit, number of inputs, and seed."""

    minutes: float | None
    inputs: int | None
    seed: int


def campaign(entrance: Entrance, bounds: Bounds, out: Path) -> None:
    """Fuzz one entrance, and write the summary to ``out`` for the parent process."""
    logging.disable(logging.CRITICAL)  # log lines about damaged files would hide the results
    judge, found, runs = InputRunner(entrance), dict[str, Path](), 0
    warm_up(entrance, bounds.seed)  # costs of first use do not count for an input
    gc.collect()
    gc.freeze()  # exclude modules and templates from garbage collection
    judge.begin()
    began, processor = time.monotonic(), time.process_time()
    with LastInput(out / LAST_FILE.format(entrance.name, bounds.seed)) as last:
        while not is_through(bounds, judge.inputs, time.monotonic() - began):
            for _ in range(EVERY):
                data = input_of(entrance, bounds.seed, runs)
                last.keep(data)
                runs += 1
                finding = judge.run(data)
                if finding is not None and finding.where not in found:
                    found[finding.where] = keep(entrance, data, finding, out)
                    if finding.kind == "memory":
                        judge.begin()
    seconds = time.process_time() - processor
    row = {
        "runs": runs,
        "inputs": judge.inputs,
        "per_second": round(
            judge.inputs / max(seconds, 0.001)
        ),  # per second of processor time, because of other processes
        "slowest_ms": round(judge.slowest_ms, 1),
        "memory_mb": round(judge.growth_mb, 1),
        "found": len(found),
    }
    (out / COUNTS_FILE.format(entrance.name, bounds.seed)).write_text(json.dumps(row))


def warm_up(entrance: Entrance, seed: int) -> None:
    """Run a few uncounted inputs: costs of first use do not count for an input."""
    for number in range(WARM_UP):
        with suppress(Exception):
            entrance.run(input_of(entrance, seed, -1 - number), Watch())


def input_of(entrance: Entrance, seed: int, number: int) -> bytes:
    """Return the input of a number."""
    return entrance.generate(random.Random(f"{entrance.name} {seed} {number}"))


def is_through(bounds: Bounds, inputs: int, seconds: float) -> bool:
    enough = bounds.inputs is not None and inputs >= bounds.inputs
    return enough or (bounds.minutes is not None and seconds >= 60 * bounds.minutes)


def keep(entrance: Entrance, data: bytes, finding: Finding, out: Path) -> Path:
    """Write a minimized finding; print the command to replay it."""
    small = data if finding.kind == "memory" else cut(entrance, data, finding.where)
    place = "".join(letter if letter.isalnum() else "-" for letter in finding.where)[:80]
    path = out / f"{entrance.name}-{place}.bin"
    path.write_bytes(small)
    print(
        f"{entrance.name}: {finding.kind}: {finding.what.strip()}\n"
        f"  {len(small)} bytes: python lab/tools/fuzz/run.py --replay {path}"
    )
    sys.stdout.flush()
    return path


def cut(entrance: Entrance, data: bytes, where: str) -> bytes:
    """Minimize an input with the same finding: first by its pieces, then by bytes."""
    tries = CUT_TRIES

    def still(candidate: bytes) -> bool:
        nonlocal tries
        tries -= 1
        found = InputRunner(entrance).run(candidate)
        return found is not None and found.where == where

    pieces = entrance.pieces(data)
    if pieces is not None:
        pieces = _fewer(pieces, lambda some: still(entrance.whole(some)), lambda: tries > 0)
        return entrance.whole(pieces) if still(entrance.whole(pieces)) else data
    letters = _fewer([data[i : i + 1] for i in range(len(data))], lambda some: still(b"".join(some)), lambda: tries > 0)
    return b"".join(letters)


def _fewer(parts: list[bytes], still: Callable[[list[bytes]], bool], may_go_on: Callable[[], bool]) -> list[bytes]:
    """Return a minimal subset of parts with the same result: leave out halves, quarters, and so on."""
    size = len(parts) // 2
    while size and may_go_on():
        at = 0
        while at < len(parts) and may_go_on():
            some = parts[:at] + parts[at + size :]
            if some and still(some):
                parts = some
            else:
                at += size
        size //= 2
    return parts


class LastInput:
    """The current input, in a file that survives the process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> LastInput:
        with self._path.open("w+b") as file:
            file.truncate(LAST_BYTES)
            self._map = mmap.mmap(file.fileno(), LAST_BYTES)
        return self

    def keep(self, data: bytes) -> None:
        """Store an input without a system call."""
        kept = data[: LAST_BYTES - 4]
        self._map[: 4 + len(kept)] = len(kept).to_bytes(4, "big") + kept

    def __exit__(self, *_: object) -> None:
        self._map.close()


def input_of_file(path: Path) -> bytes:
    """Return the stored input of ``LastInput``."""
    data = path.read_bytes()
    return data[4 : 4 + int.from_bytes(data[:4], "big")]
