"""``--output``: print a result as a table, as JSON, as lines of JSON (ndjson), or print its JSON schema.

A command declares its result as a subclass of ``Result``, whose struct tag is the name of the schema. ``ndjson`` has
one line for each entry of the list field that ``LINES`` names. ``docs/schemas`` has the schemas of all commands.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click
import msgspec

from kohort.cli.terminal.show import escaped, harmless, print_table
from kohort.errors import KohortError
from kohort.notes import printable
from kohort.results.result import Result, lines_of_result, schema_of

F = TypeVar("F", bound=Callable[..., Any])
FORMATS: Final = ("table", "json", "ndjson", "schema")


class OutputOption(click.Option):
    def __init__(self, *names: Any, result: type[Result], **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.result = result


def output_of(result: type[Result]) -> Callable[[F], F]:
    """Add the option ``--output`` to a command that prints results of the class ``result``."""

    def print_schema(ctx: click.Context, _param: click.Parameter, value: str) -> str:
        if value == "schema" and not ctx.resilient_parsing:
            click.echo(json.dumps(schema_of(result), indent=2))
            ctx.exit()
        return value

    return click.option(
        "--output",
        cls=OutputOption,
        result=result,
        type=click.Choice(FORMATS),
        default="table",
        envvar="KOHORT_OUTPUT",
        is_eager=True,  # click handles --output first: ``--output schema`` needs no other argument
        callback=print_schema,
        help="Output format; schema prints the JSON schema.",
    )


def print_result(result: Result, output: str) -> None:
    """Print a result as JSON (indented on a terminal) or as lines of JSON (``ndjson``)."""
    if output == "ndjson":
        print_lines(lines_of_result(result))
    else:
        indent = 2 if sys.stdout.isatty() else None
        click.echo(escaped(json.dumps(msgspec.to_builtins(result), indent=indent, ensure_ascii=False)))


def report(output: str, result: Result, columns: Mapping[str, str], *, none: str = "nothing to show") -> None:
    """Print a result as JSON or as a table. ``columns`` maps each column heading to the name of a result field."""
    rows = [[getattr(row, field) for field in columns.values()] for row in getattr(result, result.LINES)]
    report_rows(output, result, tuple(columns), rows, none=none)


def report_rows(
    output: str, result: Result, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, none: str = "nothing to show"
) -> None:
    """Print a result as JSON, or ``rows`` as a table. ``none`` is the text for an empty table."""
    if output != "table":
        print_result(result, output)
    else:
        print_table(columns, rows, none=none)


def report_lines(output: str, result: Result, lines: Iterable[str]) -> None:
    """Print a result as JSON, or ``lines`` as text if the output is ``table``."""
    if output != "table":
        print_result(result, output)
        return
    for line in lines:
        click.echo(printable(line))


def raise_last(errors: Sequence[KohortError], command: str) -> None:
    """Raise the last error of a command for several groups or topics. Print all other errors on stderr."""
    for error in errors[:-1]:
        click.echo(harmless(f"{command}: {error}"), err=True)
    if errors:
        raise errors[-1]


def print_lines(lines: Iterable[dict[str, Any]]) -> None:
    for line in lines:
        click.echo(escaped(json.dumps(line, ensure_ascii=False)))
