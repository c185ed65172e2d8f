"""Containers of long-lived objects are listed in ``containers.txt``, each with a row of docs/limits.md or the reason
why clients cannot grow it.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from support.source_trees import tree_of

ROOT = Path(__file__).parents[2]
KOHORT = ROOT / "src" / "kohort"
REGISTER = Path(__file__).parent / "containers.txt"
PAGE = (ROOT / "docs" / "limits.md").read_text()
PACKAGES = (
    "aio", "broker", "client", "console", "coordinator", "log", "metrics", "schemas", "security", "telemetry", "watch",
    "wire",
)  # fmt: skip
CONTAINERS = {
    *("dict", "list", "set", "deque", "Counter", "defaultdict", "OrderedDict", "bytearray", "BytesIO", "StringIO"),
    *("Queue", "SimpleQueue", "PriorityQueue", "WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "Timers"),
}
GROWING = {"append", "appendleft", "extend", "insert", "add", "update", "setdefault"}
HELP = (
    "Each is an attribute, a module's variable or a cache that can grow. Enter its name in tests/tidy/containers.txt "
    "under its bound: `-> ROW`, the first cell of a row of docs/limits.md with the option, the default, the metric and "
    "the answer at the bound; or `: why` only the user or the code makes it grow. A container without a bound needs "
    "one first (CONTRIBUTING.md)."
)
Place = tuple[str, str]
"""A file within ``kohort``, and ``Class.attribute``, ``variable`` or ``function()`` for a cache."""
Scope = ast.Module | ast.ClassDef


def name_of(node: ast.expr | None) -> str:
    """Return the last name of ``a.b``, ``a.b[c]`` or ``a.b()``."""
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_container(value: ast.expr | None) -> bool:
    """Tell whether an expression makes something that can grow."""
    if isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp):
        return True
    if isinstance(value, ast.BoolOp):
        return any(map(is_container, value.values))
    if isinstance(value, ast.IfExp):
        return is_container(value.body) or is_container(value.orelse)
    if not isinstance(value, ast.Call):
        return False
    factory = next((k.value for k in value.keywords if k.arg == "default_factory"), None)
    if factory is not None:
        return name_of(factory) in CONTAINERS or is_container(factory.body if isinstance(factory, ast.Lambda) else None)
    made = value.func
    if isinstance(made, ast.Attribute) and made.attr == "fromkeys":
        made = made.value
    return name_of(made) in CONTAINERS


def is_declared(annotation: ast.expr) -> bool:
    """Tell whether a type is one that can grow: ``dict[...]``, ``Final[list[...]]``, ``deque[...] | None``."""
    if isinstance(annotation, ast.BinOp):
        return is_declared(annotation.left) or is_declared(annotation.right)
    if isinstance(annotation, ast.Subscript) and name_of(annotation.value) in {"Final", "ClassVar"}:
        return is_declared(annotation.slice)
    return name_of(annotation) in CONTAINERS


def is_value(node: ast.ClassDef) -> bool:
    """Return True if instances of a class are immutable."""
    decorators = " ".join(map(ast.unparse, node.decorator_list))
    bases = {name_of(base) for base in node.bases}
    return "frozen=True" in decorators or bool(bases & {"NamedTuple", "Struct", "JournalEntry", "Message", "Protocol"})


def assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    """Yield each target of an assignment, with its value and its annotation."""
    if isinstance(node, ast.AnnAssign):
        yield node.target, node.value, node.annotation
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from ((one, value, None) for one, value in zip(target.elts, node.value.elts, strict=True))
            else:
                yield target, node.value, None


def grows(value: ast.expr | None, annotation: ast.expr | None) -> bool:
    return is_container(value) or (annotation is not None and is_declared(annotation))


def of_class(node: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes of a class that can grow."""
    for statement in node.body:
        for target, value, annotation in assigned(statement):
            if isinstance(target, ast.Name) and grows(value, annotation):
                yield target.id
        for inner in ast.walk(statement) if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) else ():
            for target, value, annotation in assigned(inner):
                if isinstance(target, ast.Attribute) and name_of(target.value) == "self" and grows(value, annotation):
                    yield target.attr


def of_module(tree: ast.Module, nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the variables of a module that can grow, and its caches, given all its nodes. A table that nothing changes
    in place is code."""
    made = [
        target.id
        for statement in tree.body
        for target, value, annotation in assigned(statement)
        if isinstance(target, ast.Name) and grows(value, annotation)
    ]
    changed = set(changed_in_place(nodes)) if made else set()
    yield from (name for name in made if name in changed)
    for node in nodes:
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
        if isinstance(node, ast.FunctionDef) and {name_of(d) for d in decorators} & {"cache", "lru_cache"}:
            yield f"{node.name}()"


def changed_in_place(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the names of what is added to: ``name[key] = ...``, ``name.append(...)``, ``name += ...``."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in GROWING:
            yield name_of(node.func.value)
        elif isinstance(node, ast.AugAssign):
            yield name_of(node.target)
        elif isinstance(node, ast.Assign):
            yield from (name_of(target) for target in node.targets if isinstance(target, ast.Subscript))


@cache
def found() -> dict[Place, None]:
    """Return everything that can grow, in order."""
    places: dict[Place, None] = {}
    for path in sorted(p for package in PACKAGES for p in (KOHORT / package).rglob("*.py")):
        tree, file = tree_of(path), path.relative_to(KOHORT).as_posix()
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.ClassDef) and not is_value(node):
                places |= {(file, f"{node.name}.{attribute}"): None for attribute in of_class(node)}
        places |= {(file, name): None for name in of_module(tree, nodes)}
    return places


@cache
def register() -> dict[str, str]:
    """Return the registered names with their bound: ``-> ROW`` or ``: reason``."""
    bounds: dict[str, str] = {}
    bound = ""
    for line in REGISTER.read_text().splitlines():
        if not line.startswith("  "):
            bound = line
            continue
        for name in line.split():
            assert name not in bounds, f"{name} stands twice in {REGISTER.name}"
            bounds[name] = bound
    return bounds


def rows() -> Counter[str]:
    """Return the first cells of the tables of docs/limits.md."""
    return Counter(re.findall(r"^\| (.+?) \|", PAGE, re.MULTILINE))


def of_its_class(name: str) -> str:
    """Return the entry for all attributes of the name's class."""
    return name.partition(".")[0] + ".*"


def test_growing_containers_are_registered():
    missing = [f"{file}: {name}" for file, name in found() if not {name, of_its_class(name)} & register().keys()]
    assert missing == [], HELP


def test_registered_containers_exist():
    names = {name for _, name in found()}
    removed = register().keys() - names - {of_its_class(name) for name in names}
    assert removed == set(), f"take these out of {REGISTER.name}, or give them their new names"


def test_registered_containers_have_a_limit_or_a_reason():
    limits = rows()
    odd = [
        f"{name} {bound}"
        for name, bound in register().items()
        if not (bound.removeprefix("-> ") in limits if bound.startswith("-> ") else re.match(r": \w", bound))
    ]
    assert odd == [], HELP


def test_the_walk_sees_what_can_grow():
    tree = ast.parse(
        "_seen = {}\nTABLE = {1: 2}\n"
        "def f(x): _seen[x] = x\n"
        "@lru_cache(9)\ndef g(): pass\n"
        "class A:\n"
        "    kept: ClassVar[dict[int, int]] = made()\n"
        "    def __init__(self, given):\n"
        "        self.a, self.n = [], 1\n"
        "        self._b: dict[int, int] = given\n"
        "        self.c = given or set()\n"
        "        self.d = dict.fromkeys(given)\n"
        "        self.t: Timers[int] = Timers()\n"
        "        self.e = tuple(given)\n"
        "    def later(self): self.f = deque(maxlen=3)\n"
    )
    cls = next(node for node in tree.body if isinstance(node, ast.ClassDef))

    assert list(of_module(tree, list(ast.walk(tree)))) == ["_seen", "g()"]
    assert list(of_class(cls)) == ["kept", "a", "_b", "c", "d", "t", "f"]
