"""Walk the batches of a log file: by their headers alone, or with every check that recovery makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import crc32c

from kohort.errors import CorruptRecord
from kohort.log.storage import StorageFile
from kohort.wire.record_batch import (
    CRC_STARTS_AT,
    HEADER_BYTES,
    BatchHeader,
    check_crc,
    parse_batch_header,
    split_batches,
)

WINDOW_BYTES: Final = 1 << 20
"""How much of a file is held while it is checked; a larger batch is summed in pieces of this size."""


def headers(file: StorageFile, at: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from ``at`` to ``end``; the records are not read.

    Raises CorruptRecord where a batch is not whole or its header cannot be one.
    """
    while at < end:
        header = parse_batch_header(file.read(at, HEADER_BYTES))
        size = header.size
        if size > end - at:
            raise CorruptRecord(incomplete(header, end - at), offset=header.base_offset)
        yield at, header
        at += size


def checked_headers(file: StorageFile, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from the beginning to ``end``, its CRC checked.

    Raises CorruptRecord at the first batch that is bad; all before it were yielded.
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
    """Return the batches from ``at`` that lie whole within ``size`` bytes, or the first alone if it is larger.

    Returns the bytes, and where in them each batch begins with its header; the CRCs are checked. Raises CorruptRecord.
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
    """Return what is wrong with a batch that ends before its length."""
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
        raise CorruptRecord(f"CRC {crc:#010x}, but the batch says {header.crc:#010x}", offset=header.base_offset)
