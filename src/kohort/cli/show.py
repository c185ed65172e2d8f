"""How results are printed: tables that fit the terminal, whole in a pipe, JSON for programs."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, Final

import click

from kohort.cli.fit import Table, headings, lines_of
from kohort.notes import printable

NOTHING: Final = "-"
NUMBERS: Final = (int, float)


def print_json(kind: str, content: dict[str, Any]) -> None:
    """One JSON object that says what it is: indented for eyes, on one line for programs."""
    indent = 2 if sys.stdout.isatty() else None
    text = json.dumps({"schema": f"kohort/v1/{kind}", **content}, indent=indent, ensure_ascii=False)
    click.echo(escaped(text))


def escaped(text: str) -> str:
    """Return JSON with what would move the cursor written as JSON escapes it; the value is the same."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, none: str = "nothing to show") -> None:
    """Print a table. Numbers are set to the right; None is ``-``. On a terminal it fits the width, and where it has no
    rows ``none`` says so; in a pipe every value is whole."""
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
    """Return a table of values as text, harmless."""
    cells = tuple(tuple(cell(value) for value in row) for row in rows)
    return Table(tuple(columns), cells, tuple(is_numeric([row[i] for row in rows]) for i in range(len(columns))))


def print_prose(text: str, *, indent: str = "", first: str | None = None, err: bool = False) -> None:
    """Print sentences; on a terminal broken between words, the lines after the first behind ``indent``. What came
    from clients is shown without what would move the cursor."""
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
    """Return how many characters a line of the terminal has."""
    return shutil.get_terminal_size().columns


def is_numeric(column: Sequence[Any]) -> bool:
    """Tell whether there is nothing but numbers, and at least one."""
    present = [value for value in column if value is not None]
    return bool(present) and all(isinstance(value, NUMBERS) for value in present)


def harmless(text: str) -> str:
    """``text`` in its lines, without what would move the cursor, change colours or turn the direction of writing."""
    return "\n".join(printable(line) for line in text.split("\n"))


def cell(value: Any) -> str:
    """Return a value in a table. What came from clients is shown without what would move the cursor."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, (list, tuple)):
        return ",".join(cell(v) for v in value) or NOTHING
    return printable(str(value))


def time_text(at_ms: int) -> str:
    """Return a time in UTC, to the millisecond; as it came where no calendar has it: producers write what they like."""
    try:
        at = dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
