"""The rows of an Arrow table on their way into record batches: which column is what, and how batches are cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

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
    """The columns that ``send_arrow`` was told to take. Raises UsageError if the value's is not there."""

    def __init__(
        self,
        table: pyarrow.Table | pyarrow.RecordBatch,
        value: str,
        key: str | None,
        headers: str | None,
        timestamp: str | None,
        partition: str | None,
    ) -> None:
        if not hasattr(table, "schema"):
            raise UsageError(f"send_arrow takes a pyarrow Table or RecordBatch, not {type(table).__name__}")
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
            RecordColumns(key, value, timestamps, headers, now_ms),
            partition=self._partition,
            partitions=partitions,
            batch_bytes=min(BATCH_BYTES, config.max_request_size - REQUEST_OVERHEAD),
            codec=Codec[config.compression_type.upper()],
            first_unkeyed=first_unkeyed,
            by_key=None if is_default(config) else partitioner_of(config),
        )
