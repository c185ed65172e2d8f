"""``--output``: one result as a table, as JSON, as lines of JSON; and the JSON schema of it.

A command declares its result as a ``Result``: a struct whose tag names the schema. From it follow the JSON, the lines
of ``ndjson`` (one for each entry of the list that ``LINES`` names) and what ``--output schema`` prints, which
``docs/schemas`` holds for every command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Final, TypeVar, get_args, get_origin, get_type_hints

import click
import msgspec

from kohort.cli.show import escaped

F = TypeVar("F", bound=Callable[..., Any])
FORMATS: Final = ("table", "json", "ndjson", "schema")
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class Result(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema"):
    """What a command found or did. A field may be added, with a default; none may be renamed."""

    LINES: ClassVar[str] = ""
    """The field whose entries are the lines of ``ndjson``; without one all is one line."""
    ON_LINES: ClassVar[tuple[str, ...]] = ()
    """Fields that stand on every line, since a line should be understood by itself."""
    SEVERAL: ClassVar[type[Result] | None] = None
    """What is printed instead where the command was asked for several; its first field is the list of these."""


class SeveralResults(Result, frozen=True, kw_only=True):
    """Results of one kind, each whole; the lines of ``ndjson`` are those of each."""

    def each(self) -> Iterable[Result]:
        """Return them."""
        raise NotImplementedError


class OutputOption(click.Option):
    """The option ``--output``, which knows the result of its command."""

    result: type[Result]


def output_of(result: type[Result]) -> Callable[[F], F]:
    """Give a command the option ``--output``, and with it the schema of what it prints."""

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
    """Print a result as JSON: one object, indented for eyes; or, as ``ndjson``, an object a line."""
    if output == "ndjson":
        print_lines(lines_of_result(result))
    else:
        indent = 2 if sys.stdout.isatty() else None
        click.echo(escaped(json.dumps(msgspec.to_builtins(result), indent=indent, ensure_ascii=False)))


def print_lines(lines: Iterable[dict[str, Any]]) -> None:
    """Print objects, one a line, each as soon as it is there."""
    for line in lines:
        click.echo(escaped(json.dumps(line, ensure_ascii=False)))


def lines_of_result(result: Result) -> Iterator[dict[str, Any]]:
    """Return the lines of ``ndjson``: the entries of the list, each with its schema and what stands on every line."""
    if isinstance(result, SeveralResults):
        for one in result.each():
            yield from lines_of_result(one)
        return
    about: dict[str, Any] = msgspec.to_builtins(result)
    if not result.LINES:
        yield about
        return
    common = {name: about[name] for name in result.ON_LINES}
    for entry in about[result.LINES]:
        yield {"schema": line_schema_name(type(result)), **common, **entry}


def line_of(result: type[Result], entry: msgspec.Struct, **common: Any) -> dict[str, Any]:
    """Return one line of ``ndjson`` by itself, for commands that go on."""
    return {"schema": line_schema_name(result), **common, **msgspec.to_builtins(entry)}


def schema_name(result: type[Result]) -> str:
    """Return the name that the JSON of a result carries, such as ``kohort/v1/group.describe``."""
    return str(result.__struct_config__.tag)


def line_schema_name(result: type[Result]) -> str:
    """Return the name that a line of it carries."""
    return f"{schema_name(result)}.line"


def schema_of(result: type[Result]) -> dict[str, Any]:
    """Return the JSON schema of a result; of its lines and of several such, if there are any: one of them holds."""
    row = _row_of(result)
    kinds = [kind for kind in (result, row, result.SEVERAL) if kind is not None]
    (whole, *others), parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    several = [] if result.SEVERAL is None else others[-1:]
    name = schema_name(result)
    about: dict[str, Any] = {"$schema": DIALECT, "$id": name, "title": name}
    if row is None:
        return {**about, **({"anyOf": [whole, *several]} if several else whole), "$defs": parts}
    of_result, of_row = parts[result.__name__], parts[others[0]["$ref"].rpartition("/")[2]]
    parts[f"{result.__name__}Line"] = {
        "title": f"{result.__name__}Line",
        "description": f"A line of ndjson: an entry of {result.LINES}.",
        "type": "object",
        "properties": {
            "schema": {"enum": [line_schema_name(result)]},
            **{field: of_result["properties"][field] for field in result.ON_LINES},
            **of_row["properties"],
        },
        "required": ["schema", *result.ON_LINES, *of_row.get("required", ())],
    }
    either = [whole, {"$ref": f"#/$defs/{result.__name__}Line"}, *several]
    return {**about, "anyOf": either, "$defs": parts}


def _row_of(result: type[Result]) -> type[msgspec.Struct] | None:
    """Return the struct that the entries of the lines are of."""
    if not result.LINES:
        return None
    hint = get_type_hints(result)[result.LINES]
    if get_origin(hint) not in (list, tuple):
        raise TypeError(f"{result.__name__}.{result.LINES} is no list")
    row: type[msgspec.Struct] = get_args(hint)[0]
    return row
