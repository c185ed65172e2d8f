"""``--output``: one result as a table, as JSON, as lines of JSON; and the JSON schema of it.

A command declares its result as a ``Result``: a struct whose tag names the schema. From it follow the JSON, the lines
of ``ndjson`` (one for each entry of the list that ``LINES`` names) and what ``--output schema`` prints, which
``docs/schemas`` holds for every command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import click
import msgspec

from kohort.cli.terminal.show import escaped, print_table
from kohort.notes import printable
from kohort.results.result import Result, lines_of_result, schema_of

F = TypeVar("F", bound=Callable[..., Any])
FORMATS: Final = ("table", "json", "ndjson", "schema")


class OutputOption(click.Option):
    """The option ``--output`` with the result of its command."""

    result: type[Result]


def output_of(result: type[Result]) -> Callable[[F], F]:
    """Give a command the option ``--output``, with the schema of its result."""

    def schema_wanted(ctx: click.Context, _param: click.Parameter, value: str) -> str:
        if value == "schema" and not ctx.resilient_parsing:
            click.echo(json.dumps(schema_of(result), indent=2))
            ctx.exit()
        return value

    def decorate(command: F) -> F:
        option = click.option(
            "--output",
            cls=OutputOption,
            type=click.Choice(FORMATS),
            default="table",
            envvar="KOHORT_OUTPUT",
            is_eager=True,  # so that nothing else need be right for the schema
            callback=schema_wanted,
            help="Tables for people, JSON for programs; or the JSON's schema.",
        )
        with_option = option(command)
        params: list[click.Option] = getattr(with_option, "__click_params__", None) or getattr(with_option, "params")  # noqa: B009
        made = next(p for p in params if isinstance(p, OutputOption))
        made.result = result
        return with_option

    return decorate


def print_result(result: Result, output: str) -> None:
    """Print a result as JSON, indented on a terminal, or as ``ndjson``."""
    if output == "ndjson":
        print_lines(lines_of_result(result))
    else:
        indent = 2 if sys.stdout.isatty() else None
        click.echo(escaped(json.dumps(msgspec.to_builtins(result), indent=indent, ensure_ascii=False)))


def report(output: str, result: Result, columns: Mapping[str, str], *, none: str = "nothing to show") -> None:
    """Print a result as JSON, or its rows as a table: headings, each with the field below it."""
    if output != "table":
        print_result(result, output)
        return
    rows = [[getattr(row, field) for field in columns.values()] for row in getattr(result, result.LINES)]
    print_table(tuple(columns), rows, none=none)


def report_lines(output: str, result: Result, lines: Iterable[str]) -> None:
    """Print a result as JSON, or these lines."""
    if output != "table":
        print_result(result, output)
        return
    for line in lines:
        click.echo(printable(line))


def print_lines(lines: Iterable[dict[str, Any]]) -> None:
    for line in lines:
        click.echo(escaped(json.dumps(line, ensure_ascii=False)))
