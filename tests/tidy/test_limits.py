"""A function has at most 70 lines and six parameters, except those listed here with a reason."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from support.source_trees import tree_of

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "src" / "kohort", ROOT / "src" / "pyspark_kohort", ROOT / "lab" / "src" / "kohort_lab"]
LINES = 70
PARAMETERS = 6
Function = ast.FunctionDef | ast.AsyncFunctionDef

MORE_PARAMETERS = {
    "cli/": "click hands every option of a command to its function by name",
    "commands/": "the same, for commands of the laboratory",
    "aio/producing/producer.py:send_arrow": "a public call with a keyword for each column of a record",
    "aio/producing/async_producer.py:send_arrow": "the same call, asynchronous",
    "aio/consuming/consumer.py:poll_arrow": "a public call with keywords for columns, and for each format of values",
    "aio/consuming/async_consumer.py:poll_arrow": "the same call, asynchronous",
    "client/writing/accumulator.py:append": "called for each record: an object for the fields would cost time",
    "config/options.py:option": "a declaration with a keyword for each property of an option",
    "wire/schema.py:_spec": "a declaration with a keyword for each property of a field",
    "wire/record_batch.py:build_batch": "a keyword for each field of the batch header",
    "tables/load.py:load": "a public call with a keyword for each limit and rule of a load",
    "insight/findings/doctor.py:_finding": "a keyword for each field of a finding",
    "instruments/spans.py:_begin": "a keyword for each property of a span",
    "metrics/families.py:_add_all": "the sources of one page of metrics",
}
"""Reason, by folder, file or FILE:FUNCTION of a package."""
MORE_LINES: dict[str, str] = {}


@cache
def functions() -> list[tuple[str, Function]]:
    """Return every function of the packages, with FILE:FUNCTION."""
    return [
        (f"{path.relative_to(package)}:{node.name}", node)
        for package in PACKAGES
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, Function)
    ]


def parameters(function: Function) -> int:
    """Return the number of parameters without ``self``, ``cls``, ``*args`` and ``**options``."""
    names = [p.arg for p in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def is_listed(place: str, exceptions: Iterable[str]) -> bool:
    return any(place == name or (name.endswith("/") and place.startswith(name)) for name in exceptions)


def test_functions_have_at_most_six_parameters():
    over = {place: n for place, f in functions() if (n := parameters(f)) > PARAMETERS}
    assert {place: n for place, n in over.items() if not is_listed(place, MORE_PARAMETERS)} == {}
    assert [name for name in MORE_PARAMETERS if not any(is_listed(place, [name]) for place in over)] == []


def test_function_length_is_at_most_70_lines():
    over = {place: n for place, f in functions() if (n := (f.end_lineno or 0) - f.lineno + 1) > LINES}
    assert {place: n for place, n in over.items() if not is_listed(place, MORE_LINES)} == {}
    assert [name for name in MORE_LINES if not any(is_listed(place, [name]) for place in over)] == []
