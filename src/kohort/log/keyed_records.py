"""Keys, tombstones and positions of the records in a batch, for compacted topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kohort.errors import CorruptRecord
from kohort.wire.codec import Buffer
from kohort.wire.compression import decompress
from kohort.wire.record_batch import HEADER_BYTES, SMALLEST_RECORD, BatchHeader
from kohort.wire.varints import read_varint

BODY_MAX_BYTES: Final = 1 << 28
"""Maximum bytes of the decompressed records of a batch."""


class KeyedRecord(NamedTuple):
    """Record at bytes ``start`` to ``end`` of a batch's records; its offset delta is at ``rest``."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    is_tombstone: bool
    start: int
    rest: int
    end: int


def body_of(batch: Buffer, header: BatchHeader) -> bytes:
    """Return the decompressed records of a complete batch. Raises CorruptRecord."""
    return decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size], BODY_MAX_BYTES)


def keyed_records(body: Buffer, header: BatchHeader) -> Iterator[KeyedRecord]:
    """Yield the records of ``body``. Raises CorruptRecord if they contradict the header's count."""
    if not 0 <= header.record_count <= len(body) // SMALLEST_RECORD:
        raise CorruptRecord(
            f"batch has {len(body)} bytes, too few or too many for {header.record_count} records",
            offset=header.base_offset,
        )
    at = 0
    try:
        for _ in range(header.record_count):
            record = _record_at(body, at, header)
            yield record
            at = record.end
    except IndexError:
        raise CorruptRecord("a record exceeds the end of its batch", offset=header.base_offset) from None
    if at != len(body):
        raise CorruptRecord(f"{len(body) - at} bytes after the last record", offset=header.base_offset)


def _record_at(body: Buffer, start: int, header: BatchHeader) -> KeyedRecord:
    size, at = read_varint(body, start)
    end = at + size
    if size < 0 or end > len(body):
        raise CorruptRecord(f"record has {size} bytes, but {len(body) - at} are left", offset=header.base_offset)
    timestamp_delta, rest = read_varint(body, at + 1)
    offset_delta, at = read_varint(body, rest)
    key_size, at = read_varint(body, at)
    key = None
    if key_size >= 0:
        key = bytes(body[at : at + key_size])
        at += key_size
    value_size, at = read_varint(body, at)
    if at > end or at + value_size > end or not 0 <= offset_delta <= header.last_offset_delta:
        raise CorruptRecord("a record does not match its length or the offsets of its batch", offset=header.base_offset)
    return KeyedRecord(offset_delta, timestamp_delta, key, value_size < 0, start, rest, end)
