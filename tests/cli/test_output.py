from __future__ import annotations

import json
import re
from pathlib import Path

import click
import msgspec
import pytest

from kohort.cli.main import main
from kohort.cli.terminal.output import OutputOption
from kohort.results.result import Result, line_schema_name, schema_name, schema_of
from support.processes.served_broker import Served

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def commands(command, ctx):
    for param in command.params:
        if isinstance(param, OutputOption):
            yield tuple(ctx.command_path.split()[1:]), param.result
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            yield from commands(inner, click.Context(inner, info_name=name, parent=ctx))


DECLARED = dict(commands(main, click.Context(main, info_name="kohort")))


@pytest.fixture
def orders(run):
    run("topics", "create", "orders", "--partitions", "2", "--if-not-exists")
    run("produce", "orders", "--partition", "0", stdin="1\n2\n3\n")
    run("consume", "orders", "--group", "g", "--from-beginning", "--max", "2")
    yield "orders"
    run("group", "delete", "g", "--yes")
    run("topics", "delete", "orders", "--yes")


CALLS = [
    ("topics", "list"),
    ("topics", "describe", "orders"),
    ("nodes", "list"),
    ("transactions", "list"),
    ("quotas", "list"),
    ("users", "list"),
    ("group", "describe", "g"),
    ("group", "why", "g", "--last", "0"),
]


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_json_output_matches_schema(run, orders, words):
    result = DECLARED[words[:1] if words[:1] in DECLARED else words[:2]]

    whole = json.loads(run(*words, "--output", "json").stdout)
    lines = [json.loads(line) for line in run(*words, "--output", "ndjson").stdout.splitlines()]

    assert msgspec.convert(whole, result, strict=True) is not None
    assert whole["schema"] == schema_name(result)
    assert len(lines) == len(whole[result.LINES])
    line_schema = schema_of(result)["$defs"][f"{result.__name__}Line"]
    for line in lines:
        assert line["schema"] == line_schema_name(result)
        assert set(line_schema["required"]) <= set(line) <= set(line_schema["properties"])


@pytest.mark.parametrize("words", DECLARED, ids=" ".join)
def test_schema_output_needs_no_cluster_and_no_arguments(run, words):
    printed = json.loads(run(*words, "--output", "schema").stdout)

    name = schema_name(DECLARED[words])
    assert printed["$id"] == name
    assert printed == json.loads((SCHEMAS / f"{name.removeprefix('kohort/v1/')}.json").read_text())
    assert set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(printed))) <= set(printed["$defs"])


def test_json_output_of_commands_without_cluster_matches_schema(run):
    from kohort.results.programs import CausesListed, Explained
    from kohort_lab.commands.results import SeedsRun

    for words, result in (
        (("explain",), CausesListed),
        (("explain", "MAX_POLL_EXCEEDED"), Explained),
        (("explain", "25"), Explained),
        (("sim", "run", "--seeds", "1"), SeedsRun),
    ):
        output = json.loads(run(*words, "--output", "json").stdout)
        assert msgspec.convert(output, result, strict=True) is not None
        assert output["schema"] == schema_name(result)
    lines = run("explain", "--output", "ndjson").stdout.splitlines()
    assert {json.loads(line)["schema"] for line in lines} == {"kohort/v1/explain.list.line"}


def test_ready_line_of_serve_matches_schema():
    from kohort.results.programs import BrokerReady

    with Served() as served:
        ready_line = msgspec.convert(served.ready, BrokerReady, strict=True)

    assert (ready_line.listeners, ready_line.data, ready_line.metrics) == (
        {"PLAINTEXT": ready_line.bootstrap},
        None,
        None,
    )


class ListlessRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class HostileNames(Result, frozen=True, kw_only=True, tag="kohort/v1/hostile"):
    LINES = "rows"

    rows: list[ListlessRow]


def test_hostile_name_in_json_stays_on_one_line(capsys):
    from kohort.cli.terminal.output import print_result

    names = ["a\nb", "\x1b[2J", "\u202egro", "\x00", "x" * 65_536, "\ud800", '"}']
    result = HostileNames(rows=[ListlessRow(name=name) for name in names])

    print_result(result, "ndjson")
    lines = capsys.readouterr().out.splitlines()
    print_result(result, "json")
    whole = capsys.readouterr().out

    assert [json.loads(line)["name"] for line in lines] == names
    assert [row["name"] for row in json.loads(whole)["rows"]] == names
    assert all(line.isprintable() for line in [*lines, whole.rstrip("\n")])
