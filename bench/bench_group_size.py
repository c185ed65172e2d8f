"""Cost of a member in the coordinator, from its first JoinGroup to a stable group, in groups of 100 to 5,000.

    python bench/bench_group_size.py [--rounds 5] [--svg FILE] [--json]

One partition per member. Microseconds of CPU per member, the best of some rounds for each hundred members of each
phase; ``all_s`` is the CPU time of the whole group in seconds. ``--svg`` draws the cost per member by group size.
"""

from __future__ import annotations

import argparse
import gc
import json
from pathlib import Path

from bench_coordinator import Bench, form_group

SIZES = (100, 250, 500, 1000, 2000, 5000)
PHASES = ("member_ids", "join", "close_round", "sync")
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#333333")


def measure(size: int, rounds: int) -> dict[str, float]:
    found = []
    for _ in range(rounds):
        gc.collect()
        found.append(form_group(Bench(size), size)[0])
    row = {}
    for phase in PHASES:
        laps = zip(*(times[phase] for times in found), strict=True)
        row[phase] = sum(min(lap) for lap in laps) / size * 1e6
    row["all"] = sum(row.values())
    row["all_s"] = row["all"] * size / 1e6
    return row


def svg(table: dict[int, dict[str, float]]) -> str:
    """Draw a self-contained SVG: group size on the x axis, microseconds per member on the y axis."""
    width, height, left, bottom = 640, 360, 60, 40
    highest = max(row["all"] for row in table.values()) * 1.15
    widest = max(table)

    def x(size: int) -> float:
        return left + (width - left - 110) * size / widest

    def y(cost: float) -> float:
        return height - bottom - (height - bottom - 20) * cost / highest

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="Arial" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="14">µs of coordinator CPU per member, by members in the group</text>',
    ]
    for share in range(5):
        cost = highest * share / 4
        lines.append(f'<path d="M{left} {y(cost):.1f}H{x(widest):.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{left - 6}" y="{y(cost) + 4:.1f}" text-anchor="end">{cost:.0f}</text>')
    lines += [
        f'<text x="{x(size):.1f}" y="{height - 20}" text-anchor="middle">{size}</text>'
        for size in table
        if size >= 500 or size == min(table)
    ]
    for phase, colour in zip((*PHASES, "all"), COLOURS, strict=True):
        points = " ".join(f"{x(size):.1f},{y(row[phase]):.1f}" for size, row in table.items())
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(
            f'<text x="{x(widest) + 6:.1f}" y="{y(table[widest][phase]) + 4:.1f}" fill="{colour}">{phase}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--svg", type=Path, help="SVG file for the diagram")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table = {size: measure(size, options.rounds) for size in SIZES}
    if options.svg:
        options.svg.write_text(svg(table), encoding="utf-8")
    if options.json:
        print(
            json.dumps(
                {"cpu_us_per_member": {str(s): {k: round(v, 3) for k, v in r.items()} for s, r in table.items()}}
            )
        )
        return
    names = (*PHASES, "all", "all_s")
    print(f"{'members':>8}  " + "  ".join(f"{name:>11}" for name in names))
    for size, row in table.items():
        print(
            f"{size:>8}  "
            + "  ".join(f"{row[name]:>11.3f}" if name == "all_s" else f"{row[name]:>11.1f}" for name in names)
        )


if __name__ == "__main__":
    main()
