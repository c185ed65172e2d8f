"""Record batches (magic 2): header, checksum and records (protocol/records.md#batches).

The broker reads the header, checks the CRC, and sets base offset and leader epoch, which the CRC does not cover. The
functions that build and read records, one Python object each, are for small batches (system topics, tests) and for
installations without the kernels of ``columns``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import crc32c

from kohort.errors import CorruptRecord, ProtocolError
from kohort.model import Header
from kohort.wire.codec import Buffer, decode, encode_bytes
from kohort.wire.compression import DEFAULT_MAX_BYTES, Codec, codec_of, compress, decompress
from kohort.wire.messages.transaction_records import ControlRecordKey, EndTxnMarker
from kohort.wire.varints import read_varint, varint_bytes

R = TypeVar("R")
KeyValue = tuple[bytes | None, bytes | None]
ReadOne = Callable[[bytes, int, "BatchHeader"], tuple[R, int]]
"""Reads the record at a position; returns it and its end."""

_layout = struct.Struct(">qiibIhiqqqhii")
_head = struct.Struct(">qii")
_before_summed = struct.Struct(">qiibI")
AFTER_CRC: Final = struct.Struct(">hiqqqhii")
"""Header fields from the attributes on."""
_length = struct.Struct(">i")
_new = tuple.__new__
"""Constructor of a named tuple; three times faster than ``_make``, which also counts the fields."""

MAGIC: Final = 2
HEADER_BYTES: Final = _layout.size
LENGTH_ENDS_AT: Final = 12
CRC_STARTS_AT: Final = 21
SMALLEST_LENGTH: Final = HEADER_BYTES - LENGTH_ENDS_AT

CODEC_BITS: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
"""Set if the base timestamp is the time from which compaction drops tombstones and the marker (KIP-534)."""
CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
SMALLEST_RECORD: Final = 7
"""Size in bytes: length, attributes, two deltas, two null lengths and a header count."""
LARGEST_USUAL_RECORD: Final = 4 + 63 + 1 + 63 + 1
"""Size in bytes of the largest record with one-byte lengths of key and value, and no headers."""
SMALL_ENOUGH_TO_COPY: Final = 1024
"""Size in bytes below which a copy is cheaper than a view."""


class NewRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    timestamp_ms: int = -1


class ReadRecord(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class BatchHeader(NamedTuple):
    """Header of a record batch: the 61 bytes before the records."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return LENGTH_ENDS_AT + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the batch, including compacted records."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record (0 follows 2**31 - 1); -1 without a sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF

    @property
    def codec(self) -> Codec:
        """Compression codec. Raises CorruptRecord for an unknown one."""
        return codec_of(self.attributes & CODEC_BITS)

    @property
    def timestamp_type(self) -> int:
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which compaction drops tombstones and the marker; None before compaction sets it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


# ---------------------------------------------------------------- headers


def parse_batch_header(buf: Buffer, at: int = 0) -> BatchHeader:
    """Return the header of the batch at ``at``, without its records.

    Raises CorruptRecord for fewer than 61 bytes, or an invalid length or magic. Other fields are not checked.
    """
    if len(buf) - at < HEADER_BYTES:
        raise CorruptRecord(f"a batch header of {max(len(buf) - at, 0)} bytes, fewer than {HEADER_BYTES}")
    header = _new(BatchHeader, _layout.unpack_from(buf, at))
    if header.magic != MAGIC:
        raise CorruptRecord(f"a batch of format {header.magic}; only format {MAGIC} is read", offset=header.base_offset)
    if header.batch_length < SMALLEST_LENGTH:
        raise CorruptRecord(f"a batch length of {header.batch_length}", offset=header.base_offset)
    return header


def split_batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each complete batch in ``buf``; ignore a partial last batch."""
    at, end = 0, len(buf)
    while end - at >= HEADER_BYTES:
        header = parse_batch_header(buf, at)
        size = header.size
        if size > end - at:
            return
        yield at, header
        at += size


def check_crc(buf: Buffer, at: int, header: BatchHeader) -> None:
    """Raise CorruptRecord on a wrong CRC or missing bytes."""
    size = header.size
    if size > len(buf) - at:
        raise CorruptRecord(f"a batch of {size} bytes with {len(buf) - at} present", offset=header.base_offset)
    view = buf if size < SMALL_ENOUGH_TO_COPY else memoryview(buf)
    crc = crc32c.crc32c(view[at + CRC_STARTS_AT : at + size])
    if crc != header.crc:
        raise CorruptRecord(f"CRC is {crc:#010x}, expected {header.crc:#010x}", offset=header.base_offset)


def with_offset(batch: Buffer, base_offset: int, leader_epoch: int) -> list[Buffer]:
    """Return ``batch`` at ``base_offset``: its first 16 bytes rewritten, and a view of the rest."""
    length = _length.unpack_from(batch, 8)[0]
    return [_head.pack(base_offset, length, leader_epoch), memoryview(batch)[_head.size :]]


# ---------------------------------------------------------------- records


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytes:
    """Return a batch. ``log_append_time_ms``: one timestamp for all records, of type LogAppendTime."""
    base_timestamp = records[0].timestamp_ms if records else -1
    max_timestamp = max((r.timestamp_ms for r in records), default=-1)
    body = bytearray()
    for delta, record in enumerate(records):
        _append_record(body, record, record.timestamp_ms - base_timestamp, delta)
    attributes = codec | is_transactional * TRANSACTIONAL_BIT | is_control * CONTROL_BIT
    if log_append_time_ms is not None:
        attributes |= TIMESTAMP_TYPE_BIT
        max_timestamp = log_append_time_ms
    payload = body if codec is Codec.NONE else compress(codec, body)
    summed = AFTER_CRC.pack(
        attributes,
        max(len(records) - 1, 0),
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    return assemble_batch(base_offset, leader_epoch, summed, payload)


def pack_batch(header: BatchHeader, payload: Buffer) -> bytes:
    """Return a batch with the fields of ``header`` and ``payload``, the encoded records; computes length and CRC."""
    return assemble_batch(header.base_offset, header.partition_leader_epoch, AFTER_CRC.pack(*header[5:]), payload)


def assemble_batch(base_offset: int, leader_epoch: int, summed: bytes, payload: Buffer) -> bytes:
    """Return a batch of its header after the CRC, packed in ``summed``, and ``payload``, the encoded records."""
    crc = crc32c.crc32c(payload, crc32c.crc32c(summed))
    head = _before_summed.pack(base_offset, SMALLEST_LENGTH + len(payload), leader_epoch, MAGIC, crc)
    return b"".join((head, summed, payload))


def _append_record(body: bytearray, record: NewRecord, timestamp_delta: int, offset_delta: int) -> None:
    inner = bytearray(b"\x00")
    inner += varint_bytes(timestamp_delta)
    inner += varint_bytes(offset_delta)
    _append_bytes(inner, record.key)
    _append_bytes(inner, record.value)
    inner += varint_bytes(len(record.headers))
    for name, value in record.headers:
        _append_bytes(inner, name.encode())
        _append_bytes(inner, value)
    body += varint_bytes(len(inner))
    body += inner


def _append_bytes(inner: bytearray, value: bytes | None) -> None:
    if value is None:
        inner += b"\x01"
        return
    inner += varint_bytes(len(value))
    inner += value


def read_batch(buf: Buffer, at: int = 0, *, max_bytes: int = DEFAULT_MAX_BYTES) -> list[ReadRecord]:
    """Return the records of the batch at ``at``, without a CRC check.

    Raises CorruptRecord if it is malformed, TooLarge above ``max_bytes`` of decompressed records.
    """
    return _read_all(buf, at, parse_batch_header(buf, at), max_bytes, _read_record)


def read_pairs(buf: Buffer, at: int, header: BatchHeader, *, max_bytes: int = DEFAULT_MAX_BYTES) -> list[KeyValue]:
    """Return key and value of each record of the batch at ``at``: fast for millions of small records.

    Raises as ``read_batch``.
    """
    lone = _lone_pair(buf, at, header) if header.record_count == 1 and type(buf) is bytes else None
    return [lone] if lone is not None else _read_all(buf, at, header, max_bytes, _read_pair)


def _lone_pair(buf: bytes, at: int, header: BatchHeader) -> KeyValue | None:
    """Return the record of a batch with one small record (``_read_pair``); None for any other batch."""
    end = at + LENGTH_ENDS_AT + header.batch_length
    at += HEADER_BYTES
    if end > len(buf) or end - at < SMALLEST_RECORD or header.attributes & CODEC_BITS or header.last_offset_delta < 0:
        return None
    size, at = (buf[at], at + 1) if buf[at] < 0x80 else (buf[at] & 0x7F | buf[at + 1] << 7, at + 2)
    if size != (end - at) << 1 or end - at > LARGEST_USUAL_RECORD or buf[at + 1] | buf[at + 2]:
        return None
    key_size = buf[at + 3]
    value_at = at + 4 + (key_size >> 1)
    if value_at >= end:
        return None
    value_size = buf[value_at]
    last = value_at + 1 + (value_size >> 1)
    if (key_size | value_size) & 0x81 or last + 1 != end or buf[last]:
        return None
    return buf[at + 4 : value_at], buf[value_at + 1 : last]


def _read_all(buf: Buffer, at: int, header: BatchHeader, max_bytes: int, read: ReadOne[R]) -> list[R]:
    try:
        return _read_records(buf, at, header, max_bytes, read)
    except CorruptRecord as error:
        error.offset = header.base_offset
        raise


def _read_records(buf: Buffer, at: int, header: BatchHeader, max_bytes: int, read: ReadOne[R]) -> list[R]:
    if header.size > len(buf) - at:
        raise CorruptRecord(f"a batch of {header.size} bytes with {len(buf) - at} present")
    if header.last_offset_delta < 0:
        raise CorruptRecord(f"a last offset delta of {header.last_offset_delta}")
    body = decompress(header.codec, memoryview(buf)[at + HEADER_BYTES : at + header.size], max_bytes)
    count = header.record_count
    if not 0 <= count <= len(body) // SMALLEST_RECORD:
        raise CorruptRecord(f"a count of {count} records in {len(body)} bytes")
    records: list[R] = []
    place = 0
    try:
        for _ in range(count):
            record, place = read(body, place, header)
            records.append(record)
    except IndexError:
        raise CorruptRecord(f"record {len(records)} of {count} runs past the end of its batch") from None
    except UnicodeDecodeError as error:
        raise CorruptRecord(f"record {len(records)} of {count} has a header whose key is not UTF-8: {error}") from None
    if place != len(body):
        raise CorruptRecord(f"{len(body) - place} bytes after the last of {count} records")
    return records


def _read_pair(body: bytes, at: int, header: BatchHeader) -> tuple[KeyValue, int]:
    """Read a small record at once: key and value of up to 63 bytes, no headers."""
    size, key_at = read_varint(body, at)
    end = key_at + size
    _, key_at = read_varint(body, key_at + 1)
    offset_delta, key_at = read_varint(body, key_at)
    key_size = body[key_at]
    value_at = key_at + 1 + (key_size >> 1)
    value_size = body[value_at]
    last = value_at + 1 + (value_size >> 1)
    usual = not (key_size | value_size) & 0x81 and last + 1 == end <= len(body) and not body[last]
    if usual and 0 <= offset_delta <= header.last_offset_delta:
        return (body[key_at + 1 : value_at], body[value_at + 1 : last]), end
    record, end = _read_record(body, at, header)
    return (record.key, record.value), end


def _read_record(body: bytes, at: int, header: BatchHeader) -> tuple[ReadRecord, int]:
    size, at = read_varint(body, at)
    end = at + size
    if size < 0 or end > len(body):
        raise CorruptRecord(f"a record of {size} bytes with {len(body) - at} left")
    timestamp_delta, at = read_varint(body, at + 1)
    offset_delta, at = read_varint(body, at)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise CorruptRecord(f"an offset delta of {offset_delta} in a batch that ends at {header.last_offset_delta}")
    key, at = _read_bytes(body, at, end)
    value, at = _read_bytes(body, at, end)
    count, at = read_varint(body, at)
    if not 0 <= count <= (end - at) // 2:
        raise CorruptRecord(f"a count of {count} headers with {end - at} bytes left in the record")
    headers: list[Header] = []
    for _ in range(count):
        name, at = _read_bytes(body, at, end)
        if name is None:
            raise CorruptRecord("a record header without a key")
        content, at = _read_bytes(body, at, end)
        headers.append((name.decode(), content))
    if at != end:
        raise CorruptRecord(f"a record that ends {end - at} bytes before its length says")
    if header.attributes & TIMESTAMP_TYPE_BIT:
        timestamp_ms = header.max_timestamp
    elif header.base_timestamp < 0:
        timestamp_ms = -1
    else:
        timestamp_ms = header.base_timestamp + timestamp_delta
    return ReadRecord(header.base_offset + offset_delta, timestamp_ms, key, value, headers), end


def _read_bytes(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_varint(body, at)
    if size < 0:
        if size != -1:
            raise CorruptRecord(f"a length of {size}")
        return None, at
    if size > end - at:
        raise CorruptRecord(f"a length of {size} with {end - at} bytes left in the record")
    return body[at : at + size], at + size


ABORT: Final = 0
COMMIT: Final = 1
MARKER_MAX_BYTES: Final = 1 << 10


class Marker(NamedTuple):
    """Marker that ends a transaction. ``coordinator_epoch``: leader epoch of the transaction coordinator."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int


def build_marker(marker: Marker, now_ms: int) -> bytes:
    key = encode_bytes(ControlRecordKey(version=0, type=COMMIT if marker.committed else ABORT), 0)
    value = encode_bytes(EndTxnMarker(version=0, coordinator_epoch=marker.coordinator_epoch), 0)
    return build_batch(
        [NewRecord(key, value, (), now_ms)],
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def parse_marker(batch: Buffer, header: BatchHeader) -> Marker | None:
    """Return the marker in a control batch; None for another type or for a batch emptied by compaction.

    Raises CorruptRecord for a malformed record.
    """
    if not header.is_transactional or not header.record_count:
        return None
    (record,) = read_batch(batch, max_bytes=MARKER_MAX_BYTES)[:1]
    try:
        key, _ = decode(ControlRecordKey, 0, record.key or b"")
        if key.type not in (ABORT, COMMIT):
            return None
        value, _ = decode(EndTxnMarker, 0, record.value or b"")
    except (ProtocolError, struct.error) as error:
        raise CorruptRecord(f"a control record that cannot be read: {error}", offset=header.base_offset) from error
    return Marker(header.producer_id, header.producer_epoch, key.type == COMMIT, value.coordinator_epoch)
