"""Arrow columns, or lists, to record batches by partition, with the partitioner of Java's producer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as is_type

from kohort.columns import pack
from kohort.columns.schema import HEADERS_TYPE, is_blob, is_wide
from kohort.errors import UsageError
from kohort.wire.compression import Codec, compress
from kohort.wire.record_batch import AFTER_CRC, HEADER_BYTES, assemble_batch

Column: TypeAlias = Any
"""Arrow array or chunked array, sequence, or None."""

BATCH_BYTES: Final = 1_000_000
"""Default size limit of a batch in bytes before compression: a broker's default max.message.bytes."""
LARGEST_BODY: Final = (1 << 31) - 1 - HEADER_BYTES


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    partition: int
    records: int
    data: bytes


class RecordColumns(NamedTuple):
    """Columns of the records to encode; None for a missing column.

    Keys and values are binary or text, with nulls. ``timestamps``: a timestamp column, or milliseconds; rows without
    one get ``timestamp_ms``. ``headers``: lists of (name, value), or list<struct<key, value>>, or a map column.
    ``partitions``: partition of each row; null: by key.
    """

    keys: Column
    values: Column
    timestamps: Column = None
    headers: Column = None
    timestamp_ms: int = -1
    partitions: Column = None


def encode_partitions(
    columns: RecordColumns,
    *,
    partitions: int,
    batch_bytes: int = BATCH_BYTES,
    codec: Codec = Codec.NONE,
    first_unkeyed: int = 0,
    by_key: Callable[[bytes | None, int], int | None] | None = None,
) -> Iterator[EncodedBatch]:
    """Yield the rows as record batches of about ``batch_bytes`` before compression, by partition, rows in order.

    A row's partition is that of ``columns.partitions``; if null, that of its key by ``by_key(key, partitions)`` or by
    Java's hash. Rows without a key fill a batch of one partition after another, from ``first_unkeyed`` on. Raises
    UsageError for unsupported columns.
    """
    rows = Rows(columns)
    keyed = None if by_key is None else rows.partitions_by(by_key, partitions)
    chosen = rows.partitions(partitions, columns.partitions, first_unkeyed % partitions, batch_bytes, keyed)
    rows.add(pack.ORDER, np.argsort(chosen, kind="stable"))
    end = 0
    for number, count in enumerate(np.bincount(chosen, minlength=partitions).tolist()):
        first, end = end, end + count
        for body, records, base_time, max_time in rows.bodies(first, end, batch_bytes):
            payload = body if codec is Codec.NONE else compress(codec, body)
            summed = AFTER_CRC.pack(codec, records - 1, base_time, max_time, -1, -1, -1, records)
            yield EncodedBatch(number, records, assemble_batch(0, -1, summed, payload))


class Rows:
    """Rows to encode, as arrays of addresses and lengths. ``keep``: arrays that the addresses point into."""

    def __init__(self, given: RecordColumns) -> None:
        """Convert the columns. Raises UsageError for unsupported types or different lengths."""
        columns = {"key": arrow_blobs(given.keys, "key"), "value": arrow_blobs(given.values, "value")}
        columns["timestamp"] = arrow_times(given.timestamps)
        columns["headers"] = arrow_headers(given.headers)
        lengths = {name: len(column) for name, column in columns.items() if column is not None}
        if len(set(lengths.values())) > 1:
            raise UsageError(f"columns of different lengths: {', '.join(f'{n} {c}' for n, c in lengths.items())}")
        self.count = next(iter(lengths.values()), 0)
        self.columns = columns
        self.plan = np.zeros(pack.PLAN_FIELDS, np.int64)
        self.keep: list[Any] = []
        self.key_places, self.key_lengths = self.blobs(columns["key"], pack.KEY_AT)
        _, self.value_lengths = self.blobs(columns["value"], pack.VALUE_AT)
        self.add_times(columns["timestamp"], given.timestamp_ms)
        self.add(pack.ORDER, np.arange(self.count))
        if columns["headers"] is not None:
            self.add_headers(columns["headers"])

    def add(self, array: int, values: Any) -> None:
        """Put an array of int64 into the plan."""
        values = np.ascontiguousarray(values, np.int64)
        self.keep.append(values)
        self.plan[array] = values.ctypes.data

    def add_times(self, column: pa.Array | None, timestamp_ms: int) -> None:
        """Put the timestamps into the plan. ``timestamp_ms``: timestamp of rows that have none."""
        if column is not None:
            times = column.fill_null(timestamp_ms).to_numpy(zero_copy_only=False)
        else:
            times = np.full(self.count, timestamp_ms, np.int64)
        real = np.flatnonzero(times != pack.NO_TIMESTAMP)
        self.plan[pack.SOME_TIME] = times[real[0]] if len(real) else pack.NO_TIMESTAMP
        self.add(pack.TIMES, times)

    def blobs(self, column: pa.Array | None, array: int) -> tuple[Any, Any]:
        """Put a column of byte strings into the plan: positions as ``array``, lengths as the next one."""
        if column is None:
            return None, None
        places, lengths = blob_places(column)
        self.add(array, places)
        self.add(array + 1, lengths)
        return places, lengths

    def add_headers(self, column: pa.Array) -> None:
        """Put the headers into the plan: first and last item of each row, then names and values of all items."""
        starts = column.offsets.to_numpy().astype(np.int64)
        ends = starts[1:].copy()
        if column.null_count:
            is_null = column.is_null().to_numpy(zero_copy_only=False)
            ends[is_null] = starts[:-1][is_null]
        names, values = column.values.flatten()
        if names.null_count and null_in_use(names, starts[:-1], ends):
            raise UsageError("a header without a name")
        self.add(pack.FIRST_HEADER, starts[:-1])
        self.add(pack.END_HEADER, ends)
        self.columns |= {"names": arrow_blobs(names, "headers.key"), "contents": arrow_blobs(values, "headers.value")}
        self.blobs(self.columns["names"], pack.NAME_AT)
        self.blobs(self.columns["contents"], pack.CONTENT_AT)

    def partitions_by(self, by_key: Callable[[bytes | None, int], int | None], partitions: int) -> Any:
        column = self.columns["key"]
        keys = [None] * self.count if column is None else column.cast(pa.large_binary()).to_pylist()
        found = [by_key(key, partitions) for key in keys]
        return np.array([-1 if place is None else place for place in found], np.int64)

    def partitions(
        self, partitions: int, explicit: Column, first_unkeyed: int, batch_bytes: int, keyed: Any = None
    ) -> Any:
        """Return the partition of each row; ``keyed``: partitions by key, unless Java's hash decides."""
        chosen = np.full(self.count, -1, np.int64) if keyed is None else keyed
        if keyed is None and self.key_places is not None:
            places, lengths = self.key_places.ctypes.data, self.key_lengths.ctypes.data
            pack.choose_partitions(places, lengths, self.count, partitions, chosen.ctypes.data)
        if explicit is not None:
            chosen = explicit_partitions(explicit, chosen, partitions)
        unkeyed = np.flatnonzero(chosen < 0)
        if len(unkeyed):
            sizes = 8 + (np.zeros(len(unkeyed)) if self.value_lengths is None else self.value_lengths[unkeyed].clip(0))
            batches = (np.cumsum(sizes) - sizes).astype(np.int64) // batch_bytes
            chosen[unkeyed] = (first_unkeyed + batches) % partitions
        return chosen.astype(np.int16) if partitions <= SORTED_FAST else chosen

    def bodies(self, first: int, end: int, limit: int) -> Iterator[tuple[bytes, int, int, int]]:
        """Yield the records ``first`` to ``end`` in order, as batch bodies: bytes, count, base and max timestamp."""
        at = self.plan.ctypes.data
        while first < end:
            count = pack.fit(at, first, end, min(limit, LARGEST_BODY))
            size, base_time, max_time = self.plan[pack.BODY_BYTES : pack.MAX_TIME + 1].tolist()
            if size > LARGEST_BODY:
                raise UsageError(f"a record of {size} bytes does not fit a batch of 2 GiB")
            body = pa.allocate_buffer(size)
            if pack.write(at, first, count, base_time, body.address) != size:
                raise UsageError("the columns changed during encoding")
            yield body.to_pybytes(), count, base_time, max_time
            first += count


def arrow_blobs(column: Column, name: str) -> pa.Array | None:
    """Return a column of byte strings as one Arrow array."""
    array = in_one_piece(column, pa.binary(), name)
    if array is None or is_blob(array.type):
        return array
    if is_type.is_null(array.type):
        return None if name != "value" else pa.nulls(len(array), pa.binary())
    if is_type.is_dictionary(array.type):
        return arrow_blobs(array.dictionary_decode(), name)
    if is_type.is_fixed_size_binary(array.type) or is_type.is_binary_view(array.type):
        return array.cast(pa.binary())
    if is_type.is_string_view(array.type):
        return array.cast(pa.string())
    raise UsageError(f"column {name!r} has type {array.type}, not binary or text: cast it, or convert it to JSON")


def arrow_times(column: Column) -> pa.Array | None:
    """Return a column of timestamps in milliseconds since 1970."""
    array = in_one_piece(column, None, "timestamp")
    if array is None or array.type == pa.int64():
        return array
    if is_type.is_timestamp(array.type):
        return array.cast(pa.timestamp("ms", array.type.tz), safe=False).cast(pa.int64())
    if is_type.is_integer(array.type) or is_type.is_null(array.type):
        return array.cast(pa.int64())
    raise UsageError(f"column 'timestamp' has type {array.type}, not a timestamp, or an integer for milliseconds")


def arrow_headers(column: Column) -> pa.Array | None:
    """Return a column of lists of (name, value)."""
    if isinstance(column, Sequence):
        column = [None if row is None else [{"key": name, "value": value} for name, value in row] for row in column]
    array = in_one_piece(column, HEADERS_TYPE, "headers")
    if array is None or is_type.is_map(array.type):
        return array
    if is_type.is_list(array.type) and is_type.is_struct(array.type.value_type):
        if array.type.value_type.num_fields == 2:
            return array
    elif is_type.is_null(array.type):
        return None
    raise UsageError(f"column 'headers' has type {array.type}, not list<struct<key, value>> or map<string, binary>")


def in_one_piece(column: Column, kind: pa.DataType | None, name: str) -> pa.Array | None:
    """Return a list, a chunked array or an array as one Arrow array."""
    if column is None or isinstance(column, pa.Array):
        return column
    if isinstance(column, pa.ChunkedArray):
        combined = column.combine_chunks()
        return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
    try:
        return pa.array(column, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UsageError(f"column {name!r}: {error}") from None


def blob_places(array: pa.Array) -> tuple[Any, Any]:
    """Return the address and length of each entry; length -1 for null."""
    _, starts_buffer, data = array.buffers()
    count = len(array)
    if count == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    kind = np.int64 if is_wide(array.type) else np.int32
    starts = np.frombuffer(starts_buffer, kind, array.offset + count + 1)[array.offset :].astype(np.int64)
    lengths = np.diff(starts)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return starts[:-1] + (data.address if data is not None else 0), lengths


def explicit_partitions(column: Column, chosen: Any, partitions: int) -> Any:
    """Return the explicit partition of each row, or the one in ``chosen`` if it has none."""
    array = in_one_piece(column, pa.int64(), "partition")
    if array is None or len(array) != len(chosen):
        raise UsageError(f"column 'partition' does not have the {len(chosen)} rows of the other columns")
    if not is_type.is_integer(array.type):
        raise UsageError(f"column 'partition' has type {array.type}, not an integer type")
    named = array.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    wrong = ((named < 0) | (named >= partitions)) & ~is_null
    if wrong.any():
        raise UsageError(f"partition {named[wrong][0]} does not exist; the topic has {partitions}")
    return np.where(is_null, chosen, named)


def null_in_use(names: pa.Array, starts: Any, ends: Any) -> bool:
    """Return True if a list has a header with a null name; Arrow allows nulls between the lists."""
    nulls = np.concatenate(([0], np.cumsum(names.is_null().to_numpy(zero_copy_only=False))))
    return bool((nulls[ends] > nulls[starts]).any())


SORTED_FAST: Final = 32_767
"""numpy sorts 16-bit numbers by radix, which is faster."""
