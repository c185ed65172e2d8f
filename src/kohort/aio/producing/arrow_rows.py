"""The rows of an Arrow table on their way into record batches: which column is what, and how batches are cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kohort.client.writing.accumulator import REQUEST_OVERHEAD
from kohort.client.writing.partitioner import is_default, partitioner_of
from kohort.config.client import ProducerConfig
from kohort.errors import UsageError
from kohort.extras import needs
from kohort.wire.compression import Codec

if TYPE_CHECKING:
    import pyarrow

    from kohort.columns.encode import EncodedBatch

BATCH_BYTES: Final = 1_000_000


class ArrowRows:
    """The columns that ``send_arrow`` takes. Raises UsageError for a missing value column, MissingExtra."""

    def __init__(
        self,
        table: Any,
        value: str,
        key: str | None,
        headers: str | None,
        timestamp: str | None,
        partition: str | None,
    ) -> None:
        table = _as_table(table)
        names = set(table.schema.names)
        if value not in names:
            raise UsageError(f"there is no column {value!r} for the value; there are {', '.join(table.schema.names)}")
        wanted = (key, value, timestamp, headers)
        self._columns = [table.column(name) if name in names else None for name in wanted]
        self._partition = table.column(partition) if partition in names else None

    def encoded(
        self, config: ProducerConfig, partitions: int, now_ms: int, first_unkeyed: int
    ) -> Iterator[EncodedBatch]:
        """Return the record batches, one after the other. Rows without a timestamp get ``now_ms``.

        Raises UsageError for a column of another type, and MissingExtra.
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
    """Return a table, batch, reader or data frame as a table or a batch. Raises UsageError for anything else.

    Views of text and bytes, as Polars exports them, become columns that the encoder takes.
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
