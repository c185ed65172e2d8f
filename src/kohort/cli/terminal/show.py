"""Print tables and sentences. They fit the width of a terminal; in a pipe nothing is shortened."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

import click

from kohort.notes import printable

GAP: Final = 2
SHORTEST: Final = 9
"""Minimum width in characters to which a table column can be shortened."""
CUT: Final = "…"


@dataclass(frozen=True, slots=True)
class Table:
    """A text table. Columns marked in ``numeric`` are right-aligned and never shortened."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    above: tuple[tuple[str, str], ...] = ()
    """Names and values of removed columns, printed above the table. A removed column has the same value in all rows."""

    def cells(self, column: int) -> list[str]:
        return [row[column] for row in self.rows]


def lines_of(table: Table, width: int | None = None) -> list[str]:
    """Return the lines of a table, headings first.

    Lines exceed ``width`` only if all columns already have their minimum width.
    """
    whole, heads = table, [[name] for name in table.columns]
    if width is not None and _width(table, heads) > width:
        heads = _broken_headings(table)
        if _width(table, heads) > width and len(table.rows) > 1:
            table = _lift_constant_columns(table)
            heads = _broken_headings(table)
        uncut, table = table, _cut(table, heads, width)
        if _width(table, heads) > width:
            heads = [heads[i] if table.numeric[i] else _broken(name, 0) for i, name in enumerate(table.columns)]
            table = _cut(uncut, heads, width)
        if _width(table, heads) > width and len(table.rows) == 1:
            table = _lift_constant_columns(whole)
            heads = _broken_headings(table)
    above = [f"{name} {value}" for name, value in table.above]
    if not table.columns:
        return above
    widths = _widths(table, heads)
    head_rows = [list(row) for row in zip_longest(*heads, fillvalue="")]
    return [*above, *(_line(row, widths, table.numeric) for row in (*head_rows, *table.rows))]


def _broken_headings(table: Table) -> list[list[str]]:
    return [_broken(name, _widest(table.cells(i))) for i, name in enumerate(table.columns)]


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
    """Split a column heading at a hyphen if the heading is longer than ``room`` characters."""
    breaks = [at + 1 for at, character in enumerate(name) if character == "-"]
    if len(name) <= room or not breaks:
        return [name]
    at = min(breaks, key=lambda at: max(at, len(name) - at))
    return [name[:at], name[at:]]


def _lift_constant_columns(table: Table) -> Table:
    """Remove each text column that has the same value in all rows. Its value is printed once, above the table."""
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
    """Shorten the texts of a table until it fits the width. The widest column is shortened first."""
    rooms = _widths(table, heads)
    least = [max(SHORTEST, _widest(head)) for head in heads]
    for _ in range(_width(table, heads) - width):
        widest = [i for i, right in enumerate(table.numeric) if not right and rooms[i] > least[i]]
        if not widest:
            break
        rooms[max(widest, key=lambda i: rooms[i])] -= 1
    limits = list(zip(rooms, table.numeric, strict=True))
    rows = tuple(
        tuple(text if right else shortened(text, room) for text, (room, right) in zip(row, limits, strict=True))
        for row in table.rows
    )
    return replace(table, rows=rows)


def shortened(text: str, room: int) -> str:
    """Replace the middle of a text by ``…`` if the text is longer than ``room`` characters."""
    if len(text) <= room:
        return text
    if room < 3:
        return text[:room]
    tail = (room - len(CUT)) // 3
    return text[: room - len(CUT) - tail] + CUT + text[len(text) - tail :]


NOTHING: Final = "-"


def escaped(text: str) -> str:
    """Escape unprintable characters of a JSON text, because they could control the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, none: str = "nothing to show") -> None:
    """Print a table, shortened to the width of a terminal but not in a pipe.

    ``none`` is the text for an empty table.
    """
    table = table_of(columns, rows)
    if not sys.stdout.isatty():
        for line in lines_of(table):
            click.echo(line)
    elif not rows:
        click.echo(none)
    else:
        lines = lines_of(table, terminal_width())
        for number, line in enumerate(lines):
            click.echo(click.style(line, bold=True) if number < len(lines) - len(table.rows) else line)


def table_of(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    cells = tuple(tuple(cell(value) for value in row) for row in rows)
    return Table(tuple(columns), cells, tuple(is_numeric([row[i] for row in rows]) for i in range(len(columns))))


def print_prose(text: str, *, indent: str = "", first: str | None = None, err: bool = False) -> None:
    """Print prose with control characters escaped. On a terminal, wrap and indent the lines."""
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
    return bool(present) and all(isinstance(value, (int, float)) for value in present)


def harmless(text: str) -> str:
    """Escape the characters of a text that control the terminal: colours, and changes of the writing direction."""
    return "\n".join(printable(line) for line in text.split("\n"))


def cell(value: Any) -> str:
    """Return a value as text of a table cell, with control characters escaped."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, (list, tuple)):
        return ",".join(cell(v) for v in value) or NOTHING
    return printable(str(value))


def time_text(at_ms: int) -> str:
    """Return a timestamp as UTC text, or as a number if it is outside the years of the calendar."""
    try:
        at = dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
