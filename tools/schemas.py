"""Write docs/schemas, the JSON schemas of command and console results, or check that they are up to date."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kohort.cli.main import main as kohort
from kohort.cli.terminal.output import OutputOption
from kohort.results.console import CONSOLE_RESULTS
from kohort.results.result import Result, schema_name, schema_of

TARGET = Path(__file__).parents[1] / "docs" / "schemas"


def results(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, type[Result]]]:
    """Yield every command with ``--output`` by its path, with its result type."""
    yield from ((ctx.command_path, p.result) for p in command.params if isinstance(p, OutputOption))
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            if inner is not None:
                yield from results(inner, click.Context(inner, info_name=name, parent=ctx))


def schemas() -> dict[str, str]:
    """Return the schema files by name. Raises ValueError if two results have one name."""
    found: dict[str, type[Result]] = {}
    for path, result in results(kohort, click.Context(kohort, info_name="kohort")):
        name = schema_name(result).removeprefix("kohort/v1/")
        if found.setdefault(name, result) is not result:
            raise ValueError(f"{path}: {found[name].__name__} has the same schema name {name} as another result")
    for console_result in CONSOLE_RESULTS:
        found[schema_name(console_result).removeprefix("kohort/v1/")] = console_result
    return {f"{name}.json": json.dumps(schema_of(result), indent=2) + "\n" for name, result in sorted(found.items())}


def main() -> int:
    files = schemas()
    there = {path.name for path in TARGET.glob("*.json")}
    if "--check" in sys.argv:
        stale = [n for n, text in files.items() if n not in there or (TARGET / n).read_text() != text]
        stale += sorted(there - set(files))
        if stale:
            print(f"docs/schemas is not what the code says ({', '.join(stale)}): run make docs", file=sys.stderr)
        return 1 if stale else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in there - set(files):
        (TARGET / name).unlink()
    for name, text in files.items():
        (TARGET / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
