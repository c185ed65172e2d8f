"""How results are printed: tables for people (rich, on a terminal), aligned text otherwise, JSON for programs."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

NOTHING: Final = "-"
NUMBERS: Final = (int, float)


def print_json(kind: str, content: dict[str, Any]) -> None:
    """One JSON object that says what it is: indented for eyes, on one line for programs."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps({"schema": f"kohort/v1/{kind}", **content}, indent=indent, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table. Numbers are set to the right; None is ``-``."""
    cells = [[cell(value) for value in row] for row in rows]
    numeric = [is_numeric([row[i] for row in rows]) for i in range(len(columns))]
    if sys.stdout.isatty():
        _print_rich(columns, cells, numeric)
    else:
        for line in plain_lines(columns, cells, numeric):
            click.echo(line)


def is_numeric(column: Sequence[Any]) -> bool:
    """Whether there is nothing but numbers, and at least one."""
    present = [value for value in column if value is not None]
    return bool(present) and all(isinstance(value, NUMBERS) for value in present)


def plain_lines(columns: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]) -> list[str]:
    """The table as lines with two spaces between columns."""
    widths = [max(len(name), *(len(row[i]) for row in cells)) if cells else len(name) for i, name in enumerate(columns)]
    lines = []
    for row in (columns, *cells):
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def _print_rich(columns: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(text) for text in row))
    Console().print(table)


def cell(value: Any) -> str:
    """A value in a table. What came from clients is shown without what would move the cursor."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, (list, tuple)):
        return ",".join(cell(v) for v in value) or NOTHING
    return "".join(c if c.isprintable() else "?" for c in str(value))


def time_text(at_ms: int) -> str:
    """A time in UTC, to the millisecond."""
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
