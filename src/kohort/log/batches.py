"""Batches in a segment file: iterate and check their headers, read slices of stored bytes.

The CRC of a batch does not cover its base offset, so one flipped bit moves an intact batch. The neighbouring batches
reveal the error: offsets increase, a segment begins at the end of the previous one, and only compaction leaves gaps.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import crc32c

from kohort.errors import CorruptRecord, StorageError
from kohort.log.index import RELATIVE_OFFSET_MAX
from kohort.log.storage import StorageFile
from kohort.wire.codec import Buffer
from kohort.wire.record_batch import (
    CRC_STARTS_AT,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    SMALLEST_LENGTH,
    BatchHeader,
    check_crc,
    parse_batch_header,
    split_batches,
)


@dataclass(slots=True, eq=False)
class LogSlice:
    """Stored batches of one segment, read on demand."""

    lend: Callable[[int, int], Buffer]
    """Function that reads bytes of the segment: position and size to a buffer. Raises StorageError."""
    position: int
    size: int
    next_offset: int
    """Offset after the last batch."""
    prefix: Buffer

    def __len__(self) -> int:
        return self.size

    @property
    def preloaded(self) -> Buffer | None:
        """Bytes of a slice that is completely in memory, else None."""
        prefix, size = len(self.prefix), self.size
        if prefix < size:
            return None
        return self.prefix if prefix == size else memoryview(self.prefix)[:size]

    def read(self, at: int, size: int) -> Buffer:
        """Read ``size`` bytes at position ``at`` of the slice. Raises StorageError."""
        if at + size <= len(self.prefix):
            return memoryview(self.prefix)[at : at + size]
        data = self.lend(self.position + at, size)
        if len(data) < size:
            raise StorageError(f"only {len(data)} of {size} bytes are left of a batch")
        return data

    def load(self) -> Buffer:
        preloaded = self.preloaded
        return self.read(0, self.size) if preloaded is None else preloaded


WINDOW_BYTES: Final = 1 << 20
"""Number of bytes that a check reads at once; the CRC of a larger batch takes several reads."""


def headers(file: StorageFile, at: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch between two file positions, without its records.

    Raises CorruptRecord at an incomplete batch or a malformed header.
    """
    while at < end:
        header = parse_batch_header(file.read(at, HEADER_BYTES))
        size = header.size
        if size > end - at:
            raise CorruptRecord(incomplete(header, end - at), offset=header.base_offset)
        yield at, header
        at += size


def checked_headers(file: StorageFile, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch before ``end`` after a CRC check.

    Raises CorruptRecord at the first bad batch, after all batches before it.
    """
    at, window, window_at = 0, b"", 0
    while at < end:
        if at + HEADER_BYTES > window_at + len(window):
            window, window_at = file.read(at, min(WINDOW_BYTES, end - at)), at
        header = parse_batch_header(window, at - window_at)
        size = header.size
        if size > end - at:
            raise CorruptRecord(incomplete(header, end - at), offset=header.base_offset)
        if at + size > window_at + len(window) and size <= WINDOW_BYTES:
            window, window_at = file.read(at, min(WINDOW_BYTES, end - at)), at
        if size <= WINDOW_BYTES:
            check_crc(window, at - window_at, header)
        else:
            _check_crc_in_pieces(file, at, header)
        yield at, header
        at += size


def whole_batches(file: StorageFile, at: int, end: int, size: int) -> tuple[bytes, list[tuple[int, BatchHeader]]]:
    """Return the complete batches within ``size`` bytes, or only the first batch if it is larger.

    Returns the bytes, and the position and header of each batch. Checks CRCs. Raises CorruptRecord.
    """
    data = file.read(at, min(size, end - at))
    first = parse_batch_header(data)
    if first.size > end - at:
        raise CorruptRecord(incomplete(first, end - at), offset=first.base_offset)
    if first.size > len(data):
        data = file.read(at, first.size)
    found = list(split_batches(data))
    for place, header in found:
        check_crc(data, place, header)
    return data, found


def incomplete(header: BatchHeader, present: int) -> str:
    return f"batch incomplete: {present} of {header.size} bytes"


def _check_crc_in_pieces(file: StorageFile, at: int, header: BatchHeader) -> None:
    crc, place, end = 0, at + CRC_STARTS_AT, at + header.size
    while place < end:
        piece = file.read(place, min(WINDOW_BYTES, end - place))
        if not piece:
            raise CorruptRecord(incomplete(header, place - at), offset=header.base_offset)
        crc = crc32c.crc32c(piece, crc)
        place += len(piece)
    if crc != header.crc:
        raise CorruptRecord(f"CRC is {crc:#010x}, expected {header.crc:#010x}", offset=header.base_offset)


_place: Final = struct.Struct(">qi11xi")
"""Base offset, length and last offset delta of a batch."""
SEARCH_BYTES: Final = 4096
WALK_BYTES: Final = 1 << 16
LARGE_BYTES: Final = 1 << 14
UNSIGNED: Final = (1 << 64) - 1


def misplaced(base_offset: int, last_offset: int, expected: int) -> CorruptRecord:
    return CorruptRecord(f"batch has offsets {base_offset} to {last_offset}, expected {expected}")


def check_place(header: BatchHeader, expected: int, segment_base: int, before: int | None = None) -> None:
    """Check that a batch can follow the batch that ends before ``expected``. Raises CorruptRecord.

    ``before``: first offset of the next segment, if known.
    """
    if header.last_offset_delta < 0 or header.base_offset < expected:
        raise misplaced(header.base_offset, header.last_offset, expected)
    if before is not None and header.last_offset >= before:
        raise CorruptRecord(f"batch ends at offset {header.last_offset}, but the next segment begins at {before}")
    if header.last_offset - segment_base > RELATIVE_OFFSET_MAX:
        raise CorruptRecord(
            f"batch ends at offset {header.last_offset}, too far from the segment's base offset {segment_base}"
        )


def original_base_offset(
    header: BatchHeader, expected: int, after: int | None, segment_base: int, *, contiguous: bool
) -> int:
    """Return the base offset that a batch with a valid CRC had when it was written, before a bit flipped.

    ``expected``: end of the previous batch; ``after``: base offset of the next batch, if known; a log that is not
    ``contiguous`` may have gaps. Raises CorruptRecord if the offset cannot be determined.
    """
    count = header.last_offset_delta + 1
    if count <= 0:
        raise misplaced(header.base_offset, header.last_offset, expected)
    given = header.base_offset
    possible = expected <= given <= segment_base + RELATIVE_OFFSET_MAX - header.last_offset_delta
    if given == expected or (possible and (not contiguous if after is None else given + count <= after)):
        return given
    most = expected if after is None else after - count
    if after is not None and most == expected:
        return expected
    candidates = [found for bit in range(64) if expected <= (found := (given & UNSIGNED) ^ (1 << bit)) <= most]
    if len(candidates) == 1:
        return candidates[0]
    if possible and most < expected:
        return given  # the next batch is misplaced
    raise misplaced(given, header.last_offset, expected)


class Search:
    """Search for batches in one segment file; neighbouring batches confirm each base offset."""

    __slots__ = ("_file", "_reach", "_size", "_window", "_window_at")

    def __init__(self, file: StorageFile, size: int, reach: int) -> None:
        """Prepare a search. ``reach``: offset at which the next segment begins or the log ends."""
        self._file = file
        self._size = size
        self._reach = reach
        self._window: Buffer = b""
        self._window_at = 0

    def look(self, at: int, size: int) -> Buffer:
        """Read a part of the file into the window and return it."""
        self._window, self._window_at = self._file.lend(at, min(size, self._size - at)), at
        return self._window

    def find(self, offset: int, at: int, expected: int) -> int:
        """Return the position of the batch with ``offset``, else of the next one, else the file size.

        The search begins at position ``at``, whose batch begins at offset ``expected`` or later. Raises CorruptRecord
        if the base offset of that batch contradicts its neighbours.
        """
        while at < self._size:
            base, last, size = self.place(at)
            bound = self._reach if base == expected else self._base_of(at + size)
            if expected <= base <= last < bound:
                if last >= offset:
                    return at
                expected = last + 1
            elif offset < bound or base <= offset <= last:
                raise _at(at, misplaced(base, last, expected))
            else:
                expected = max(expected, bound)
            at += size
        return at

    def readable(self, start: int, limit: int, expected: int, end: int) -> tuple[int, int]:
        """Return the size and end offset of the consistent batches from ``start`` on.

        The batches fit in ``limit`` bytes and begin before offset ``end``. Raises CorruptRecord if the first batch,
        expected at offset ``expected``, is bad; a later bad batch ends the result.
        """
        at, limit, length = 0, min(limit, self._size - start), 0
        while limit - at >= HEADER_BYTES:
            if not self._shows(start + at):
                self.look(start + at, WALK_BYTES if length < LARGE_BYTES else SEARCH_BYTES)
            data, begins = self._window, self._window_at - start
            last_header = min(len(data) + begins, limit) - HEADER_BYTES
            if at > last_header:
                break  # the file was truncated
            while at <= last_header:
                base, length, delta = _place.unpack_from(data, at - begins)
                stop = at + LENGTH_ENDS_AT + length
                if base != expected or length < SMALLEST_LENGTH or not 0 <= delta < self._reach - base:
                    problem = self._problem(start + at, expected)
                    if problem is not None:
                        if at:
                            return at, expected
                        raise problem
                if base >= end or stop > limit:
                    return at, expected
                at, expected = stop, base + delta + 1
        return at, expected

    def _shows(self, at: int) -> bool:
        return self._window_at <= at <= self._window_at + len(self._window) - HEADER_BYTES

    def _problem(self, at: int, expected: int) -> CorruptRecord | None:
        try:
            base, last, size = self.place(at)
            if expected <= base <= last < (self._reach if base == expected else self._base_of(at + size)):
                return None
        except CorruptRecord as error:
            return error
        return _at(at, misplaced(base, last, expected))

    def _base_of(self, at: int) -> int:
        return min(self.place(at)[0], self._reach) if at < self._size else self._reach

    def place(self, at: int) -> tuple[int, int, int]:
        """Return first offset, last offset and size of the batch at position ``at``. Raises CorruptRecord."""
        if not self._shows(at):
            self.look(at, SEARCH_BYTES)
        here, left = at - self._window_at, self._size - at
        if len(self._window) - here < HEADER_BYTES:
            raise _at(at, CorruptRecord("the file was truncated, or does not end with a batch"))
        base, length, delta = _place.unpack_from(self._window, here)
        if not SMALLEST_LENGTH <= length <= left - LENGTH_ENDS_AT:
            raise _at(at, CorruptRecord(f"invalid batch length {length}"))
        return base, base + delta, LENGTH_ENDS_AT + length


def _at(position: int, error: CorruptRecord) -> CorruptRecord:
    return CorruptRecord(f"at position {position}: {error.problem}")
