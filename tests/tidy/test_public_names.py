"""Users import from ``kohort``: arguments, results and errors of all public calls are exported there."""

import ast
import importlib
import inspect
import re
import typing
from pathlib import Path

import pyarrow
import pytest

import kohort
import kohort.errors
import kohort.testing

ROOT = Path(__file__).parents[2]
DOORS = (kohort, kohort.testing)
PUBLIC_SPECIAL_METHODS = {"__init__", "__iter__", "__aiter__", "__getitem__", "__enter__", "__aenter__", "__await__"}
MADE_BY_KOHORT = {"AsyncClaim", "AsyncGroupSession", "Claim", "Delivery", "GroupSession", "HeldRequests", "Assignor"}
"""Classes without a public constructor."""


def public_things():
    return {name: getattr(door, name) for door in DOORS for name in door.__all__}


def classes_in(hint):
    """The classes that a type hint is made of."""
    if isinstance(hint, list | tuple):
        for part in hint:
            yield from classes_in(part)
    elif (origin := typing.get_origin(hint)) is not None:
        yield from classes_in(origin)
        yield from classes_in(typing.get_args(hint))
    elif isinstance(hint, type):
        yield hint


def own(cls):
    return cls.__module__.partition(".")[0] == "kohort"


def public_functions(cls):
    """The methods and properties that users of a class call."""
    for owner in filter(own, cls.__mro__):
        for name, member in vars(owner).items():
            if name.startswith("_") and name not in PUBLIC_SPECIAL_METHODS:
                continue
            if name == "__init__" and cls.__name__ in MADE_BY_KOHORT:
                continue
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(function):
                yield name, function


def hints_of(thing):
    names = {"pyarrow": pyarrow, **vars(kohort.testing), **public_things()}
    return {name: h for name, h in typing.get_type_hints(thing, localns=names).items() if not name.startswith("_")}


def classes_in_signatures(thing):
    """The classes of kohort in what ``thing`` takes, returns and holds, each with where it was found."""
    parts = [(thing.__name__, thing)]
    if inspect.isclass(thing):
        parts += public_functions(thing)
    for name, part in parts:
        for hint in hints_of(part).values():
            yield from ((cls, f"{thing.__name__}.{name}") for cls in classes_in(hint) if own(cls))


PUBLIC_CALLABLES = {name: thing for name, thing in public_things().items() if callable(thing)}


@pytest.mark.parametrize("name", PUBLIC_CALLABLES)
def test_what_a_public_signature_names_can_be_imported_from_kohort(name):
    found = dict(classes_in_signatures(PUBLIC_CALLABLES[name]))
    hidden = {where: f"{cls.__module__}.{cls.__name__}" for cls, where in found.items()
              if cls not in PUBLIC_CALLABLES.values()}  # fmt: skip
    assert hidden == {}


def test_every_error_can_be_imported_from_kohort():
    errors = {name for name, thing in vars(kohort.errors).items()
              if inspect.isclass(thing) and issubclass(thing, kohort.KohortError)}  # fmt: skip
    assert errors - set(kohort.__all__) == set()


def test_the_three_lists_of_public_names_agree():
    tree = ast.parse((ROOT / "src/kohort/__init__.py").read_text())
    [checked] = [node for node in tree.body if isinstance(node, ast.If)]
    for_type_checkers = {name.name: node.module for node in checked.body for name in node.names}  # type: ignore[attr-defined]  # all are imports
    assert for_type_checkers == kohort._LAZY  # the table of what is imported late
    at_once = {name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert set(kohort.__all__) - {"__version__"} == set(kohort._LAZY) | at_once - {
        "annotations", "TYPE_CHECKING", "Any", "Final", "VERSION"}  # fmt: skip


PAGES = sorted([ROOT / "README.md", *(ROOT / "docs/guides").glob("*.md"), *(ROOT / "examples").rglob("*.py")])
SHORT_DOORS = {
    "kohort",
    "kohort.testing",
    "kohort.spark",
    "kohort.spark.group_tables",
    "kohort.spark.pipeline",
    "kohort.tables",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_guides_and_examples_import_by_the_short_names(page):
    imports = re.findall(r"^ *from (kohort[\w.]*) import \(?([^)#\n]+)", page.read_text(), re.MULTILINE)
    assert {door for door, _ in imports} - SHORT_DOORS == set()
    for door, names in imports:
        module = importlib.import_module(door)
        public = getattr(module, "__all__", dir(module))
        assert [name for name in re.findall(r"\w+", names) if name not in public] == []


def drawn_tree(text):
    """(error, the error above it) for each line of a tree that is drawn with box characters."""
    above = {}
    path = []
    for line in text.splitlines():
        drawn = re.match(r"((?:│   |    )*)(?:├── |└── )?([A-Z]\w+)(?=$| {2,})", line)
        if drawn is None:
            continue
        depth = 0 if drawn[2] == line.strip() and not line.startswith(("├", "└")) else len(drawn[1]) // 4 + 1
        path = [*path[:depth], drawn[2]]
        above[drawn[2]] = path[-2] if depth else None
    return above


def test_the_drawn_tree_of_errors_is_the_tree_of_their_classes():
    errors = [thing for thing in vars(kohort.errors).values()
              if inspect.isclass(thing) and issubclass(thing, kohort.KohortError)]  # fmt: skip
    assert drawn_tree(kohort.errors.__doc__) == {
        error.__name__: None if error is kohort.KohortError else error.__bases__[0].__name__ for error in errors
    }


@pytest.mark.parametrize("name", PUBLIC_CALLABLES)
def test_times_are_milliseconds_and_named_so(name):
    thing = PUBLIC_CALLABLES[name]
    functions = [thing, *(f for _, f in public_functions(thing))] if inspect.isclass(thing) else [thing]
    parameters = {p for f in functions if inspect.isfunction(f) for p in inspect.signature(f).parameters}
    if not typing.is_typeddict(thing):  # options keep their names of Kafka
        parameters |= set(getattr(thing, "__annotations__", ()))
    assert {p for p in parameters if p.endswith(("_s", "seconds", "timeout", "interval"))} == set()


@pytest.mark.parametrize("name", PUBLIC_CALLABLES)
def test_public_names_and_their_methods_have_docstrings(name):
    thing = PUBLIC_CALLABLES[name]
    calls = public_functions(thing) if inspect.isclass(thing) else ()
    silent = [call for call, f in calls if not call.startswith("__") and not inspect.getdoc(f)]
    assert (thing.__doc__ or "").strip()
    assert silent == []
