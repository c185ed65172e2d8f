"""Record batches of a Fetch response, decoded to records or Arrow batches in the thread that consumes them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from kohort.client.reading.subscription import PartitionState, Position
from kohort.columns.batches import OffsetRange, ReadOptions
from kohort.columns.records import records_of
from kohort.errors import CorruptRecord, KohortError
from kohort.extras import needs
from kohort.model import NO_EPOCH, Record, TopicPartition
from kohort.wire.codec import Buffer

if TYPE_CHECKING:
    import pyarrow

    from kohort.columns.layout import Layout

T = TypeVar("T")

_HEAD: Final = struct.Struct(">qii")
_LAST_DELTA: Final = struct.Struct(">i")
_LAST_DELTA_AT: Final = 23
_LENGTH_ENDS_AT: Final = 12
_BATCH_MIN: Final = 61


@dataclass(slots=True)
class Span:
    """End of the last complete batch of a partition in a Fetch response.

    ``size``: total size of the complete batches in bytes. ``broken``: a batch has an invalid header, so the batches
    after it cannot be found.
    """

    next_offset: int
    leader_epoch: int
    size: int
    broken: bool


def span_of(data: Buffer, start_offset: int) -> Span:
    """Read the batch headers in a Fetch response; ignore a partial batch at the end."""
    at, end = 0, len(data)
    next_offset, epoch = start_offset, NO_EPOCH
    while end - at >= _BATCH_MIN:
        base_offset, length, batch_epoch = _HEAD.unpack_from(data, at)
        size = length + _LENGTH_ENDS_AT
        if size < _BATCH_MIN:
            return Span(next_offset, epoch, at, broken=True)
        if size > end - at:
            break
        last = base_offset + _LAST_DELTA.unpack_from(data, at + _LAST_DELTA_AT)[0]
        if last < next_offset and at > 0:
            return Span(next_offset, epoch, at, broken=True)
        next_offset = max(next_offset, last + 1)
        epoch = batch_epoch
        at += size
    return Span(next_offset, epoch, at, broken=False)


@dataclass(slots=True, eq=False)
class Fetched:
    """Batches of one partition from one Fetch response.

    ``at``: number of its records that polls have returned.
    """

    partition: TopicPartition
    state: PartitionState
    run: int
    node_id: int
    start_offset: int
    next_offset: int
    leader_epoch: int
    data: Buffer
    aborted: list[tuple[int, int]] = field(default_factory=list)
    records: list[Record] | None = None
    at: int = 0
    taken_at: Position | None = None
    error: CorruptRecord | None = None
    undecodable: KohortError | None = None

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def is_stale(self) -> bool:
        return self.state.run != self.run

    def damage(self) -> int:
        """Return a checksum of the first damaged batch, or of its header alone if the header is invalid.

        If the next fetch has the same checksum, the log is damaged. Otherwise the bytes were damaged in transit.
        """
        assert self.error is not None
        at, end = 0, len(self.data)
        while end - at >= _BATCH_MIN:
            base_offset, length, _ = _HEAD.unpack_from(self.data, at)
            size = length + _LENGTH_ENDS_AT
            if not _BATCH_MIN <= size <= end - at:
                break
            if base_offset + _LAST_DELTA.unpack_from(self.data, at + _LAST_DELTA_AT)[0] >= self.error.offset:
                return zlib.crc32(self.data[at : at + size])
            at += size
        return zlib.crc32(self.data[at : at + _BATCH_MIN])

    def decode_records(self, *, check_crcs: bool) -> list[Record]:
        """Decode and keep the records before the first corrupt batch. Store the error of that batch in ``error``."""
        if self.records is None:
            self.records = self._until_corrupt(lambda end_offset: self._records(end_offset, check_crcs=check_crcs))
        return self.records

    def decode_arrow(self, *, check_crcs: bool, layout: Layout) -> list[pyarrow.RecordBatch]:
        """Decode the records before the first corrupt batch to Arrow batches.

        Stores the error of the corrupt batch in ``error``.
        """
        return self._until_corrupt(lambda end_offset: self._arrow(end_offset, layout, check_crcs=check_crcs))

    def _until_corrupt(self, decode: Callable[[int | None], list[T]]) -> list[T]:
        try:
            return decode(None)
        except CorruptRecord as error:
            self.error = error
            return decode(error.offset) if error.offset > self.start_offset else []

    def _range(self, end_offset: int | None) -> OffsetRange:
        return OffsetRange(self.partition.topic, self.partition.partition, self.start_offset, end_offset)

    def _options(self, *, check_crcs: bool) -> ReadOptions:
        return ReadOptions(check_crcs=check_crcs, aborted=self.aborted)

    def _records(self, end_offset: int | None, *, check_crcs: bool) -> list[Record]:
        return records_of(self.data, self._range(end_offset), self._options(check_crcs=check_crcs))

    def _arrow(self, end_offset: int | None, layout: Layout, *, check_crcs: bool) -> list[pyarrow.RecordBatch]:
        with needs("arrow", "decoding to Arrow"):
            from kohort.columns.decode import decode_chunks
        options = self._options(check_crcs=check_crcs)
        chunks = decode_chunks(self.data, self._range(end_offset), schema=layout.decoded, options=options)
        return [layout.finish(chunk, self.partition.topic, self.partition.partition) for chunk in chunks]
