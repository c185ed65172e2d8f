"""Record batches to Arrow: exactly the columns asked for, in exactly the schema asked for, without an object per record.

Two walks of the kernels: one checks everything and measures, one fills buffers of just that size from Arrow's own pool
(fresh numpy arrays would cost three times as much, in page faults). Headers take a third walk, on request only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kohort.columns import kernels, scan
from kohort.columns.batches import Place
from kohort.columns.problems import Problem, corrupt
from kohort.columns.schema import check_schema, column_of, is_text, is_wide, record_schema
from kohort.columns.table import SectionTable, section_tables
from kohort.errors import UsageError
from kohort.wire.codec import Buffer
from kohort.wire.compression import DEFAULT_MAX_BYTES

INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
CHUNK_BYTES: Final = 64 << 20
UNITS: Final = {"s": (1, 1000), "ms": (1, 1), "us": (1000, 1), "ns": (1_000_000, 1)}
"""Milliseconds to each unit: times, divided by."""


def decode_batches(
    buf: Buffer,
    *,
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int | None = None,
    schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    check_crcs: bool = True,
    max_batch_bytes: int = DEFAULT_MAX_BYTES,
    aborted: Iterable[tuple[int, int]] = (),
) -> pa.RecordBatch:
    """The records of ``buf`` (consecutive batches, perhaps with a partial one at the end) whose offsets lie in
    ``start_offset <= offset < end_offset``, as one RecordBatch.

    The columns are those of ``schema``, or those named by ``columns`` in their usual types, or all but the headers.
    ``buf`` must not change meanwhile. Raises CorruptRecord, with topic, partition and the offset of the bad batch; the
    records before it are had by asking again with that offset as ``end_offset``.
    """
    schema = wanted_schema(schema, columns)
    place = Place(topic, partition, start_offset, end_offset)
    tables = section_tables(buf, place, check_crcs=check_crcs, max_batch_bytes=max_batch_bytes, aborted=aborted)
    table = next(tables, None)
    return empty(schema) if table is None else record_batch(table, schema)


def decode_chunks(
    buf: Buffer,
    *,
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int | None = None,
    schema: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    check_crcs: bool = True,
    max_batch_bytes: int = DEFAULT_MAX_BYTES,
    aborted: Iterable[tuple[int, int]] = (),
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[pa.RecordBatch]:
    """As ``decode_batches``, in as many RecordBatches as it takes for none to hold much more than ``chunk_bytes``: for
    buffers that decompress to more than should be in memory at once. Empty ones are left out."""
    schema = wanted_schema(schema, columns)
    place = Place(topic, partition, start_offset, end_offset)
    for table in section_tables(
        buf,
        place,
        check_crcs=check_crcs,
        max_batch_bytes=max_batch_bytes,
        aborted=aborted,
        chunk_bytes=chunk_bytes,
    ):
        batch = record_batch(table, schema)
        if batch.num_rows:
            yield batch


def wanted_schema(schema: pa.Schema | None, columns: Sequence[str] | None) -> pa.Schema:
    """The schema that the caller's words amount to, checked."""
    if schema is None:
        return record_schema() if columns is None else record_schema(columns)
    if columns is not None:
        raise UsageError("give a schema or names of columns, not both")
    check_schema(schema)
    return schema


def empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def record_batch(table: SectionTable, schema: pa.Schema) -> pa.RecordBatch:
    """Measure, fill, and wrap what was filled."""
    totals = table.measured().tolist()
    rows = totals[kernels.ALL_ROWS]
    if rows == 0:
        return empty(schema)
    columns = Columns(table, totals)
    fields = {column_of(field.name): field for field in schema}
    columns.fill({name: field for name, field in fields.items() if name in FILLED})
    arrays = [BUILDERS[column_of(field.name)](columns, field) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Columns:
    """The columns of one RecordBatch under construction."""

    def __init__(self, table: SectionTable, totals: list[int]) -> None:
        self.table = table
        self.place = table.place
        self.totals = totals
        self.rows = totals[kernels.ALL_ROWS]
        self.filled: dict[str, pa.Array] = {}

    def fill(self, fields: dict[str, pa.Field]) -> None:
        """One walk for offset, timestamp, key and value, as far as they are asked for."""
        if not fields:
            return
        plan = np.zeros(kernels.PLAN_FIELDS, np.int64)
        plan[kernels.ROW_ROOM] = self.rows
        finish: dict[str, Callable[[], pa.Array]] = {}
        for name, field in fields.items():
            finish[name] = PLANNERS[name](self, field, plan)
        self.walked(kernels.fill, plan)
        self.filled = {name: build() for name, build in finish.items()}

    def walked(self, kernel: Callable[..., int], plan: Any) -> None:
        """Run a filling kernel. It finds what was measured, unless the buffer changed under it."""
        if kernel(*self.table.span, plan.ctypes.data) != self.rows:
            raise corrupt(Problem.CHANGED, 0, int(self.table.rows[0, scan.BASE_OFFSET]), self.place)

    def offset(self, field: pa.Field, plan: Any) -> Callable[[], pa.Array]:
        data = pa.allocate_buffer(8 * self.rows)
        plan[kernels.OFFSETS] = data.address
        return lambda: pa.Array.from_buffers(field.type, self.rows, [None, data])

    def timestamp(self, field: pa.Field, plan: Any) -> Callable[[], pa.Array]:
        unit = field.type.unit if pa.types.is_timestamp(field.type) else "ms"
        times, over = UNITS[unit]
        self.check_times(times, field)
        data = pa.allocate_buffer(8 * self.rows)
        nulls = self.totals[kernels.TIME_NONE] if field.nullable else 0
        bits = bitmap(self.rows) if nulls else None
        plan[kernels.TIMES], plan[kernels.TIME_TIMES], plan[kernels.TIME_OVER] = data.address, times, over
        plan[kernels.TIME_BITS] = bits.address if bits else 0
        return lambda: pa.Array.from_buffers(field.type, self.rows, [bits, data], nulls)

    def check_times(self, times: int, field: pa.Field) -> None:
        """A timestamp in the unit asked for must fit 64 bits; -1, for none, always does."""
        if self.totals[kernels.TIME_NONE] == self.rows:
            return
        low, high = self.totals[kernels.TIME_MIN] * times, self.totals[kernels.TIME_MAX] * times
        if low < -INT64_MAX or high > INT64_MAX:
            problem = f"a timestamp between {low // times} and {high // times} ms does not fit {field.type}"
            raise self.place.corrupt(problem, int(self.table.rows[0, scan.BASE_OFFSET]))

    def key(self, field: pa.Field, plan: Any) -> Callable[[], pa.Array]:
        nulls, size = self.totals[kernels.KEY_NULLS], self.totals[kernels.KEY_BYTES]
        return self.blobs(field, plan[kernels.KEYS : kernels.VALUES], self.rows, nulls, size)

    def value(self, field: pa.Field, plan: Any) -> Callable[[], pa.Array]:
        nulls, size = self.totals[kernels.VALUE_NULLS], self.totals[kernels.VALUE_BYTES]
        return self.blobs(field, plan[kernels.VALUES : kernels.ROW_ROOM], self.rows, nulls, size)

    def blobs(self, field: pa.Field, plan: Any, rows: int, nulls: int, size: int) -> Callable[[], pa.Array]:
        """A column of byte strings; all of them null needs no walk and no memory to speak of."""
        if nulls and not field.nullable:
            raise UsageError(f"column {field.name!r} may not be null, but {nulls} of the {rows} records here have none")
        if nulls == rows and rows:
            return lambda: pa.nulls(rows, field.type)
        wide = is_wide(field.type)
        check_room(size, field, wide=wide)
        starts, data = pa.allocate_buffer((rows + 1) * (8 if wide else 4)), pa.allocate_buffer(size)
        bits = bitmap(rows) if nulls else None
        np.frombuffer(starts, np.int64 if wide else np.int32)[0] = 0
        plan[kernels.STARTS], plan[kernels.IS_WIDE], plan[kernels.DATA] = starts.address, int(wide), data.address
        plan[kernels.BITS], plan[kernels.ROOM] = bits.address if bits else 0, size
        return lambda: self.checked_text(pa.Array.from_buffers(field.type, rows, [bits, starts, data], nulls), field)

    def checked_text(self, array: pa.Array, field: pa.Field) -> pa.Array:
        """The array itself, once its bytes are known to be UTF-8 where its type promises that."""
        if is_text(field.type):
            try:
                array.validate(full=True)
            except pa.ArrowInvalid:
                at = int(self.table.rows[0, scan.BASE_OFFSET])
                raise self.place.corrupt(f"a {field.name} is not UTF-8 text; ask for binary", at) from None
        return array

    def headers(self, field: pa.Field) -> pa.Array:
        """The headers of each record: a list, empty where there are none, never NULL (Spark is slow with those)."""
        count = self.totals[kernels.HEADERS]
        check_room(count, field, wide=False)
        plan = np.zeros(kernels.HEADER_PLAN_FIELDS, np.int64)
        lists = pa.allocate_buffer(4 * (self.rows + 1))
        np.frombuffer(lists, np.int32)[0] = 0
        plan[kernels.LISTS], plan[kernels.LIST_ROOM], plan[kernels.ITEM_ROOM] = lists.address, self.rows, count
        key, value = field.type.value_type.field(0), field.type.value_type.field(1)
        names_plan = plan[kernels.NAMES : kernels.CONTENTS]
        names = self.blobs(key, names_plan, count, 0, self.totals[kernels.HEADER_KEY_BYTES])
        nulls, size = self.totals[kernels.HEADER_VALUE_NULLS], self.totals[kernels.HEADER_VALUE_BYTES]
        contents = self.blobs(value, plan[kernels.CONTENTS : kernels.LIST_ROOM], count, nulls, size)
        self.walked(kernels.fill_headers, plan)
        pairs = pa.StructArray.from_arrays([names(), contents()], fields=[key, value])
        return pa.Array.from_buffers(field.type, self.rows, [None, lists], 0, children=[pairs])

    def timestamp_type(self, field: pa.Field) -> pa.Array:
        rows, kinds = self.table.rows[:, scan.ROWS], self.table.rows[:, scan.TIME_TYPE]
        if (kinds == kinds[0]).all():
            return pa.repeat(pa.scalar(int(kinds[0]), field.type), self.rows)
        return pa.array(np.repeat(kinds, rows)).cast(field.type)

    def topic(self, field: pa.Field) -> pa.Array:
        return pa.repeat(pa.scalar(self.place.topic), self.rows).cast(field.type)

    def partition(self, field: pa.Field) -> pa.Array:
        return pa.repeat(pa.scalar(self.place.partition, field.type), self.rows)


def check_room(size: int, field: pa.Field, *, wide: bool) -> None:
    """Raise UsageError where the bytes of a column are more than its 32-bit offsets can count."""
    if size > INT32_MAX and not wide:
        raise UsageError(
            f"column {field.name!r} would hold {size} bytes, more than {field.type} can count; "
            f"ask for large_binary or large_string, or decode in chunks"
        )


def bitmap(rows: int) -> pa.Buffer:
    """A validity bitmap with every row null."""
    bits = pa.allocate_buffer((rows + 7) // 8)
    np.frombuffer(bits, np.uint8)[:] = 0
    return bits


PLANNERS: Final = {
    "offset": Columns.offset,
    "timestamp": Columns.timestamp,
    "key": Columns.key,
    "value": Columns.value,
}
FILLED: Final = frozenset(PLANNERS)
BUILDERS: Final[dict[str, Callable[[Columns, pa.Field], pa.Array]]] = {
    name: (lambda columns, field, name=name: columns.filled[name]) for name in PLANNERS
} | {
    "headers": Columns.headers,
    "topic": Columns.topic,
    "partition": Columns.partition,
    "timestamp_type": Columns.timestamp_type,
}
