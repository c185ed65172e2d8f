"""Draw the packages, the rooms in them and who imports whom: docs/rooms.svg and docs/rooms.md.

    python tools/rooms.py            writes both
    python tools/rooms.py --check    fails where they are not what the imports say, or where an arrow points upward

Layers are those of ``.importlinter``; within a package a room stands above the rooms that it imports. Arrows that
follow from others are left out of the picture (if a needs b and b needs c, a may need c too) but are in the tables.
"""

from __future__ import annotations

import argparse
import configparser
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
PACKAGE: Final = "kohort"
LAYERS: Final = "importlinter:contract:layers"
TOP: Final = "(top)"
"""Files of a package outside of its rooms."""
ROOM: Final = (118, 22)
GAP: Final = 10
MARGIN: Final = 14
PLACES: Final = 5
"""Rooms side by side in one row; more continue in the next row."""

Arrows = dict[str, set[str]]
"""Imported names by importing name."""


@dataclass
class Package:
    """One package, or one file at the top: its rooms by level, the lowest last."""

    name: str
    rooms: set[str] = field(default_factory=set)
    arrows: Arrows = field(default_factory=dict)

    @property
    def floors(self) -> list[list[str]]:
        height = levels(self.rooms, self.arrows)
        floors: list[list[str]] = []
        for level in sorted(set(height.values()), reverse=True):
            here = sorted(room for room in self.rooms if height[room] == level)
            floors += [here[i : i + PLACES] for i in range(0, len(here), PLACES)]
        return floors

    @property
    def size(self) -> tuple[int, int]:
        floors = self.floors
        wide = max([1, *map(len, floors)])
        return wide * (ROOM[0] + GAP) + GAP, 30 + len(floors) * (ROOM[1] + GAP) + (4 if floors else 0)


def levels(names: Iterable[str], arrows: Arrows) -> dict[str, int]:
    """Return the level of each name above its imports: 0 without imports. Raises SystemExit for a cycle."""
    height: dict[str, int] = {}

    def of(name: str, above: tuple[str, ...]) -> int:
        if name in above:
            raise SystemExit(f"import cycle: {' -> '.join([*above[above.index(name) :], name])}")
        if name not in height:
            height[name] = 1 + max((of(other, (*above, name)) for other in arrows.get(name, ())), default=-1)
        return height[name]

    for name in names:
        of(name, ())
    return height


def needed(arrows: Arrows) -> list[tuple[str, str]]:
    """Return the arrows that do not follow from other arrows."""

    def reach(start: str, reached: set[str]) -> set[str]:
        for other in arrows.get(start, ()):
            if other not in reached:
                reached.add(other)
                reach(other, reached)
        return reached

    return [
        (a, b) for a, heads in sorted(arrows.items()) for b in sorted(heads)
        if not any(b in reach(c, set()) for c in heads if c != b)
    ]  # fmt: skip


def layers() -> list[list[str]]:
    """Packages by layer, the highest first."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    lines = parser[LAYERS]["layers"].split("\n")
    return [[name.strip().removeprefix(f"{PACKAGE}.") for name in line.split("|")] for line in lines if line.strip()]


def packages() -> tuple[dict[str, Package], Arrows]:
    """Every package with its rooms, and the arrows between packages."""
    graph = grimp.build_graph(PACKAGE)
    found: dict[str, Package] = {}
    between: Arrows = {}
    modules = sorted(m for m in graph.modules if m.count("."))
    folders = {m for m in modules if graph.find_children(m)}

    def place(module: str) -> tuple[str, str]:
        parts = module.split(".")[1:]
        package = parts[0]
        inside = len(parts) > 2 or (len(parts) == 2 and module in folders)
        return package, parts[1] if inside else TOP

    for module in modules:
        package, room = place(module)
        here = found.setdefault(package, Package(package))
        if module not in folders and room != TOP:
            here.rooms.add(room)
    for module in modules:
        package, room = place(module)
        for other in graph.find_modules_directly_imported_by(module):
            if other.count(".") == 0:
                continue
            to, its = place(other)
            if to != package:
                between.setdefault(package, set()).add(to)
            elif its != room and room != TOP and its != TOP:
                found[package].arrows.setdefault(room, set()).add(its)
    return found, between


def upward(rows: list[list[str]], between: Arrows) -> list[str]:
    """Return the arrows that do not point down, as text."""
    row_of = {name: at for at, row in enumerate(rows) for name in row}
    return [
        f"{a} -> {b}" for a, heads in sorted(between.items()) for b in sorted(heads)
        if a in row_of and b in row_of and row_of[a] >= row_of[b]
    ]  # fmt: skip


def picture(rows: list[list[str]], found: Mapping[str, Package], between: Arrows) -> str:
    """Draw the SVG: a row for each layer, a box for each package with its rooms."""
    shown = [[found[name] for name in row if name in found] for row in rows]
    shown = [row for row in shown if row]
    width = max(sum(p.size[0] + 2 * GAP for p in row) for row in shown) + 2 * MARGIN
    boxes: list[str] = []
    at: dict[str, tuple[float, float, float]] = {}
    y = MARGIN
    for row in shown:
        x = (width - sum(p.size[0] + 2 * GAP for p in row)) / 2 + GAP
        for package in row:
            wide, high = package.size
            at[package.name] = (x + wide / 2, y, y + high)
            boxes.append(box(package, x, y))
            x += wide + 2 * GAP
        y += max(p.size[1] for p in row) + 4 * GAP
    lines = [arrow(at[a], at[b]) for a, b in needed(between) if a in at and b in at]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {y}" font-family="sans-serif">',
            "<title>The rooms of kohort: an arrow points from who imports to who is imported</title>",
            f'<rect width="{width:.0f}" height="{y}" fill="#fff"/>',
            '<defs><marker id="head" markerWidth="7" markerHeight="6" refX="6" refY="3" orient="auto">'
            '<path d="M0,0 L7,3 L0,6 z" fill="#678"/></marker></defs>',
            *lines,
            *boxes,
            "</svg>",
            "",
        ]
    )


def box(package: Package, x: float, y: float) -> str:
    """One package with its rooms."""
    wide, high = package.size
    parts = [
        f'<rect x="{x:.0f}" y="{y}" width="{wide}" height="{high}" rx="5" fill="#eef3f8" stroke="#456"/>',
        f'<text x="{x + wide / 2:.0f}" y="{y + 20}" font-size="14" font-weight="bold" text-anchor="middle">'
        f"{escape(package.name)}</text>",
    ]
    for level, floor in enumerate(package.floors):
        top = y + 30 + level * (ROOM[1] + GAP)
        left = x + (wide - len(floor) * (ROOM[0] + GAP) + GAP) / 2
        for place, room in enumerate(floor):
            corner = left + place * (ROOM[0] + GAP)
            parts.append(
                f'<rect x="{corner:.0f}" y="{top}" width="{ROOM[0]}" height="{ROOM[1]}" rx="3" '
                'fill="#fff" stroke="#9ab"/>'
                f'<text x="{corner + ROOM[0] / 2:.0f}" y="{top + 15}" font-size="11" text-anchor="middle">'
                f"{escape(room)}</text>"
            )
    return "\n".join(parts)


def arrow(a: tuple[float, float, float], b: tuple[float, float, float]) -> str:
    """Return a line from the lower edge of one box to the upper edge of another."""
    (x1, _, y1), (x2, y2, _) = a, b
    bend = (y2 - y1) / 2
    path = f"M{x1:.0f},{y1} C{x1:.0f},{y1 + bend:.0f} {x2:.0f},{y2 - bend:.0f} {x2:.0f},{y2}"
    return f'<path d="{path}" fill="none" stroke="#678" marker-end="url(#head)"/>'


def page(found: Mapping[str, Package], between: Arrows) -> str:
    """Return the same as text: imports by package and by room."""
    parts = [
        "# Rooms",
        "",
        "Made by `python tools/rooms.py` from the imports. There is no circle, and no arrow points upward: the command",
        "fails otherwise, as does `make lint`. What a package is for: [ARCHITECTURE.md](../ARCHITECTURE.md#layers).",
        "",
        "![The packages of kohort and their rooms](rooms.svg)",
        "",
        "| package | imports |",
        "|---|---|",
    ]
    parts += [f"| `{name}` | {heads(between.get(name, set()))} |" for name in sorted(found)]
    for package in sorted(found.values(), key=lambda p: p.name):
        if package.rooms:
            parts += ["", f"## {package.name}", "", "| room | imports |", "|---|---|"]
            parts += [
                f"| `{room}` | {heads(package.arrows.get(room, set()))} |" for floor in package.floors for room in floor
            ]
    return "\n".join(parts) + "\n"


def heads(names: Iterable[str]) -> str:
    """Return the imported names as text."""
    return ", ".join(f"`{name}`" for name in sorted(names)) or "-"


def main() -> int:
    """Write the drawing, or check it; return 1 on an error."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--check", action="store_true", help="only check the drawing; exit code 1 if out of date")
    arguments = options.parse_args()
    rows = layers()
    found, between = packages()
    levels(found, between)
    wrong = [f"an arrow upward: {one}" for one in upward(rows, between)]
    for path, text in {
        DOCS / "rooms.svg": picture(rows, found, between),
        DOCS / "rooms.md": page(found, between),
    }.items():
        if not arguments.check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(f"docs/{path.name} is not what the imports say: run make docs")
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
