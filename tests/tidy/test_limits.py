"""A function has at most 70 lines and six parameters. What has more stands here, with the reason."""

import ast
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
    "commands/": "the same, in the laboratory",
    "aio/producing/producer.py:send_arrow": "a public call with a keyword for each column of a record",
    "aio/producing/async_producer.py:send_arrow": "the same call",
    "client/writing/accumulator.py:append": "called for each record: to gather its fields first would cost time",
}
"""Files or folders of a package, or FILE:FUNCTION, and the reason."""
MORE_LINES: dict[str, str] = {}


@cache
def functions() -> list[tuple[str, Function]]:
    """Every function of the packages, by its file within the package and its name."""
    return [
        (f"{path.relative_to(package)}:{node.name}", node)
        for package in PACKAGES
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, Function)
    ]


def parameters(function: Function) -> int:
    """How many, without ``self``; one that gathers the rest (``*args``, ``**options``) does not count."""
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len(given) - (bool(given) and given[0].arg in {"self", "cls"})


def excused(place: str, list_: dict[str, str]) -> bool:
    return any(place == name or (name.endswith("/") and place.startswith(name)) for name in list_)


def test_no_function_has_more_than_six_parameters():
    over = {place: n for place, f in functions() if (n := parameters(f)) > PARAMETERS}
    assert {place: n for place, n in over.items() if not excused(place, MORE_PARAMETERS)} == {}
    assert [name for name in MORE_PARAMETERS if not any(excused(place, {name: ""}) for place in over)] == []


def test_no_function_is_over_seventy_lines():
    over = {place: n for place, f in functions() if (n := (f.end_lineno or 0) - f.lineno + 1) > LINES}
    assert {place: n for place, n in over.items() if not excused(place, MORE_LINES)} == {}
    assert [name for name in MORE_LINES if not any(excused(place, {name: ""}) for place in over)] == []
