"""Convert and check the arguments of ``send_batch`` and ``send_arrow``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from kohort.aio.system import wall_ms
from kohort.client.producer import to_bytes, to_headers
from kohort.client.user_input import checked_timestamp, shown
from kohort.client.writing.accumulator import REQUEST_OVERHEAD, SendColumns
from kohort.client.writing.partitioner import is_default, partitioner_of
from kohort.config.client import ProducerConfig
from kohort.errors import UsageError
from kohort.extras import needs
from kohort.model import Header
from kohort.wire.compression import Codec

if TYPE_CHECKING:
    import pyarrow

    from kohort.columns.encode import EncodedBatch


BATCH_BYTES: Final = 1_000_000


class ArrowRows:
    """Arrow rows that ``send_arrow`` sends. Raises UsageError if the value column is missing, and MissingExtra."""

    def __init__(
        self, table: Any, value: str, key: str | None, headers: str | None, timestamp: str | None, partition: str | None
    ) -> None:
        table = _as_table(table)
        names = set(table.schema.names)
        if value not in names:
            raise UsageError(f"the value column {value!r} is missing; the columns are {', '.join(table.schema.names)}")
        wanted = (key, value, timestamp, headers)
        self._columns = [table.column(name) if name in names else None for name in wanted]
        self._partition = table.column(partition) if partition in names else None

    def encoded(
        self, config: ProducerConfig, partitions: int, now_ms: int, first_unkeyed: int
    ) -> Iterator[EncodedBatch]:
        """Yield record batches of the Arrow rows. Rows without a timestamp get ``now_ms``.

        Raises UsageError for a wrong column type, and MissingExtra.
        """
        with needs("arrow", "send_arrow"):
            from kohort.columns.encode import RecordColumns, encode_partitions
        key, value, timestamps, headers = self._columns
        return encode_partitions(
            RecordColumns(key, value, timestamps, headers, now_ms, self._partition),
            partitions=partitions,
            batch_bytes=min(BATCH_BYTES, config.max_request_size - REQUEST_OVERHEAD),
            codec=Codec[config.compression_type.upper()],
            first_unkeyed=first_unkeyed,
            by_key=None if is_default(config) else partitioner_of(config),
        )


def _as_table(given: Any) -> pyarrow.Table | pyarrow.RecordBatch:
    """Convert the argument of ``send_arrow`` to an Arrow table or batch. Raises UsageError for other values.

    Casts columns of the types string_view and binary_view, which Polars exports, to types that the encoder supports.
    """
    with needs("arrow", "send_arrow"):
        import pyarrow
    if not hasattr(given, "__arrow_c_stream__") and not isinstance(given, pyarrow.RecordBatch):
        raise UsageError(
            "send_arrow takes a pyarrow Table, RecordBatch or RecordBatchReader, or a data frame with "
            f"__arrow_c_stream__ (Polars, pandas), not {type(given).__name__}"
        )
    table = given if isinstance(given, pyarrow.Table | pyarrow.RecordBatch) else pyarrow.table(given)
    plain = {pyarrow.string_view(): pyarrow.large_string(), pyarrow.binary_view(): pyarrow.large_binary()}
    if not any(kind in plain for kind in table.schema.types):
        return table
    return table.cast(pyarrow.schema([f.with_type(plain.get(f.type, f.type)) for f in table.schema]))


Text = bytes | str | None
Headers = Sequence[tuple[str, Text]] | Mapping[str, Text]
RecordLike = Text | tuple[Text, Text] | tuple[Text, Text, Headers] | tuple[Text, Text, Headers, int]
"""Record for ``send_batch``: a value, or (key, value[, headers[, timestamp_ms]])."""
CHUNK: Final = 1000
BLOBS: Final = {bytes, NoneType}


def checked_lots(records: Iterable[RecordLike], now_ms: Callable[[], int], size: int = CHUNK) -> Iterator[SendColumns]:
    """Yield the records of ``send_batch`` in chunks of ``size``; records without a timestamp get ``now_ms()``.

    Raises UsageError for an invalid record.
    """
    given = iter(records)
    while chunk := list(islice(given, size)):
        at_ms = now_ms()
        yield _plain_lot(chunk, at_ms) or _lot(chunk, at_ms)


def _plain_lot(records: list[Any], now_ms: int) -> SendColumns | None:
    """Convert records that are all values, or all (key, value) pairs. Return None for other records.

    Each key and each value must be bytes or None.
    """
    kinds = set(map(type, records))
    keys: Sequence[bytes | None] = [None] * len(records)
    values: Sequence[bytes | None] = records
    if kinds == {tuple} and set(map(len, records)) == {2}:
        keys, values = zip(*records, strict=True)
        kinds = set(map(type, keys)) | set(map(type, values))
    return SendColumns(keys, values, [now_ms] * len(records), {}) if kinds <= BLOBS else None


def time_of_record(given: int | None) -> int:
    """Return a record's timestamp in ms, by default the current time. Raises UsageError for an invalid one."""
    if given is None or (at_ms := checked_timestamp(given)) < 0:
        return wall_ms()
    return at_ms


def _lot(records: list[RecordLike], now_ms: int) -> SendColumns:
    keys, values, timestamps, headers = zip(*map(_checked, records), strict=True)
    times = [now_ms if at_ms < 0 else at_ms for at_ms in timestamps]
    return SendColumns(keys, values, times, {place: some for place, some in enumerate(headers) if some})


def _checked(record: RecordLike) -> tuple[bytes | None, bytes | None, int, Sequence[Header]]:
    """Return a record's key, value, timestamp (-1: none) and headers. Raises UsageError for an invalid record."""
    if not isinstance(record, tuple):
        return None, to_bytes("value", record), -1, ()
    if not 2 <= len(record) <= 4:
        raise UsageError(f"a record is a value or (key, value[, headers[, timestamp_ms]]), not {shown(record)}")
    key, value = to_bytes("key", record[0]), to_bytes("value", record[1])
    headers = to_headers(record[2]) if len(record) > 2 and record[2] else ()
    return key, value, checked_timestamp(record[3]) if len(record) > 3 else -1, headers
