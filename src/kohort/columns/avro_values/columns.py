"""Columns of a reader's schema: their Arrow types, their buffers, and the table of addresses for the kernel.

A level is a list's items, or the rows: all its columns have the same number of entries. A slot counts the entries of a
level or the bytes of a text column.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from kohort.columns.avro_values.schema import AvroProblem, Type

COLUMNS_MOST: Final = 4096
COLUMN_WORDS: Final = 4
"""Words of a column in the kernel's table: addresses of mask, data and starts, and the slot of its items or bytes."""
INT32_MAX: Final = (1 << 31) - 1
LEAST_ROOM: Final = 64
ROWS: Final = 0
"""Slot of the rows."""
UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}
PER_SECOND: Final = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
WIDTHS: Final = {"boolean": 1, "int": 4, "long": 8, "float": 4, "double": 8, "enum": 4}
PLAIN: Final = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip
NULL, FIXED, TEXT, LIST, STRUCT = range(5)
PROMOTED_UNIONS: Final = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
"""Unions that one number type can store, as in Spark."""


def unit_of(logical: str) -> str:
    """Return millis, micros or nanos."""
    return logical.rpartition("-")[2]


class Column:
    """Column of a reader's type. ``reader``: the type without null; ``is_wide``: a struct with a member per branch."""

    def __init__(self, tree: Columns, reader: Type, name: str, slot: int, *, nullable: bool, has_mask: bool) -> None:
        self.name = name
        self.reader = reader
        self.nullable = nullable
        self.has_mask = has_mask
        self.level = slot
        self.slot = 0
        self.width = 0
        self.is_wide = reader.kind == "union"
        self.children: list[Column] = []
        self.place = tree.added(self)
        self.layout, self.type = self._shape(tree)

    def _shape(self, tree: Columns) -> tuple[int, Any]:
        kind = self.reader.kind
        if self.is_wide:
            members = [(f"member{i}", branch) for i, branch in enumerate(self.reader.branches)]
            self.children = [tree.column(branch, name, self.level, member=True) for name, branch in members]
            return STRUCT, pa.struct([child.field for child in self.children])
        if kind == "record":
            self.children = [tree.column(field.type, field.name, self.level) for field in self.reader.fields]
            return STRUCT, pa.struct([child.field for child in self.children])
        if kind in ("array", "map"):
            assert self.reader.items is not None
            self.slot = tree.new_slot()
            if kind == "map":
                self.children = [tree.column(Type("string"), "key", self.slot)]
            self.children.append(tree.column(self.reader.items, "item" if kind == "array" else "value", self.slot))
            last = self.children[-1].field
            return LIST, pa.list_(last) if kind == "array" else pa.map_(pa.string(), last)
        if kind in ("string", "bytes") and self.reader.logical != "decimal":
            self.slot = tree.new_slot()
            return TEXT, PLAIN[kind]
        if self.reader.logical == "uuid":
            self.slot = tree.new_slot()
            return TEXT, pa.string()
        if kind == "null":
            return NULL, pa.null()
        found = _fixed_type(self.reader)
        self.width = WIDTHS.get(kind) or found.byte_width
        return FIXED, found

    @property
    def field(self) -> Any:
        return pa.field(self.name, self.type, self.nullable)

    def built(self, buffers: dict[tuple[int, str], Any], counts: Any, row_mask: Any) -> Any:
        """Return the column as an Arrow array. ``row_mask``: valid rows, for a column of rows without a mask."""
        size = int(counts[self.level])
        if self.layout == NULL:
            return pa.nulls(size)
        mask = row_mask
        if self.has_mask:
            mask = np.frombuffer(buffers[self.place, "mask"], np.uint8, size)
        bits = None if mask is None or mask.all() else pa.py_buffer(np.packbits(mask, bitorder="little"))
        row_mask = None
        if self.layout == STRUCT:
            children = [child.built(buffers, counts, None) for child in self.children]
            return pa.Array.from_buffers(self.type, size, [bits], children=children)
        if self.layout == LIST:
            children = [child.built(buffers, counts, None) for child in self.children]
            if self.reader.kind == "map":
                pairs = pa.struct([self.type.key_field, self.type.item_field])
                children = [pa.Array.from_buffers(pairs, int(counts[self.slot]), [None], children=children)]
            return pa.Array.from_buffers(self.type, size, [bits, buffers[self.place, "starts"]], children=children)
        data = buffers[self.place, "data"]
        if self.layout == TEXT:
            return pa.Array.from_buffers(self.type, size, [bits, buffers[self.place, "starts"], data])
        if self.reader.kind == "boolean":
            data = pa.py_buffer(np.packbits(np.frombuffer(data, np.uint8, size), bitorder="little"))
        elif self.reader.kind == "enum":
            indices = pa.Array.from_buffers(pa.int32(), size, [bits, data])
            return pa.DictionaryArray.from_arrays(indices, pa.array(self.reader.symbols, pa.string()))
        return pa.Array.from_buffers(self.type, size, [bits, data])


def _fixed_type(reader: Type) -> Any:
    """Return the Arrow type of a type with a fixed width."""
    kind, logical = reader.kind, reader.logical
    if logical == "decimal":
        make = pa.decimal128 if reader.precision <= 38 else pa.decimal256
        return make(reader.precision, reader.scale)
    if logical == "date":
        return pa.date32()
    if logical.startswith("time-"):
        return pa.time32("ms") if kind == "int" else pa.time64("us")
    if logical:
        return pa.timestamp(UNITS[unit_of(logical)], None if logical.startswith("local") else "UTC")
    if kind == "fixed":
        return pa.binary(reader.size)
    if kind == "enum":
        return pa.dictionary(pa.int32(), pa.string())
    return PLAIN[kind]


class Columns:
    """All columns of a reader's schema. ``top``: output columns; ``root``: column of the whole value."""

    def __init__(self, reader: Type, target: pa.Schema | None = None) -> None:
        """Create the columns of a record's fields, or one column ``value`` of another type. Raises AvroProblem.

        ``target``: Arrow schema that the reader was made from; its types may name items of lists differently.
        """
        self.all: list[Column] = []
        self.slots = 1
        if reader.kind == "record":
            self.root = self.column(reader, "", ROWS)
            self.top = self.root.children
        else:
            self.root = self.column(reader, "value", ROWS)
            self.top = [self.root]
        if not self.top:
            raise AvroProblem("the record of the Avro schema has no field")
        made = pa.schema([column.field.with_nullable(True) for column in self.top])
        self.schema = made if target is None else pa.schema([field.with_nullable(True) for field in target])
        self._seen = np.zeros(self.slots)

    def added(self, column: Column) -> int:
        if len(self.all) >= COLUMNS_MOST:
            raise AvroProblem(f"the Avro schema has more than {COLUMNS_MOST} columns")
        self.all.append(column)
        return len(self.all) - 1

    def new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def column(self, reader: Type, name: str, level: int, *, member: bool = False) -> Column:
        """Create the column of a type. ``member``: of a union, so null if the value has another branch."""
        branches = [branch for branch in reader.branches if branch.kind != "null"]
        nullable = member or reader.kind == "null" or len(branches) < len(reader.branches)
        if len(branches) == 1:
            reader = branches[0]
        elif reader.kind == "union" and not branches:
            reader = reader.branches[0]
        elif branches:
            promoted = PROMOTED_UNIONS.get(frozenset(branch.kind for branch in branches))
            if promoted and not any(branch.logical for branch in branches):
                reader = Type(promoted)
            else:
                reader = Type("union")
                reader.branches = tuple(branches)
        return Column(self, reader, name, level, nullable=nullable, has_mask=nullable and reader.kind != "null")

    def seen(self, slot: int) -> float:
        """Return the largest number of entries of a slot per byte of values so far."""
        return float(self._seen[slot])

    def remember(self, counts: Any, size: int) -> None:
        """Note the entries of each slot in a block of ``size`` bytes."""
        self._seen = np.maximum(self._seen, counts / max(size, LEAST_ROOM))


class Room:
    """Buffers of the columns for one block of values, and the tables of the kernel."""

    def __init__(self, columns: Columns, rows: int, size: int) -> None:
        """Allocate the buffers. ``size``: bytes of all values."""
        self.columns = columns
        self.counts = np.zeros(columns.slots, np.int64)
        self.capacities = np.zeros(columns.slots, np.int64)
        self.table = np.zeros((len(columns.all), COLUMN_WORDS), np.int64)
        self.buffers: dict[tuple[int, str], Any] = {}
        self.counts[ROWS] = rows
        self._of_slot: dict[int, list[Column]] = {slot: [] for slot in range(columns.slots)}
        for column in columns.all:
            self.table[column.place, 3] = column.slot
            self._of_slot[column.level].append(column)
        self._texts = {column.slot: column for column in columns.all if column.layout == TEXT}
        self.reserve(ROWS, rows)
        self._size = size
        for slot in range(1, columns.slots):
            guess = columns.seen(slot) * size * 1.1 or size // (4 * columns.slots)
            self.reserve(slot, int(min(guess + LEAST_ROOM, INT32_MAX)))

    def reserve(self, slot: int, entries: int) -> None:
        """Grow the buffers of a slot. Raises AvroProblem if an Arrow column cannot have so many entries."""
        if entries > INT32_MAX:
            raise AvroProblem("the values of one fetch have more items or text than one Arrow column can store")
        self.capacities[slot] = entries
        if slot in self._texts:
            self._grow(self._texts[slot], "data", entries)
            return
        for column in self._of_slot[slot]:
            if column.has_mask:
                self._grow(column, "mask", entries)
            if column.layout == FIXED:
                self._grow(column, "data", entries * column.width)
            elif column.layout in (TEXT, LIST):
                self._grow(column, "starts", 4 * (entries + 1))

    def grow(self, slot: int, needed: int) -> None:
        """Make room for ``needed`` entries, and as many again. Raises AvroProblem as ``reserve``."""
        self.reserve(slot, max(needed, min(2 * needed, INT32_MAX)))

    def _grow(self, column: Column, name: str, size: int) -> None:
        key = column.place, name
        found = self.buffers.get(key)
        if found is None:
            found = self.buffers[key] = pa.allocate_buffer(size, resizable=True)
            if name == "starts":
                np.frombuffer(found, np.int32, 1)[:] = 0
        else:
            found.resize(size)
        self.table[column.place, ("mask", "data", "starts").index(name)] = found.address

    def arrays(self, valid_rows: Any) -> list[Any]:
        """Return the output columns. ``valid_rows``: mask of the rows that were decoded."""
        self.columns.remember(self.counts, self._size)
        for column in self.columns.all:
            if column.layout == TEXT:
                self.buffers[column.place, "data"].resize(int(self.counts[column.slot]))
        all_valid = valid_rows.all()
        rows = None if all_valid else valid_rows
        made = [column.built(self.buffers, self.counts, rows) for column in self.columns.top]
        pairs = zip(made, self.columns.schema.types, strict=True)
        return [array if array.type == kind else array.cast(kind) for array, kind in pairs]
