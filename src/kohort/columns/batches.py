"""Which stretches of a fetched buffer hold records that count.

A Fetch answers with whole batches as they were stored, perhaps with a partial one at the end and with records before
the offset that was asked for. This walk checks each batch, leaves out control batches and aborted transactions, and
decompresses into bounded buffers; what lies inside a stretch is for the record walks (``plain``, ``kernels``).
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
    """The records of one batch: ``data[start:end]``, decompressed."""

    header: BatchHeader
    data: Buffer
    start: int
    end: int


class OffsetRange(NamedTuple):
    """Where a buffer came from, and which of its offsets are wanted: from ``start_offset`` up to ``end_offset``."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int | None = None

    def corrupt(self, problem: str, offset: int) -> CorruptRecord:
        """Return the error that names this place."""
        return CorruptRecord(problem, topic=self.topic, partition=self.partition, offset=offset)


class ReadOptions(NamedTuple):
    """What is checked of batches, what is left out of them, and how large one may be once decompressed."""

    check_crcs: bool = True
    max_batch_bytes: int = DEFAULT_MAX_BYTES
    aborted: Sequence[tuple[int, int]] = ()
    """Transactions to leave out, as (producer id, first offset): of a Fetch with isolation level read_committed."""


USUAL: Final = ReadOptions()


def raise_first(error: CorruptRecord, wanted: OffsetRange, read: Callable[[OffsetRange], object]) -> NoReturn:
    """Raise ``error``, or the fault of an earlier batch, which a reader of many batches at once may meet after it.

    Each stage of such a reader (decompression, the walk, text) may hide an earlier fault that a later stage finds: it
    is looked before each fault until nothing is wrong there. So the records before the offset that the error names are
    good, and can be had.
    """
    while error.offset > wanted.start_offset:
        try:
            read(wanted._replace(end_offset=error.offset))
        except CorruptRecord as earlier:
            if earlier.offset >= error.offset:
                break
            error = earlier
        else:
            break
    raise error


def sections(buf: Buffer, wanted: OffsetRange, options: ReadOptions = USUAL) -> Iterator[RecordSection]:
    """Yield the batches of ``buf`` that overlap the wanted offsets. Raises CorruptRecord."""
    filter_aborted = AbortedFilter(options.aborted) if options.aborted else None
    for at, header in headers_of(buf, wanted):
        if wanted.end_offset is not None and header.base_offset >= wanted.end_offset:
            return
        if options.check_crcs:
            checked(buf, at, header, wanted)
        check_counts(header, wanted)
        if filter_aborted is not None and filter_aborted.skips(header, buf, at):
            continue
        if header.is_control or header.record_count == 0 or header.last_offset < wanted.start_offset:
            continue
        yield section_of(buf, at, header, wanted, options.max_batch_bytes)


def headers_of(buf: Buffer, wanted: OffsetRange) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the headers of the whole batches in ``buf``, in the order of their offsets. A malformed one, or one whose
    offsets go back (no checksum covers them), is an error that names the place, unless it lies after the wanted
    offsets; its own offset field is not believed, the batch before it says where it is."""
    expected, after = wanted.start_offset, 0
    try:
        for at, header in split_batches(buf):
            if header.base_offset < 0:
                problem = f"a batch of offsets {header.base_offset} to {header.last_offset}"
                raise wanted.corrupt(problem, expected)  # judged below, as any malformed batch is
            if header.base_offset < after:
                problem = f"a batch that begins at offset {header.base_offset}, after one that ends at {after - 1}"
                raise wanted.corrupt(problem, expected)
            after = header.next_offset
            expected = max(expected, after)
            yield at, header
    except CorruptRecord as error:
        if wanted.end_offset is None or expected < wanted.end_offset:
            raise wanted.corrupt(error.problem, expected) from None


def checked(buf: Buffer, at: int, header: BatchHeader, wanted: OffsetRange) -> None:
    """Raise CorruptRecord, with the place, where the CRC does not match."""
    try:
        check_crc(buf, at, header)
    except CorruptRecord as error:
        raise wanted.corrupt(error.problem, header.base_offset) from None


def check_counts(header: BatchHeader, wanted: OffsetRange) -> None:
    """Raise CorruptRecord for a header whose offsets or count no batch can have."""
    if header.last_offset_delta < 0 or header.last_offset >= INT64_MAX:
        problem = f"a batch of offsets {header.base_offset} to {header.last_offset}"
        raise wanted.corrupt(problem, max(header.base_offset, wanted.start_offset))
    if header.record_count < 0:
        raise wanted.corrupt(f"a batch of {header.record_count} records", header.base_offset)


def section_of(buf: Buffer, at: int, header: BatchHeader, wanted: OffsetRange, max_batch_bytes: int) -> RecordSection:
    """Return the stretch of one batch, decompressed if need be."""
    start, end = at + HEADER_BYTES, at + header.size
    try:
        if header.codec is Codec.NONE:
            return RecordSection(header, buf, start, end)
        data = decompress(header.codec, memoryview(buf)[start:end], max_batch_bytes)
    except CorruptRecord as error:
        raise wanted.corrupt(error.problem, header.base_offset) from None
    return RecordSection(header, data, 0, len(data))


def next_offset(buf: Buffer, start_offset: int, end_offset: int | None = None) -> int:
    """Return where reading goes on after ``buf``: past control batches and compacted gaps, which hold no record to
    count."""
    after = start_offset
    for _, header in split_batches(buf):
        after = max(after, header.next_offset)
    return after if end_offset is None else min(after, max(end_offset, start_offset))


class AbortedFilter:
    """Which transactional batches to leave out, as the consumer does it: a transaction is open from its first offset
    in the list to its marker (protocol/producers.md#aborted-transactions)."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._starts = sorted(((offset, producer_id) for producer_id, offset in aborted), reverse=True)
        self._open: set[int] = set()

    def skips(self, header: BatchHeader, buf: Buffer, at: int) -> bool:
        """Tell whether the batch belongs to an aborted transaction. Batches must come in order."""
        while self._starts and self._starts[-1][0] <= header.last_offset:
            self._open.add(self._starts.pop()[1])
        if header.producer_id not in self._open:
            return False
        if header.is_control and marker_type(buf, at, header) != COMMIT_MARKER:
            self._open.discard(header.producer_id)
        return header.is_transactional


def marker_type(buf: Buffer, at: int, header: BatchHeader) -> int:
    """Return the type in a control record's key; control batches hold one short uncompressed record, whose lengths are
    single bytes (protocol/records.md#control-records)."""
    key = at + HEADER_BYTES + 5
    return int.from_bytes(bytes(buf[key + 2 : key + 4]), "big") if key + 4 <= at + header.size else 0
