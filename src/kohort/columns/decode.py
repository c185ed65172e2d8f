"""Record batches to Arrow columns in a requested schema, without an object per record.

A kernel checks all records and stores the positions of keys and values. Then each column is copied into buffers of the
right size from Arrow's memory pool: fresh numpy arrays cost three times as much, because of page faults. The column of
headers, only on request, needs a second pass over the records.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_type

from kohort.columns import kernels
from kohort.columns.batches import USUAL, OffsetRange, ReadOptions, raise_first
from kohort.columns.plain import PROBLEMS, Problem
from kohort.columns.schema import check_schema, column_of, is_text, is_wide, record_schema
from kohort.columns.section_tables import CHUNK_BYTES, NO_LIMIT, SectionTable, section_tables
from kohort.errors import CorruptRecord, UsageError
from kohort.wire.codec import Buffer

REMEMBERED_MOST: Final = 16
NOTED: Final[dict[str, tuple[int, ...]]] = {
    "topic": (),
    "partition": (),
    "offset": (kernels.OFFSETS,),
    "timestamp": (kernels.TIMES,),
    "timestamp_type": (),
    "key": (kernels.KEY_AT, kernels.KEY_LENGTH),
    "value": (kernels.VALUE_AT, kernels.VALUE_LENGTH),
    "headers": (kernels.HEADERS_AT, kernels.HEADERS_END),
}
"""Arrays that ``kernels.walk`` fills for each column."""
COLUMN_ARRAYS: Final = frozenset({kernels.OFFSETS, kernels.TIMES})
"""Arrays that ``kernels.walk`` writes in the layout of an Arrow column."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Field of a schema, and its column of records."""

    column: str
    name: str
    type: Any
    nullable: bool
    is_text: bool
    is_wide: bool


@dataclass(frozen=True, slots=True, eq=False)
class RequestedColumns:
    """Requested schema. ``noted``: kernel arrays that become columns; ``places``: kernel arrays of positions."""

    schema: Any
    columns: tuple[Column, ...]
    noted: tuple[int, ...]
    places: tuple[int, ...]


def column_for(field: Any, column: str = "") -> Column:
    kind = field.type
    return Column(column, field.name, kind, field.nullable, is_text(kind), is_wide(kind))


def requested_columns(schema: pa.Schema) -> RequestedColumns:
    """Return the columns of ``schema``. Raises UsageError for an unknown column or an unsupported type."""
    known = _remembered.get(id(schema))
    if known is not None:
        return known
    check_schema(schema)
    columns = tuple(column_for(field, column_of(field.name)) for field in schema)
    arrays = {array for column in columns for array in NOTED[column.column]}
    requested = RequestedColumns(schema, columns, tuple(arrays & COLUMN_ARRAYS), tuple(sorted(arrays - COLUMN_ARRAYS)))
    _remembered[id(schema)] = requested
    for oldest in list(_remembered)[:-REMEMBERED_MOST]:
        _remembered.pop(oldest, None)
    return requested


_remembered: Final[dict[int, RequestedColumns]] = {}
"""Cache by the schema's identity, because schemas are slow to compare; the entry keeps its schema alive."""


INT32_MAX: Final = (1 << 31) - 1
CONSTANT_LEAST: Final = 4096
CONSTANT_MOST: Final = 1 << 16
SCRATCH_MOST: Final = 16 << 20
CONSTANTS: Final = 16
"""Number of cached columns of one value; each has at most ``CONSTANT_MOST`` rows."""


def decode_batches(
    buf: Buffer,
    span: OffsetRange,
    *,
    schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    options: ReadOptions = USUAL,
) -> pa.RecordBatch:
    """Return the records of ``buf`` within ``span`` as one RecordBatch.

    ``buf``: consecutive batches, possibly with a partial one at the end; it must not change. The columns are those of
    ``schema``, or the named ``columns`` in their usual types, or all but the headers. Raises CorruptRecord with topic,
    partition and offset of the bad batch: the records before it can be read with that offset as ``end_offset``. Raises
    UsageError for unknown columns or unsupported types.
    """
    chunks = decode_chunks(buf, span, schema=schema, columns=columns, options=options, chunk_bytes=NO_LIMIT)
    (whole,) = list(chunks) or [empty(requested_schema(schema, columns))]
    return whole


def decode_chunks(
    buf: Buffer,
    span: OffsetRange,
    *,
    schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    options: ReadOptions = USUAL,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the result of ``decode_batches`` in RecordBatches of about ``chunk_bytes``; none is empty."""
    requested = requested_columns(requested_schema(schema, columns))

    def chunks(offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        for table in section_tables(buf, offsets, options, chunk_bytes):
            batch = record_batch(table, requested)
            if batch.num_rows:
                yield batch

    try:
        yield from chunks(span)
    except CorruptRecord as error:
        raise_first(error, span, lambda before: deque(chunks(before), maxlen=0))


def requested_schema(schema: pa.Schema | None, columns: Sequence[str] | None) -> pa.Schema:
    if schema is None:
        return record_schema() if columns is None else record_schema(columns)
    if columns is not None:
        raise UsageError("give a schema or names of columns, not both")
    requested_columns(schema)  # raises UsageError
    return schema


def empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def record_batch(table: SectionTable, requested: RequestedColumns) -> pa.RecordBatch:
    """Read the records of the table, and build each column."""
    each = 8 * table.room
    with scratch(each * len(requested.places)) as address:
        at = {array: address + each * i for i, array in enumerate(requested.places)}
        columns = Columns(table, requested.noted, at)
        if columns.rows == 0:
            return empty(requested.schema)
        arrays = [getattr(columns, column.column)(column) for column in requested.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=requested.schema)


@contextmanager
def scratch(size: int) -> Iterator[int]:
    """Lend scratch memory by its address, and reuse it: writing fresh memory costs page faults."""
    try:
        room = _spare.pop()
    except IndexError:
        room = None
    if room is None or room.size < size:
        room = pa.allocate_buffer(size)
    try:
        yield room.address
    finally:
        if room.size <= SCRATCH_MOST:
            _spare.append(room)


_spare: Final[deque[Any]] = deque(maxlen=2)


class Columns:
    """Columns of one RecordBatch under construction, from the positions that ``walk`` stored."""

    def __init__(self, table: SectionTable, arrays: Iterable[int], places: dict[int, int]) -> None:
        """Read the records. ``arrays`` become columns directly; ``places``: addresses of the other arrays."""
        self.table = table
        self.span = table.span
        room = 8 * table.room
        self.noted = {array: pa.allocate_buffer(room) for array in arrays}
        self.places = places
        self.found = table.walked({array: buffer.address for array, buffer in self.noted.items()} | places)
        self.rows = self.found[kernels.ROOM]

    def offset(self, field: Column) -> pa.Array:
        return pa.Array.from_buffers(field.type, self.rows, [None, self.noted[kernels.OFFSETS]], 0)

    def timestamp(self, field: Column) -> pa.Array:
        """Return timestamps in the requested unit; NULL for none, or -1 ms in a non-nullable column."""
        data = self.noted[kernels.TIMES]
        kind = in_milliseconds(field)
        times = pa.Array.from_buffers(kind, self.rows, [None, data], 0)
        if self.found[kernels.TIME_NONE] and field.nullable:
            is_none = np.frombuffer(data, np.int64, self.rows) == kernels.NO_TIMESTAMP
            times = pc.if_else(pa.array(is_none), pa.scalar(None, times.type), times)
        try:
            return times if kind == field.type else pc.cast(times, field.type, safe=field.type.unit != "s")
        except pa.ArrowInvalid as error:
            raise self.table.corrupt_row(f"a timestamp does not fit {field.type}: {error}", 0) from None

    def key(self, field: Column) -> pa.Array:
        places, lengths = self.places[kernels.KEY_AT], self.places[kernels.KEY_LENGTH]
        array = blobs(field, places, lengths, self.rows, self.found[kernels.KEY_BYTES], self.found[kernels.KEY_NULLS])
        return self.checked_text(array, field)

    def value(self, field: Column) -> pa.Array:
        places, lengths = self.places[kernels.VALUE_AT], self.places[kernels.VALUE_LENGTH]
        size, nulls = self.found[kernels.VALUE_BYTES], self.found[kernels.VALUE_NULLS]
        return self.checked_text(blobs(field, places, lengths, self.rows, size, nulls), field)

    def checked_text(self, array: pa.Array, field: Column) -> pa.Array:
        """Return the array. Raises CorruptRecord if a text column has bytes that are not UTF-8."""
        if field.is_text and (bad := first_not_text(array)) is not None:
            raise self.table.corrupt_row(f"the {field.name} is not UTF-8 text", bad)
        return array

    def headers(self, field: Column) -> pa.Array:
        """Return the headers of each record: a list, empty without headers; Spark is slow with NULL."""
        room = self.found[kernels.HEADERS]
        check_room(room, field)
        starts, items = pa.allocate_buffer(4 * (self.rows + 1)), np.empty((4, room), np.int64)
        plan = np.zeros(kernels.PLAN_FIELDS, np.int64)
        for array in NOTED["headers"]:
            plan[array] = self.places[array]
        if kernels.walk_headers(plan.ctypes.data, self.rows, starts.address, items.ctypes.data, room) != room:
            raise self.table.corrupt_row(PROBLEMS[Problem.CHANGED], 0)
        fields = [field.type.value_type.field(0), field.type.value_type.field(1)]
        key, value = map(column_for, fields)
        names = header_column(key, items[0], items[1])
        if key.is_text and first_not_text(names) is not None:
            names = with_replacements(names)
        pairs = pa.StructArray.from_arrays([names, header_column(value, items[2], items[3])], fields=fields)
        return pa.Array.from_buffers(field.type, self.rows, [None, starts], 0, children=[pairs])

    def timestamp_type(self, field: Column) -> pa.Array:
        kinds = self.table.rows[:, kernels.TIME_TYPE].tolist()
        if kinds.count(kinds[0]) == len(kinds):
            return constant(kinds[0], field, self.rows)
        return pa.array(np.repeat(kinds, self.table.rows[:, kernels.ROWS])).cast(field.type)

    def topic(self, field: Column) -> pa.Array:
        return constant(self.span.topic, field, self.rows)

    def partition(self, field: Column) -> pa.Array:
        return constant(self.span.partition, field, self.rows)


@lru_cache(maxsize=CONSTANTS)
def in_milliseconds(field: Column) -> pa.DataType:
    """Return the type in milliseconds from which timestamps are cast to the requested type."""
    return pa.timestamp("ms", field.type.tz) if is_type.is_timestamp(field.type) else pa.int64()


def constant(value: int | str, field: Column, rows: int) -> pa.Array:
    """Return a column of one value: a slice of a cached array, because the next batch mostly has the same value."""
    if rows > CONSTANT_MOST:
        return repeated(value, field, rows)
    return remembered(value, field, max(CONSTANT_LEAST, 1 << (rows - 1).bit_length())).slice(0, rows)


def repeated(value: int | str, field: Column, rows: int) -> pa.Array:
    if isinstance(value, int):
        return pa.repeat(pa.scalar(value, field.type), rows)
    return pa.repeat(pa.scalar(value), rows).cast(field.type)


remembered: Final = lru_cache(maxsize=CONSTANTS)(repeated)


def blobs(field: Column, places: int, lengths: int, rows: int, size: int, nulls: int) -> pa.Array:
    """Return a column of byte strings with ``size`` bytes in total and ``nulls`` null entries."""
    if nulls and not field.nullable:
        raise UsageError(f"column {field.name!r} is not nullable, but {nulls} of {rows} records have a null")
    if nulls == rows:
        return pa.nulls(rows, field.type)
    wide = field.is_wide
    check_room(size, field)
    starts, data = pa.allocate_buffer((rows + 1) * (8 if wide else 4)), pa.allocate_buffer(size)
    bits = bitmap(rows) if nulls else None
    column = (ctypes.c_int64 * 4)(starts.address, wide, data.address, bits.address if bits else 0)
    kernels.gather(places, lengths, rows, ctypes.addressof(column))
    return pa.Array.from_buffers(field.type, rows, [bits, starts, data], nulls)


def header_column(field: Column, places: Any, lengths: Any) -> pa.Array:
    """Return the names, or the values, of all headers."""
    size, nulls = int(lengths.clip(0).sum()), int((lengths < 0).sum())
    return blobs(field, places.ctypes.data, lengths.ctypes.data, len(lengths), size, nulls)


def with_replacements(array: pa.Array) -> pa.Array:
    """Return the array with U+FFFD for bytes that are not UTF-8, as in Java."""
    return pa.array([name.decode(errors="replace") for name in array.cast(pa.binary()).to_pylist()], array.type)


def first_not_text(array: pa.Array) -> int | None:
    """Return the index of the first entry with bytes that are not UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        for i, value in enumerate(array.cast(pa.large_binary() if is_wide(array.type) else pa.binary()).to_pylist()):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                return i
    return None


def check_room(size: int, field: Column) -> None:
    """Raise UsageError if a column has more bytes than its 32-bit offsets can count."""
    if size > INT32_MAX and not field.is_wide:
        raise UsageError(
            f"column {field.name!r} has {size} bytes, too many for {field.type}:"
            " use large_binary or large_string, or decode in chunks"
        )


def bitmap(rows: int) -> pa.Buffer:
    """Return a validity bitmap with every row null."""
    bits = pa.allocate_buffer((rows + 7) // 8)
    np.frombuffer(bits, np.uint8)[:] = 0
    return bits
