"""Compile a writer's schema and the columns of a reader's schema into a program for ``interpreter.decode``.

Schema resolution by Avro 1.12: fields by name or the reader's alias, defaults, skipped fields, promotion of numbers and
between strings and bytes, symbols of enums, branches of unions. Four points go beyond the specification:

- Names of records, enums and fixed types must match only to select the branch of a union.
- Units of timestamps and times are converted, from the writer's to the reader's.
- Decimals must have the same scale, and may be bytes or fixed. The value must fit the reader's precision.
- Where a branch of the writer's union does not match, only its values are bad.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from kohort.columns.avro_values import operations as op
from kohort.columns.avro_values.columns import COLUMN_WORDS, FIXED, NULL, PER_SECOND, STRUCT, Column, unit_of
from kohort.columns.avro_values.defaults import default_of, encode_default
from kohort.columns.avro_values.resolution import PROMOTIONS, branch_of, factor_of, source_of
from kohort.columns.avro_values.schema import NO_DEFAULT, TEXT, AvroProblem, Field, Type

INSTRUCTIONS_MOST: Final = 65_536
BYTES_MOST: Final = 1 << 20
FIXED_SIZES: Final = {"boolean": 1, "float": 4, "double": 8}


class Program:
    """Instructions in memory. ``paths``: field of each instruction; ``kept``: memory that the instructions refer to."""

    def __init__(self, words: list[list[int]], paths: list[str], kept: list[object]) -> None:
        self._words = np.array(words, np.int64)
        self.paths = paths
        self._kept = kept
        self.address: int = self._words.ctypes.data


def compile_program(writer: Type, root: Column) -> Program:
    """Return the program that reads a writer's values into the columns. Raises AvroProblem."""
    compiler = _Compiler()
    compiler.value(writer, root, "")
    return compiler.finish()


def null_program(columns: list[Column]) -> Program:
    """Return the program that writes a row of nulls."""
    compiler = _Compiler()
    for column in columns:
        compiler.null(column)
    return compiler.finish()


class _Compiler:
    def __init__(self) -> None:
        self._words: list[list[int]] = []
        self._paths: list[str] = []
        self._kept: list[object] = []
        self._late: list[tuple[int, int, Column, str]] = []
        self._emitted = 0
        self._size = 0
        self._path = ""

    def finish(self) -> Program:
        """Add the code of nulls, which is rarely run, behind the program."""
        self._path = ""
        self._emit(op.END)
        for option, back, column, path in self._late:
            self._path = path
            self._words[option][2] = self._next
            self.null(column)
            self._emit(op.JUMP, None, back)
        return Program(self._words, self._paths, self._kept)

    @property
    def _next(self) -> int:
        return len(self._words)

    def _emit(self, operation: int, column: Column | None = None, *operands: int) -> int:
        self._emitted += 1
        if self._emitted > INSTRUCTIONS_MOST:
            raise AvroTooLarge(f"the Avro schema needs more than {INSTRUCTIONS_MOST} instructions")
        place = 8 * COLUMN_WORDS * column.place if column is not None else 0
        operands += (0,) * (op.INSTRUCTION_WORDS - 2 - len(operands))
        self._words.append([operation, place, *operands])
        self._paths.append(self._path)
        return self._next - 1

    def _kept_bytes(self, data: bytes) -> int:
        """Return the address of a copy of ``data`` that lives as long as the program."""
        self._size += len(data)
        if self._size > BYTES_MOST:
            raise AvroTooLarge(f"the defaults of the Avro schema have more than {BYTES_MOST} bytes")
        array = np.frombuffer(data or b"\0", np.uint8).copy()
        self._kept.append(array)
        return int(array.ctypes.data)

    def _kept_words(self, numbers: list[int]) -> int:
        array = np.array(numbers, np.int64)
        self._kept.append(array)
        return int(array.ctypes.data)

    # values

    def value(self, writer: Type, column: Column, path: str) -> None:
        """Add code that reads a writer's value into a column. Raises AvroProblem if the types do not match."""
        self._path = path
        if writer.kind == "union":
            self._union(writer, column, path)
        elif writer.kind == "null":
            if not column.nullable:
                raise AvroProblem(f"null cannot be read as {column.reader}")
            self.null(column)
        elif column.is_wide:
            chosen = branch_of(writer, column.reader.branches)
            if column.has_mask:
                self._emit(op.VALID, column)
            for place, member in enumerate(column.children):
                if place != chosen:
                    self.null(member)
            self.value(writer, column.children[chosen], path)
        else:
            self._plain(writer, column, path)

    def _union(self, writer: Type, column: Column, path: str) -> None:
        kinds = [branch.kind for branch in writer.branches]
        if len(kinds) == 2 and "null" in kinds and column.nullable and column.layout != NULL:
            null = kinds.index("null")
            option = self._emit(op.OPTION, None, 0, null)
            self._or_fail(partial(self.value, writer.branches[1 - null], column, path))
            self._late.append((option, self._next, column, path))
            return
        self._branches([partial(self.value, branch, column, path) for branch in writer.branches])

    def _branches(self, branches: list[Callable[[], None]]) -> None:
        """Add code for each branch of a union. Branches that do not match fail when they are read."""
        self._emit(op.SWITCH, None, len(branches))
        jumps = [self._emit(op.JUMP) for _ in branches]
        ends = []
        for jump, branch in zip(jumps, branches, strict=True):
            self._words[jump][2] = self._next
            self._or_fail(branch)
            ends.append(self._emit(op.JUMP))
        for end in ends:
            self._words[end][2] = self._next

    def _or_fail(self, add: Callable[[], None]) -> None:
        start, late, path = self._next, len(self._late), self._path
        try:
            add()
        except AvroTooLarge:
            raise
        except AvroProblem:
            del self._words[start:], self._paths[start:], self._late[late:]
            self._path = path
            self._emit(op.FAIL)

    def _plain(self, writer: Type, column: Column, path: str) -> None:
        reader = column.reader
        if reader.kind == "record" and writer.kind == "record":
            self._record(writer, column, path)
        elif reader.kind in ("array", "map") and writer.kind == reader.kind:
            self._list(writer, column, path)
        elif reader.kind == "enum" and writer.kind == "enum":
            default = reader.symbols.index(reader.default) if reader.default is not None else -1
            places = {symbol: place for place, symbol in enumerate(reader.symbols)}
            symbols = [places.get(symbol, default) for symbol in writer.symbols]
            self._emit(op.ENUM, column, self._kept_words(symbols), len(symbols))
        elif reader.logical == "decimal":
            self._decimal(writer, column)
        elif reader.kind == "fixed" and writer.kind == "fixed" and reader.size == writer.size:
            self._emit(op.UUID if reader.logical == "uuid" else op.FIXED, column, 0, reader.size)
        elif reader.logical == TEXT and writer.kind == "enum":
            self._branches([partial(self._symbol, symbol, column) for symbol in writer.symbols])
        elif reader.logical == TEXT and writer.logical == "uuid":
            self._emit(op.UUID, column, 0, writer.size)
        elif reader.logical in ("time-millis", "time-micros") and writer.kind in ("int", "long"):
            self._time(writer, column)
        elif (factor := factor_of(writer, reader)) != 1:
            self._emit(op.SCALED, column, factor, 0, 8)
        elif (writer.kind, reader.kind) in PROMOTIONS:
            self._emit(PROMOTIONS[writer.kind, reader.kind], column, int(writer.kind == "int"))
        else:
            raise AvroProblem(f"{writer} cannot be read as {reader}")

    def _symbol(self, symbol: str, column: Column) -> None:
        data = encode_default(Type("string"), symbol)
        self._emit(op.CONSTANT, None, self._kept_bytes(data), len(data))
        self._emit(op.STRING, column)
        self._emit(op.CONSTANT_END)

    def _time(self, writer: Type, column: Column) -> None:
        reader = column.reader
        if (writer.kind, reader.kind) not in PROMOTIONS:
            raise AvroProblem(f"{writer} cannot be read as {reader}")
        unit = unit_of(writer.logical if writer.logical.startswith("time-") else reader.logical)
        factor = PER_SECOND[unit_of(reader.logical)] // PER_SECOND[unit]
        self._emit(op.TIME, column, factor, 86_400 * PER_SECOND[unit], column.width)

    def _decimal(self, writer: Type, column: Column) -> None:
        reader = column.reader
        if writer.kind not in ("bytes", "fixed"):
            raise AvroProblem(f"{writer} cannot be read as {reader}")
        if writer.logical == "decimal" and writer.scale != reader.scale:
            raise AvroProblem(f"a decimal of scale {writer.scale} cannot be read as one of scale {reader.scale}")
        words, limit = column.width // 8, 10**reader.precision
        numbers = [number >> (64 * i) & (1 << 64) - 1 for number in (-limit, limit) for i in range(words)]
        limits = self._kept_words([number - (1 << 64) if number >> 63 else number for number in numbers])
        self._emit(op.DECIMAL, column, words, writer.size if writer.kind == "fixed" else -1, limits)

    def _record(self, writer: Type, column: Column, path: str) -> None:
        if column.has_mask:
            self._emit(op.VALID, column)
        left = {field.name: (field, child) for field, child in zip(column.reader.fields, column.children, strict=True)}
        written = {field.name for field in writer.fields}
        source = {source_of(field, written): field.name for field, _ in left.values()}
        for field in writer.fields:
            name = source.get(field.name)
            inside = f"{path}.{field.name}" if path else field.name
            if name is None:
                self._skip(field.type, inside)
                continue
            try:
                self.value(field.type, left.pop(name)[1], inside)
            except AvroProblem as problem:
                raise problem if isinstance(problem, _AtField) else _AtField(f"field {inside!r}: {problem}") from None
        for field, child in left.values():
            self._default(field, child, f"{path}.{field.name}" if path else field.name)

    def _default(self, field: Field, column: Column, path: str) -> None:
        self._path = path
        if field.default is NO_DEFAULT:
            raise _AtField(f"field {path!r} is missing in the writer's schema, and has no default")
        if field.default is None and column.nullable:
            self.null(column)
            return
        data = default_of(field)
        self._emit(op.CONSTANT, None, self._kept_bytes(data), len(data))
        self.value(field.type, column, path)
        self._emit(op.CONSTANT_END)

    def _list(self, writer: Type, column: Column, path: str) -> None:
        assert writer.items is not None
        least = _least(writer)
        start = self._emit(op.LIST, column)
        body = self._next
        if writer.kind == "map":
            self._emit(op.STRING, column.children[0])
        self.value(writer.items, column.children[-1], path)
        self._path = path
        self._words[start][2] = self._emit(op.LIST_NEXT, column, body, least)

    def null(self, column: Column) -> None:
        """Add code that writes a null, or zeros where the column is not nullable."""
        if column.layout == FIXED:
            self._emit(op.NULL_FIXED, column, column.width)
        elif column.layout == STRUCT:
            if column.has_mask:
                self._emit(op.NULL_MASK, column)
            for child in column.children:
                self.null(child)
        elif column.layout != NULL:
            self._emit(op.NULL_ENTRIES, column)

    # skipped values

    def _skip(self, writer: Type, path: str) -> None:
        self._path = path
        kind = writer.kind
        if kind in ("int", "long", "enum"):
            self._emit(op.SKIP_NUMBER)
        elif kind in ("bytes", "string"):
            self._emit(op.SKIP_BYTES)
        elif kind in FIXED_SIZES or kind == "fixed":
            self._emit(op.SKIP_FIXED, None, FIXED_SIZES.get(kind, writer.size))
        elif kind == "record":
            for field in writer.fields:
                self._skip(field.type, f"{path}.{field.name}")
        elif kind == "union":
            self._branches([partial(self._skip, branch, path) for branch in writer.branches])
        elif kind != "null":
            assert writer.items is not None
            least = _least(writer)
            start = self._emit(op.SKIP_LIST)
            body = self._next
            if kind == "map":
                self._emit(op.SKIP_BYTES)
            self._skip(writer.items, path)
            self._words[start][2] = self._emit(op.SKIP_NEXT, None, body, least)


class AvroTooLarge(AvroProblem):
    """A schema beyond the limits of this module."""


class _AtField(AvroProblem):
    """A problem whose message has the field."""


def _least(writer: Type) -> int:
    """Return the smallest size of an item. Raises AvroProblem for 0: a few bytes could claim any number of items."""
    assert writer.items is not None
    least = writer.items.least + (writer.kind == "map")
    if not least:
        raise _AtField("a list of items without bytes, such as null, is not supported")
    return min(least, BYTES_MOST)
