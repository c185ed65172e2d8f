from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from kohort.cli.main import main
from support.rebalanced_group import rebalanced_group

WIDTH = 80
SHOWN = (
    "groups",
    "doctor",
    "nodes list",
    "topics list",
    "topics describe orders",
    "transactions list",
    "users list",
    "quotas list",
    "explain",
    "explain MAX_POLL_EXCEEDED",
    "group describe orders",
    "group describe orders --members",
    "group describe orders --members --verbose",
    "group describe orders --state",
    "group describe --all-groups --verbose",
    "group describe orders --verbose",
    "group describe orders --topics",
    "group why orders --last 0",
    "group timeline orders",
    "group events orders",
    "group fenced orders",
    "group what-if orders --add 2 --compare --in-rate 100 --drain-rate 40",
    "group reset-offsets orders --to-earliest",
    "group wait orders --stable --for 100ms",
)
PROGRAM = """
import sys
from kohort.cli.main import main
for words in sys.argv[1:]:
    print("=== " + words, flush=True)
    try:
        main(words.split(), prog_name="kohort")
    except SystemExit:
        pass
"""


def commands(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield ctx.command_path, command, ctx
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from commands(inner, click.Context(inner, info_name=name, parent=ctx, terminal_width=WIDTH))


ALL = list(commands(main, click.Context(main, info_name="kohort", terminal_width=WIDTH)))


@pytest.mark.parametrize(("path", "command", "ctx"), ALL, ids=[path for path, _, _ in ALL])
def test_help_of_commands_fits_80_columns(path, command, ctx):
    wide = [line for line in command.get_help(ctx).splitlines() if len(line) > WIDTH]

    assert wide == []


def on_a_terminal(bootstrap: str, words: tuple[str, ...]) -> dict[str, list[str]]:
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(WIDTH), "LINES": "50", "TERM": "dumb", "KOHORT_BOOTSTRAP": bootstrap}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    output = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # on Linux, reading from a closed terminal raises OSError
            break
        if not part:
            break
        output += part
    assert process.wait(60) == 0
    os.close(ours)
    found: dict[str, list[str]] = {}
    for line in click.unstyle(output.decode()).splitlines():
        if line.startswith("=== "):
            found[line.removeprefix("=== ")] = lines = []
        else:
            lines.append(line)
    return found


@pytest.mark.timeout(180)
def test_tables_of_commands_fit_80_columns(broker):
    with rebalanced_group(broker.bootstrap):
        found = on_a_terminal(broker.bootstrap, SHOWN)

    assert list(found) == list(SHOWN)
    assert {words: lines for words, lines in found.items() if not any(lines)} == {}
    assert {words: wide for words, lines in found.items() if (wide := [li for li in lines if len(li) > WIDTH])} == {}
