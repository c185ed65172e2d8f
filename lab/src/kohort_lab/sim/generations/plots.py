"""Plot of the costs of each generation: one panel per change and measure, over the group size.

Drawn by matplotlib; equal rows give equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import Any, Final

from kohort_lab.sim.generations.comparison import CostRow

MEASURES: Final = {
    "requests": "requests",
    "notifications": "notifications",
    "unowned_s": "without an owner\n(partition-seconds)",
    "moved": "partitions moved",
    "split_s": "two who can commit\n(partition-seconds)",
    "zombie_s": "two, one can commit\n(partition-seconds)",
    "reread": "records read twice",
}
"""Axis label of each measure."""
COLOURS: Final = {"zookeeper": "#b3261e", "eager": "#e69f00", "cooperative": "#0072b2", "consumer": "#009e73"}
MARKS: Final = {"zookeeper": "o", "eager": "s", "cooperative": "^", "consumer": "D"}
PANEL_INCHES: Final = (2.5, 1.9)
ROOM_ABOVE: Final = 1.6
"""Factor from the highest point to the top of the logarithmic axis."""


def draw(rows: Sequence[CostRow], changes: Sequence[str], measures: Sequence[str], source: str = "") -> str:
    """Draw the figure as SVG: one column per change, one row per measure.

    ``source``: origin in the file's metadata.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style = {"svg.fonttype": "none", "svg.hashsalt": "kohort", "font.size": 8, "font.family": "sans-serif"}
    with mpl.rc_context(style):
        wide, high = PANEL_INCHES
        figure = Figure(figsize=(wide * len(changes), high * len(measures) + 0.6), layout="constrained")
        panels = figure.subplots(len(measures), len(changes), squeeze=False, sharex=True, sharey="row")
        shown = [row for row in rows if row.change in changes]
        for line, measure in zip(panels, measures, strict=True):
            for panel, change in zip(line, changes, strict=True):
                _panel(panel, [row for row in rows if row.change == change], measure)
            line[0].set_ylabel(MEASURES[measure])
            line[0].set_ylim(0, ROOM_ABOVE * max(1.0, *(getattr(row, measure) for row in shown)))
        for panel, change in zip(panels[0], changes, strict=True):
            panel.set_title(change)
        sizes = sorted({row.members for row in shown})
        panels[0][0].set_xticks(sizes, [str(size) for size in sizes], minor=False)
        panels[0][0].minorticks_off()
        for panel in panels[-1]:
            panel.set_xlabel("members")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=max(1, len(labels)), frameon=False)
        written = StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Source": source or None})
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def _panel(panel: Any, rows: Sequence[CostRow], measure: str) -> None:
    for generation in dict.fromkeys(row.generation for row in rows):
        points = sorted((row.members, getattr(row, measure)) for row in rows if row.generation == generation)
        panel.plot(
            *zip(*points, strict=True),
            label=generation,
            color=COLOURS.get(generation),
            marker=MARKS.get(generation, "o"),
            markersize=3.5,
            linewidth=1.2,
        )
    panel.set_xscale("log")
    panel.set_yscale("symlog", linthresh=1)
    panel.grid(visible=True, color="#e3e6ea", linewidth=0.6)
    panel.set_axisbelow(True)
