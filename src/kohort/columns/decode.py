"""Record batches to Arrow: the columns asked for, in just the schema asked for, without an object per record.

One walk of the kernels checks everything and notes where keys and values lie; each column of them is then gathered into
buffers of just its size. All buffers come from Arrow's own pool (fresh numpy arrays would cost three times as much, in
page faults). Headers take a second walk, on request only.
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
"""Arrays that a walk over records fills for each column."""
COLUMN_ARRAYS: Final = frozenset({kernels.OFFSETS, kernels.TIMES})
"""Arrays that a walk writes in the layout of an Arrow column."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One field of a schema, and which column of records it asks for."""

    column: str
    name: str
    type: Any
    nullable: bool
    is_text: bool
    is_wide: bool


@dataclass(frozen=True, slots=True, eq=False)
class RequestedColumns:
    """``noted``: what a walk writes as columns; ``places``: what it writes for columns to be gathered from."""

    schema: Any
    columns: tuple[Column, ...]
    noted: tuple[int, ...]
    places: tuple[int, ...]


def column_for(field: Any, column: str = "") -> Column:
    kind = field.type
    return Column(column, field.name, kind, field.nullable, is_text(kind), is_wide(kind))


def requested_columns(schema: pa.Schema) -> RequestedColumns:
    """Raise UsageError for a column that records do not have, or one of a type that it cannot take."""
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
"""By the identity of the schema, which is nobody else's as long as the form holds it: schemas are slow to compare."""


INT32_MAX: Final = (1 << 31) - 1
CONSTANT_LEAST: Final = 4096
CONSTANT_MOST: Final = 1 << 16
SCRATCH_MOST: Final = 16 << 20
CONSTANTS: Final = 16
"""Columns of one value up to so many rows are remembered, and so many of them."""


def decode_batches(
    buf: Buffer,
    wanted: OffsetRange,
    *,
    schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    options: ReadOptions = USUAL,
) -> pa.RecordBatch:
    """Return the wanted records of ``buf`` (consecutive batches, perhaps with a partial one at the end), as one
    RecordBatch.

    The columns are those of ``schema``, or those named by ``columns`` in their usual types, or all but the headers.
    ``buf`` must not change meanwhile. Raises CorruptRecord, with topic, partition and the offset of the bad batch; the
    records before it are had by asking again with that offset as ``end_offset``. Raises UsageError for columns that
    cannot be had.
    """
    chunks = decode_chunks(buf, wanted, schema=schema, columns=columns, options=options, chunk_bytes=NO_LIMIT)
    (whole,) = list(chunks) or [empty(wanted_schema(schema, columns))]
    return whole


def decode_chunks(
    buf: Buffer,
    wanted: OffsetRange,
    *,
    schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    options: ReadOptions = USUAL,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield what ``decode_batches`` returns in as many RecordBatches as it takes for none to hold much more than
    ``chunk_bytes``: for buffers that decompress to more than should be in memory at once. Empty ones are left out."""
    requested = requested_columns(wanted_schema(schema, columns))

    def chunks(offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        for table in section_tables(buf, offsets, options, chunk_bytes):
            batch = record_batch(table, requested)
            if batch.num_rows:
                yield batch

    try:
        yield from chunks(wanted)
    except CorruptRecord as error:
        raise_first(error, wanted, lambda before: deque(chunks(before), maxlen=0))


def wanted_schema(schema: pa.Schema | None, columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema that the caller's words amount to, checked."""
    if schema is None:
        return record_schema() if columns is None else record_schema(columns)
    if columns is not None:
        raise UsageError("give a schema or names of columns, not both")
    requested_columns(schema)  # it is checked there
    return schema


def empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def record_batch(table: SectionTable, requested: RequestedColumns) -> pa.RecordBatch:
    """Walk the table, and build each column from what the walk noted."""
    each = 8 * table.room
    with scratch(each * len(requested.places)) as address:
        at = {array: address + each * i for i, array in enumerate(requested.places)}
        columns = Columns(table, requested.noted, at)
        if columns.rows == 0:
            return empty(requested.schema)
        arrays = [BUILDERS[column.column](columns, column) for column in requested.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=requested.schema)


@contextmanager
def scratch(size: int) -> Iterator[int]:
    """Lend room for a moment, by its address. The next who needs some gets the same: to touch memory that
    is new costs more than to write it."""
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
    """The columns of one RecordBatch under construction, from the places that ``walk`` noted."""

    def __init__(self, table: SectionTable, arrays: Iterable[int], places: dict[int, int]) -> None:
        """``arrays`` become columns as they are noted; ``places`` (array to address) are noted for the others."""
        self.table = table
        self.wanted = table.wanted
        room = 8 * table.room
        self.noted = {array: pa.allocate_buffer(room) for array in arrays}
        self.places = places
        self.found = table.walked({array: buffer.address for array, buffer in self.noted.items()} | places)
        self.rows = self.found[kernels.ROOM]

    def offset(self, field: Column) -> pa.Array:
        return pa.Array.from_buffers(field.type, self.rows, [None, self.noted[kernels.OFFSETS]], 0)

    def timestamp(self, field: Column) -> pa.Array:
        """Return timestamps in the unit asked for; a record without one gets NULL, or -1 ms where NULL is not
        allowed."""
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
        """Return the array. Raises CorruptRecord where its type is text and its bytes are not UTF-8."""
        if field.is_text and (bad := first_not_text(array)) is not None:
            raise self.table.corrupt_row(f"the {field.name} is not UTF-8 text", bad)
        return array

    def headers(self, field: Column) -> pa.Array:
        """Return the headers of each record: a list, empty where there are none, never NULL (Spark is slow with
        those)."""
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
        return constant(self.wanted.topic, field, self.rows)

    def partition(self, field: Column) -> pa.Array:
        return constant(self.wanted.partition, field, self.rows)


@lru_cache(maxsize=CONSTANTS)
def in_milliseconds(field: Column) -> pa.DataType:
    """Return the type that timestamps have before they are cast to what ``field`` asks for."""
    return pa.timestamp("ms", field.type.tz) if is_type.is_timestamp(field.type) else pa.int64()


def constant(value: int | str, field: Column, rows: int) -> pa.Array:
    """Return a column of one value. Most are slices of one array that is made once: the next batch of the same
    partition has the same columns."""
    if rows > CONSTANT_MOST:
        return repeated(value, field, rows)
    return remembered(value, field, max(CONSTANT_LEAST, 1 << (rows - 1).bit_length())).slice(0, rows)


def repeated(value: int | str, field: Column, rows: int) -> pa.Array:
    if isinstance(value, int):
        return pa.repeat(pa.scalar(value, field.type), rows)
    return pa.repeat(pa.scalar(value), rows).cast(field.type)


remembered: Final = lru_cache(maxsize=CONSTANTS)(repeated)


def blobs(field: Column, places: int, lengths: int, rows: int, size: int, nulls: int) -> pa.Array:
    """Return a column of byte strings: ``size`` bytes in all, ``nulls`` of them null."""
    if nulls and not field.nullable:
        raise UsageError(f"column {field.name!r} may not be null, but {nulls} of the {rows} records here have none")
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
    """Return the array with U+FFFD for bytes that are not UTF-8, as the plain decoder and Java read them."""
    return pa.array([name.decode(errors="replace") for name in array.cast(pa.binary()).to_pylist()], array.type)


def first_not_text(array: pa.Array) -> int | None:
    """Return the first entry whose bytes are not UTF-8."""
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
    """Raise UsageError where a column holds more bytes than its offsets can count."""
    if size > INT32_MAX and not field.is_wide:
        raise UsageError(
            f"column {field.name!r} would hold {size} bytes, more than {field.type} can count; "
            f"ask for large_binary or large_string, or decode in chunks"
        )


def bitmap(rows: int) -> pa.Buffer:
    """Return a validity bitmap with every row null."""
    bits = pa.allocate_buffer((rows + 7) // 8)
    np.frombuffer(bits, np.uint8)[:] = 0
    return bits


BUILDERS: Final = {
    "topic": Columns.topic,
    "partition": Columns.partition,
    "offset": Columns.offset,
    "timestamp": Columns.timestamp,
    "timestamp_type": Columns.timestamp_type,
    "key": Columns.key,
    "value": Columns.value,
    "headers": Columns.headers,
}
