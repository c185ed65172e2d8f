"""Selection of the record sections of a fetched buffer.

A Fetch response has whole batches as stored, with records before the fetch offset and a partial batch at the end.
``sections`` checks each batch, skips control batches and aborted transactions, and decompresses up to a limit;
``plain`` and ``kernels`` read the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn

from kohort.errors import CorruptRecord
from kohort.wire.codec import Buffer
from kohort.wire.compression import DEFAULT_MAX_BYTES, Codec, decompress
from kohort.wire.record_batch import HEADER_BYTES, BatchHeader, check_crc, split_batches

INT64_MAX: Final = (1 << 63) - 1
COMMIT_MARKER: Final = 1


@dataclass(slots=True)
class RecordSection:
    """Decompressed records of one batch: bytes ``start`` to ``end`` of ``data``."""

    header: BatchHeader
    data: Buffer
    start: int
    end: int


class OffsetRange(NamedTuple):
    """Source partition of a buffer, and its offsets to read: ``start_offset`` up to ``end_offset``."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int | None = None

    def corrupt(self, problem: str, offset: int) -> CorruptRecord:
        return CorruptRecord(problem, topic=self.topic, partition=self.partition, offset=offset)


class ReadOptions(NamedTuple):
    """Checks of batches, size limit after decompression, and aborted transactions to skip."""

    check_crcs: bool = True
    max_batch_bytes: int = DEFAULT_MAX_BYTES
    aborted: Sequence[tuple[int, int]] = ()
    """(producer id, first offset) of aborted transactions, from a Fetch with isolation level read_committed."""


USUAL: Final = ReadOptions()


def raise_first(error: CorruptRecord, span: OffsetRange, read: Callable[[OffsetRange], object]) -> NoReturn:
    """Raise ``error``, or the error of an earlier batch.

    A reader of many batches may find the error of a later batch first: decompression, parsing of records and decoding
    of text each process all batches. So the batches before the error are read again until that succeeds; then all
    records before the offset of the raised error are valid.
    """
    while error.offset > span.start_offset:
        try:
            read(span._replace(end_offset=error.offset))
        except CorruptRecord as earlier:
            if earlier.offset >= error.offset:
                break
            error = earlier
        else:
            break
    raise error


def sections(buf: Buffer, span: OffsetRange, options: ReadOptions = USUAL) -> Iterator[RecordSection]:
    """Yield the batches of ``buf`` that overlap ``span``. Raises CorruptRecord."""
    filter_aborted = AbortedFilter(options.aborted) if options.aborted else None
    for at, header in headers_of(buf, span):
        if span.end_offset is not None and header.base_offset >= span.end_offset:
            return
        if options.check_crcs:
            checked(buf, at, header, span)
        check_counts(header, span)
        if filter_aborted is not None and filter_aborted.skips(header, buf, at):
            continue
        if header.is_control or header.record_count == 0 or header.last_offset < span.start_offset:
            continue
        yield section_of(buf, at, header, span, options.max_batch_bytes)


def headers_of(buf: Buffer, span: OffsetRange) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch in ``buf``, with increasing offsets.

    Raises CorruptRecord for a malformed header or decreasing offsets within ``span``. The error has the end offset of
    the previous batch, because no checksum covers the base offset.
    """
    expected, after = span.start_offset, 0
    try:
        for at, header in split_batches(buf):
            if header.base_offset < 0:
                problem = f"batch has offsets {header.base_offset} to {header.last_offset}"
                raise span.corrupt(problem, expected)  # the handler below checks its offset
            if header.base_offset < after:
                problem = f"batch begins at offset {header.base_offset}, after a batch that ends at {after - 1}"
                raise span.corrupt(problem, expected)
            after = header.next_offset
            expected = max(expected, after)
            yield at, header
    except CorruptRecord as error:
        if span.end_offset is None or expected < span.end_offset:
            raise span.corrupt(error.problem, expected) from None


def checked(buf: Buffer, at: int, header: BatchHeader, span: OffsetRange) -> None:
    """Check the CRC. Raises CorruptRecord with topic, partition and offset."""
    try:
        check_crc(buf, at, header)
    except CorruptRecord as error:
        raise span.corrupt(error.problem, header.base_offset) from None


def check_counts(header: BatchHeader, span: OffsetRange) -> None:
    """Check the offsets and the count of a header. Raises CorruptRecord."""
    if header.last_offset_delta < 0 or header.last_offset >= INT64_MAX:
        problem = f"batch has offsets {header.base_offset} to {header.last_offset}"
        raise span.corrupt(problem, max(header.base_offset, span.start_offset))
    if header.record_count < 0:
        raise span.corrupt(f"batch has a count of {header.record_count} records", header.base_offset)


def section_of(buf: Buffer, at: int, header: BatchHeader, span: OffsetRange, max_batch_bytes: int) -> RecordSection:
    """Return the decompressed records of one batch."""
    start, end = at + HEADER_BYTES, at + header.size
    try:
        if header.codec is Codec.NONE:
            return RecordSection(header, buf, start, end)
        data = decompress(header.codec, memoryview(buf)[start:end], max_batch_bytes)
    except CorruptRecord as error:
        raise span.corrupt(error.problem, header.base_offset) from None
    return RecordSection(header, data, 0, len(data))


def next_offset(buf: Buffer, start_offset: int, end_offset: int | None = None) -> int:
    """Return the next offset to fetch after ``buf``, past control batches and compacted gaps."""
    after = start_offset
    for _, header in split_batches(buf):
        after = max(after, header.next_offset)
    return after if end_offset is None else min(after, max(end_offset, start_offset))


class AbortedFilter:
    """Filter of aborted transactional batches, for a consumer (protocol/producers.md#aborted-transactions).

    A transaction is open from its first offset in the list to its marker.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._starts = sorted(((offset, producer_id) for producer_id, offset in aborted), reverse=True)
        self._open: set[int] = set()

    def skips(self, header: BatchHeader, buf: Buffer, at: int) -> bool:
        """Return True if the batch belongs to an aborted transaction. Needs the batches in order."""
        while self._starts and self._starts[-1][0] <= header.last_offset:
            self._open.add(self._starts.pop()[1])
        if header.producer_id not in self._open:
            return False
        if header.is_control and marker_type(buf, at, header) != COMMIT_MARKER:
            self._open.discard(header.producer_id)
        return header.is_transactional


def marker_type(buf: Buffer, at: int, header: BatchHeader) -> int:
    """Return the type in the key of a control record (protocol/records.md#control-records)."""
    key = at + HEADER_BYTES + 5  # all lengths before the key are single bytes
    return int.from_bytes(bytes(buf[key + 2 : key + 4]), "big") if key + 4 <= at + header.size else 0
