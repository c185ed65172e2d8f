"""Which mistakes can be put into a source file: its mutants, found in its syntax tree and made in memory.

Not mutated: docstrings, other strings, annotations, decorators, asserts, what only type checkers read. Swapping the
branches of an ``if`` is the same as negating its condition and is not counted twice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType

BOUNDARY = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPPOSITE = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "type_comment"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake: where it is, what stood there and what stands there now. ``nth`` counts what else would look alike
    in the same function."""

    path: str
    place: str
    line: int
    operator: str
    before: str
    after: str
    nth: int
    index: int
    first: int
    last: int
    at_import: bool
    """The lines of its statement, of which who reaches the mutant reaches one; whether it is outside of functions."""

    @property
    def key(self) -> str:
        """Name the mutant by what it is, not by its line, which moves."""
        again = f" #{self.nth}" if self.nth else ""
        return f"{self.path} {self.place}: {self.operator}: {self.before} -> {self.after}{again}"


@dataclass(slots=True)
class _Change:
    parent: ast.AST
    field: str
    at: int | None
    new: ast.AST
    line: int
    place: str
    operator: str
    span: tuple[int, int]
    at_import: bool

    @property
    def old(self) -> ast.AST:
        held = getattr(self.parent, self.field)
        return held if self.at is None else held[self.at]

    def put(self, node: ast.AST) -> None:
        if self.at is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.at] = node


class SourceFile:
    """A source file and all its mutants, in the order in which they stand in it."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self._tree = ast.parse(text)
        self._changes = list(_changes(self._tree))
        seen: dict[tuple[str, ...], int] = {}
        self.mutants: list[Mutant] = []
        for index, change in enumerate(self._changes):
            before, after = _short(change.old), _short(change.new)
            alike = (change.place, change.operator, before, after)
            nth = seen[alike] = seen.get(alike, -1) + 1
            place, operator = change.place, change.operator
            self.mutants.append(
                Mutant(path, place, change.line, operator, before, after, nth, index, *change.span, change.at_import)
            )

    def code(self, filename: str, mutant: Mutant | None = None) -> CodeType:
        """Compile the file, with a mutant in it if one is given."""
        if mutant is None:
            return compile(self._tree, filename, "exec", dont_inherit=True)
        with self._mutated(mutant):
            return compile(self._tree, filename, "exec", dont_inherit=True)

    @contextmanager
    def _mutated(self, mutant: Mutant) -> Iterator[None]:
        change = self._changes[mutant.index]
        old = change.old
        change.put(ast.fix_missing_locations(ast.copy_location(change.new, old)))
        try:
            yield
        finally:
            change.put(old)


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 110 else text[:107] + "..."


def _changes(tree: ast.Module) -> Iterator[_Change]:
    yield from _below(tree, "<module>", (0, 0), at_import=True)


def _below(node: ast.AST, place: str, span: tuple[int, int], *, at_import: bool) -> Iterator[_Change]:
    """Every change of what is under ``node``, children after their parents."""
    for field, value in ast.iter_fields(node):
        if field in SKIPPED_FIELDS:
            continue
        for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _is_skipped(child):
                continue
            lines = _span(child) if isinstance(child, ast.stmt) else span
            here = at_import and not (field == "body" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
            for operator, new in _replacements(child, node, field):
                yield _Change(node, field, at, new, getattr(child, "lineno", lines[0]), place, operator, lines, here)
            inner = place
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = child.name if place == "<module>" else f"{place}.{child.name}"
            yield from _below(child, inner, lines, at_import=here)


def _span(node: ast.stmt) -> tuple[int, int]:
    """The first and the last line of a statement; of one with a body only its head."""
    body = getattr(node, "body", None)
    last = node.end_lineno if not body else max(node.lineno, body[0].lineno - 1)
    return node.lineno, last or node.lineno


def _is_skipped(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring, or an ellipsis
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in {"Final", "ClassVar"}:
        return True
    named = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id
    return named in {"__all__", "__slots__"}


def _replacements(node: ast.AST, parent: ast.AST, field: str) -> Iterator[tuple[str, ast.AST]]:
    """What may stand in the place of one node, each with the name of its operator."""
    if isinstance(node, ast.stmt):
        yield from _of_statement(node)
    if field in {"test", "ifs"} and isinstance(node, ast.expr) and _is_plain_condition(node):
        yield "condition", ast.UnaryOp(ast.Not(), node)
    if isinstance(node, ast.Constant):
        yield from _of_constant(node, "default" if isinstance(parent, ast.arguments) else "constant")
    elif isinstance(node, ast.Compare):
        yield from _of_comparison(node)
    elif isinstance(node, ast.BoolOp):
        yield "boolean", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _is_text(node) and not _is_type(node):
        yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", node.operand
    elif isinstance(node, ast.Call):
        yield from _of_call(node)


def _is_plain_condition(node: ast.expr) -> bool:
    """Whether no other operator negates it: a comparison and a ``not`` have their own."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return False
    return not (isinstance(node, ast.Compare) and len(node.ops) == 1) and not isinstance(node, ast.Constant)


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    )


def _is_type(node: ast.BinOp) -> bool:
    """Whether it is a union of types, as in ``str | None`` or ``isinstance(x, A | B)``."""
    return isinstance(node.op, ast.BitOr) and all(
        (isinstance(side, ast.Name) and side.id[:1].isupper())
        or (isinstance(side, ast.Name) and side.id in {"int", "str", "bytes", "float", "bool"})
        or (isinstance(side, ast.Constant) and side.value is None)
        or (isinstance(side, ast.BinOp) and _is_type(side))
        for side in (node.left, node.right)
    )


def _never(node: ast.stmt) -> ast.stmt:
    """The statement where it is never reached: what it binds and closes over stays as it is."""
    return ast.If(ast.Constant(value=False), [node], [])


def _of_statement(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    bound = ast.Attribute | ast.Subscript
    if isinstance(node, ast.Expr | ast.Raise | ast.Delete) or (
        isinstance(node, ast.Assign) and isinstance(node.targets[0], bound)
    ):
        yield "statement", _never(node)
    elif isinstance(node, ast.AugAssign):
        yield "statement", _never(node)
        if type(node.op) in ARITHMETIC:
            yield "arithmetic", ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
    elif isinstance(node, ast.Return):
        if node.value is None:
            yield "statement", _never(node)
        elif not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "return", ast.Return(ast.Constant(value=None))
    elif isinstance(node, ast.Break):
        yield "jump", ast.Continue()
    elif isinstance(node, ast.Continue):
        yield "jump", ast.Break()


def _of_constant(node: ast.Constant, operator: str) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node.value, bool):
        yield operator, ast.Constant(value=not node.value)
    elif isinstance(node.value, int):
        yield operator, ast.Constant(value=node.value + 1)
        yield operator, ast.Constant(value=node.value - 1)


def _of_comparison(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    for table in (BOUNDARY, OPPOSITE):
        for at, op in enumerate(node.ops):
            if type(op) in table:
                ops = [*node.ops[:at], table[type(op)](), *node.ops[at + 1 :]]
                yield "comparison", ast.Compare(node.left, ops, node.comparators)


def _of_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    pair = node.args[:2]
    alike = len(pair) < 2 or any(isinstance(one, ast.Starred) for one in pair) or ast.dump(pair[0]) == ast.dump(pair[1])
    never = isinstance(node.func, ast.Name) and node.func.id in {"isinstance", "cast", *NAMES}  # or says the same
    if not alike and not never:
        yield "arguments", ast.Call(node.func, [pair[1], pair[0], *node.args[2:]], node.keywords)
    if isinstance(node.func, ast.Name) and node.func.id in NAMES:
        yield "function", ast.Call(ast.Name(NAMES[node.func.id], ast.Load()), node.args, node.keywords)
