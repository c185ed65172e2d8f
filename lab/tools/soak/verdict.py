"""Check that series of samples are flat: a robust slope over the second half, against a bound. No I/O."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MIB: Final = 1 << 20
MOST_POINTS: Final = 400
"""Longer series are thinned: the number of pairs is quadratic."""


@dataclass(frozen=True)
class Bound:
    """Allowed growth of a series in the second half of a run: a share of its median, plus a constant."""

    share: float
    beside: float
    unit: str = ""

    def of(self, median: float) -> float:
        return self.share * median + self.beside


BOUNDS: Final = {
    "rss": Bound(0.05, 4 * MIB, "MB"),
    "handles": Bound(0.1, 5),
    "threads": Bound(0.0, 3),
    "disk": Bound(0.10, 4 * MIB, "MB"),
    "loop_lag_ms": Bound(1.0, 20, "ms"),
    "heap": Bound(0.1, 1 * MIB, "MB"),
    "nodes": Bound(0.1, 200),
    "listeners": Bound(0.1, 20),
}
SPARK: Final = {"rss": Bound(0.15, 64 * MIB, "MB"), "handles": Bound(0.0, 40), "threads": Bound(0.0, 40)}
"""Bounds of Spark and its Java, which returns memory irregularly."""
BROWSER: Final = {"rss": Bound(0.15, 64 * MIB, "MB")}
"""Bounds of all browser processes together."""
OF_OTHERS: Final = {"spark": SPARK, "browser": BROWSER}


@dataclass(frozen=True)
class Line:
    """Verdict on one series."""

    series: str
    median: float
    grew: float
    """Growth in the second half, by the median slope between any two samples."""
    bound: float
    highest: float
    unit: str = ""

    @property
    def is_flat(self) -> bool:
        return self.grew <= self.bound


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the median slope between any two points (Theil-Sen): robust against outliers and drops.

    Points are (seconds, value); returns value per second, 0.0 for less than two points.
    """
    step = max(1, len(points) // MOST_POINTS)
    few = points[::step]
    slopes = [(v2 - v1) / (t2 - t1) for i, (t1, v1) in enumerate(few) for t2, v2 in few[i + 1 :] if t2 > t1]
    return statistics.median(slopes) if slopes else 0.0


def judge(samples: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Judge every series of a run: samples are ``{"at_s": 12.0, "values": {"broker rss": 1234, …}}``.

    The name of a series is process and quantity; the quantity is a key of BOUNDS. A series can start late.
    """
    if not samples:
        return []
    middle_s = (samples[0]["at_s"] + samples[-1]["at_s"]) / 2
    series: dict[str, list[tuple[float, float]]] = {}
    for one in samples:
        for name, value in one["values"].items():
            if one["at_s"] >= middle_s:
                series.setdefault(name, []).append((one["at_s"], value))
    lines = []
    for name, points in sorted(series.items()):
        who, _, what = name.rpartition(" ")
        bound = OF_OTHERS.get(who, BOUNDS).get(what)
        if bound is None:
            continue
        median = statistics.median(value for _, value in points)
        grew = slope(points) * (points[-1][0] - points[0][0])
        highest = max(value for _, value in points)
        lines.append(Line(name, median, grew, bound.of(median), highest, bound.unit))
    return lines


def table(lines: Sequence[Line]) -> str:
    """Return the verdict as text, one line per series."""
    head = ("series", "median", "highest", "grew", "bound", "verdict")
    rows = [head, *(_row(line) for line in lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return "\n".join(
        "  ".join(c.ljust(w) if i in (0, 5) else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )


def _row(line: Line) -> tuple[str, ...]:
    size = MIB if line.unit == "MB" else 1
    digits = 1 if line.unit else 0
    shown = [f"{value / size:.{digits}f}" for value in (line.median, line.highest, line.grew, line.bound)]
    return (f"{line.series}{f' ({line.unit})' if line.unit else ''}", *shown, "flat" if line.is_flat else "GROWS")
