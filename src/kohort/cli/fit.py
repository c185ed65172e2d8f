"""Make a table fit a width: headings take two lines, then a value of all rows is shown once, then names are cut, and
the headings of these broken, too. Of a single row that is still too wide, names are shown above it, one a line.

Words and numbers are never broken, so that they can be searched for. What is cut is shown as ``head…tail``, since ids
of members differ at both ends; ``--output json`` and a pipe have everything whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

GAP: Final = 2
"""Blanks between columns."""
SHORTEST: Final = 9
"""Characters that are left of a name at the least."""
CUT: Final = "…"


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text, row by row. ``numeric`` columns are set to the right and never cut."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    above: tuple[tuple[str, str], ...] = ()
    """Columns that have one value in all rows, said once: name and value."""

    def cells(self, column: int) -> list[str]:
        return [row[column] for row in self.rows]


def lines_of(table: Table, width: int | None = None) -> list[str]:
    """Return the lines of ``table``, at most ``width`` characters long where that can be had; the first are its
    headings."""
    whole, heads = table, [[name] for name in table.columns]
    if width is not None and _width(table, heads) > width:
        heads = [_broken(name, _widest(table.cells(i))) for i, name in enumerate(table.columns)]
        if _width(table, heads) > width and len(table.rows) > 1:
            table = _say_once(table)
            heads = [_broken(name, _widest(table.cells(i))) for i, name in enumerate(table.columns)]
        uncut, table = table, _cut(table, heads, width)
        if _width(table, heads) > width:
            heads = [_broken(name, 0) if not table.numeric[i] else heads[i] for i, name in enumerate(table.columns)]
            table = _cut(uncut, heads, width)
        if _width(table, heads) > width and len(table.rows) == 1:
            table = _say_once(whole)
            heads = [_broken(name, _widest(table.cells(i))) for i, name in enumerate(table.columns)]
    if not table.columns:
        return [f"{name} {value}" for name, value in table.above]
    widths = _widths(table, heads)
    tall = max(map(len, heads), default=0)
    head_rows = [[head[line] if line < len(head) else "" for head in heads] for line in range(tall)]
    said = [f"{name} {value}" for name, value in table.above]
    return [*said, *(_line(row, widths, table.numeric) for row in (*head_rows, *table.rows))]


def headings(table: Table, lines: Sequence[str]) -> int:
    """Return how many of ``lines`` come before the first row."""
    return len(lines) - len(table.rows)


def _line(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = [
        text.rjust(width) if right else text.ljust(width)
        for text, width, right in zip(row, widths, numeric, strict=True)
    ]
    return (" " * GAP).join(padded).rstrip()


def _widest(texts: Sequence[str]) -> int:
    return max(map(len, texts), default=0)


def _widths(table: Table, heads: Sequence[Sequence[str]]) -> list[int]:
    return [max(_widest(head), _widest(table.cells(i))) for i, head in enumerate(heads)]


def _width(table: Table, heads: Sequence[Sequence[str]]) -> int:
    return sum(_widths(table, heads)) + GAP * (len(heads) - 1)


def _broken(name: str, room: int) -> list[str]:
    """Return a heading in two lines, broken behind a hyphen, where it is wider than what stands below it."""
    breaks = [at + 1 for at, character in enumerate(name) if character == "-"]
    if len(name) <= room or not breaks:
        return [name]
    at = min(breaks, key=lambda at: max(at, len(name) - at))
    return [name[:at], name[at:]]


def _say_once(table: Table) -> Table:
    """Return the table without the columns of names that have one value in all rows."""
    once = [i for i, right in enumerate(table.numeric) if not right and len(set(table.cells(i))) == 1]
    kept = [i for i in range(len(table.columns)) if i not in once]
    if not kept and len(table.rows) > 1:
        return table
    return Table(
        tuple(table.columns[i] for i in kept),
        tuple(tuple(row[i] for i in kept) for row in table.rows),
        tuple(table.numeric[i] for i in kept),
        tuple((table.columns[i], table.rows[0][i]) for i in once),
    )


def _cut(table: Table, heads: Sequence[Sequence[str]], width: int) -> Table:
    """Cut names in the widest columns first, each as little as is needed."""
    rooms = _widths(table, heads)
    least = [max(SHORTEST, _widest(head)) for head in heads]
    over = sum(rooms) + GAP * (len(rooms) - 1) - width
    while over > 0:
        widest = [i for i, right in enumerate(table.numeric) if not right and rooms[i] > least[i]]
        if not widest:
            break
        column = max(widest, key=lambda i: rooms[i])
        rooms[column] -= 1
        over -= 1
    rows = tuple(
        tuple(
            text if right else _shortened(text, room)
            for text, room, right in zip(row, rooms, table.numeric, strict=True)
        )
        for row in table.rows
    )
    return replace(table, rows=rows)


def _shortened(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    tail = (room - len(CUT)) // 3
    return text[: room - len(CUT) - tail] + CUT + text[len(text) - tail :]
