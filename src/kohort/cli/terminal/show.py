"""Print results: tables that fit the terminal and are whole in a pipe, prose, JSON."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from kohort.notes import printable

GAP: Final = 2
"""Blanks between columns."""
SHORTEST: Final = 9
"""Characters that are left of a name at the least."""
CUT: Final = "…"


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text. ``numeric`` columns are right-aligned and never cut."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    above: tuple[tuple[str, str], ...] = ()
    """Columns that have one value in all rows, said once: name and value."""

    def cells(self, column: int) -> list[str]:
        return [row[column] for row in self.rows]


def lines_of(table: Table, width: int | None = None) -> list[str]:
    """Return the lines of a table, at most ``width`` wide if possible; headings come first."""
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
    """Return the number of lines before the first row."""
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
    """Break a heading at a hyphen if it is wider than its column."""
    breaks = [at + 1 for at, character in enumerate(name) if character == "-"]
    if len(name) <= room or not breaks:
        return [name]
    at = min(breaks, key=lambda at: max(at, len(name) - at))
    return [name[:at], name[at:]]


def _say_once(table: Table) -> Table:
    """Lift text columns with one value in all rows above the table."""
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
    """Cut texts in the widest columns first, as little as possible."""
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


NOTHING: Final = "-"
NUMBERS: Final = (int, float)


def print_json(kind: str, content: dict[str, Any]) -> None:
    indent = 2 if sys.stdout.isatty() else None
    text = json.dumps({"schema": f"kohort/v1/{kind}", **content}, indent=indent, ensure_ascii=False)
    click.echo(escaped(text))


def escaped(text: str) -> str:
    """Escape characters in JSON that would move the cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, none: str = "nothing to show") -> None:
    """Print a table. On a terminal it fits the width, and ``none`` replaces zero rows; a pipe gets every value
    whole."""
    table = table_of(columns, rows)
    if not sys.stdout.isatty():
        for line in lines_of(table):
            click.echo(line)
    elif not rows:
        click.echo(none)
    else:
        lines = lines_of(table, terminal_width())
        for number, line in enumerate(lines):
            click.echo(click.style(line, bold=True) if number < headings(table, lines) else line)


def table_of(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    cells = tuple(tuple(cell(value) for value in row) for row in rows)
    return Table(tuple(columns), cells, tuple(is_numeric([row[i] for row in rows]) for i in range(len(columns))))


def print_prose(text: str, *, indent: str = "", first: str | None = None, err: bool = False) -> None:
    """Print sentences, on a terminal wrapped behind ``indent``, without control characters."""
    text = harmless(text)
    begin = indent if first is None else first
    if (sys.stderr if err else sys.stdout).isatty():
        text = textwrap.fill(
            text,
            terminal_width(),
            initial_indent=begin,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        click.echo(text, err=err)
    else:
        click.echo(begin + text, err=err)


def terminal_width() -> int:
    return shutil.get_terminal_size().columns


def is_numeric(column: Sequence[Any]) -> bool:
    present = [value for value in column if value is not None]
    return bool(present) and all(isinstance(value, NUMBERS) for value in present)


def harmless(text: str) -> str:
    """Escape control characters, colours and writing direction in each line."""
    return "\n".join(printable(line) for line in text.split("\n"))


def cell(value: Any) -> str:
    """Return a value as text without control characters."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, (list, tuple)):
        return ",".join(cell(v) for v in value) or NOTHING
    return printable(str(value))


def time_text(at_ms: int) -> str:
    """Return a time in UTC; the number if no calendar has it, since producers may send any."""
    try:
        at = dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
