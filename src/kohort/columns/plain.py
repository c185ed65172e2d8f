"""Reader of the records of one batch in plain Python: used without numba, and to test the kernels.

Every varint and length is checked against the end of its record, and the record's end against the end of the batch
(protocol/records.md#fields-of-a-record). ``Problem`` numbers the violations, as kernels return them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kohort.columns.batches import OffsetRange, RecordSection
from kohort.errors import CorruptRecord
from kohort.model import Header, Record
from kohort.wire.record_batch import BatchHeader
from kohort.wire.varints import LONGEST


class Problem(IntEnum):
    """Violation of a rule by a record (protocol/records.md#fields-of-a-record)."""

    NONE = 0
    TRUNCATED = 1
    VARINT = 2
    RECORD_LENGTH = 3
    OFFSET_DELTA = 4
    TIMESTAMP = 5
    KEY_LENGTH = 6
    VALUE_LENGTH = 7
    HEADER_COUNT = 8
    HEADER_KEY = 9
    HEADER_VALUE = 10
    RECORD_NOT_FILLED = 12
    TRAILING_BYTES = 13
    CHANGED = 14


PROBLEMS: Final = {
    Problem.TRUNCATED: "its bytes end inside a number",
    Problem.VARINT: "a number is longer than its type allows",
    Problem.RECORD_LENGTH: "its length is negative, or passes the end of the batch",
    Problem.OFFSET_DELTA: "its offset lies outside the batch",
    Problem.TIMESTAMP: "its timestamp does not fit its type",
    Problem.KEY_LENGTH: "the length of its key passes the record's end",
    Problem.VALUE_LENGTH: "the length of its value passes the record's end",
    Problem.HEADER_COUNT: "the count of its headers is more than its bytes can hold",
    Problem.HEADER_KEY: "the name of a header is null, or passes the record's end",
    Problem.HEADER_VALUE: "the value of a header passes the record's end",
    Problem.RECORD_NOT_FILLED: "bytes are left after its headers",
    Problem.TRAILING_BYTES: "bytes are left after the last record that the batch counts",
    Problem.CHANGED: "the buffer was changed while it was read",
}


def corrupt(problem: Problem, index: int, base_offset: int, span: OffsetRange) -> CorruptRecord:
    """Return the error for record ``index`` of a batch, at the batch's offset: only a whole batch can be skipped."""
    return span.corrupt(f"record {index} of the batch: {PROBLEMS[problem]}", base_offset)


NULL: Final = 1
"""Varint of the length -1."""
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


class BrokenRecord(Exception):
    """Malformed record; becomes a CorruptRecord with topic, partition and offset."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def read_section(section: RecordSection, span: OffsetRange, out: list[Record]) -> None:
    """Append the records of one batch within ``span`` to ``out``. Raises CorruptRecord."""
    header, data, at, end = section.header, section.data, section.start, section.end
    if not isinstance(data, bytes):
        data, at, end = bytes(data[at:end]), 0, end - at
    for index in range(header.record_count):
        try:
            record, at = read_record(data, at, end, header, span)
        except BrokenRecord as broken:
            raise corrupt(broken.problem, index, header.base_offset, span) from None
        if record is not None:
            out.append(record)
    if at != end:
        raise corrupt(Problem.TRAILING_BYTES, header.record_count, header.base_offset, span)


def read_record(data: bytes, at: int, limit: int, header: BatchHeader, span: OffsetRange) -> tuple[Record | None, int]:
    """Return the record at ``at`` (None outside ``span``) and its end, which is at most ``limit``."""
    length, at = varint(data, at, limit)
    end = at + length
    if length < 0 or end > limit:
        raise BrokenRecord(Problem.RECORD_LENGTH)
    if length == 0:
        raise BrokenRecord(Problem.TRUNCATED)
    timestamp_delta, at = varint(data, at + 1, end)
    offset_delta, at = varint(data, at, end)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise BrokenRecord(Problem.OFFSET_DELTA)
    kind = header.timestamp_type
    timestamp_ms = header.max_timestamp if kind else timestamp_of(header.base_timestamp, timestamp_delta)
    key, at = read_bytes(data, at, end, Problem.KEY_LENGTH)
    value, at = read_bytes(data, at, end, Problem.VALUE_LENGTH)
    headers, at = read_headers(data, at, end)
    if at != end:
        raise BrokenRecord(Problem.RECORD_NOT_FILLED)
    offset = header.base_offset + offset_delta
    if offset < span.start_offset or (span.end_offset is not None and offset >= span.end_offset):
        return None, end
    names = named(headers) if headers else ()
    epoch = header.partition_leader_epoch
    return Record(span.topic, span.partition, offset, timestamp_ms, key, value, names, kind, epoch), end


def timestamp_of(base: int, delta: int) -> int:
    """Return the timestamp of a record; a base of -1 means that the batch has none."""
    if base == -1:
        return -1
    value = base + delta
    if not INT64_MIN <= value <= INT64_MAX:
        raise BrokenRecord(Problem.TIMESTAMP)
    return value


def read_bytes(data: bytes, at: int, end: int, problem: Problem) -> tuple[bytes | None, int]:
    if at < end and data[at] == NULL:
        return None, at + 1
    length, at = varint(data, at, end)
    if length < 0:
        if length != -1:
            raise BrokenRecord(problem)
        return None, at
    if at + length > end:
        raise BrokenRecord(problem)
    return data[at : at + length], at + length


def read_headers(data: bytes, at: int, end: int) -> tuple[list[tuple[bytes, bytes | None]], int]:
    """Return the headers of one record; check their number against the remaining bytes first."""
    if at < end and data[at] == 0:
        return [], at + 1
    count, at = varint(data, at, end)
    if count < 0 or count * 2 > end - at:
        raise BrokenRecord(Problem.HEADER_COUNT)
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        name, at = read_bytes(data, at, end, Problem.HEADER_KEY)
        value, at = read_bytes(data, at, end, Problem.HEADER_VALUE)
        if name is None:
            raise BrokenRecord(Problem.HEADER_KEY)
        headers.append((name, value))
    return headers, at


def named(headers: list[tuple[bytes, bytes | None]]) -> tuple[Header, ...]:
    """Return headers with their names as text; bytes that are not UTF-8 become U+FFFD, as in Java."""
    return tuple([(name.decode(errors="replace"), value) for name, value in headers])


def parse_headers(data: bytes) -> tuple[Header, ...]:
    """Return the headers in ``data``; a kernel has checked their lengths."""
    return named(read_headers(data, 0, len(data))[0])


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a zig-zag varint of at most 64 bits before ``end``, and its end."""
    if at < end and (byte := data[at]) < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    if at + 1 < end and (high := data[at + 1]) < 0x80:
        value = data[at] & 0x7F | high << 7
        return (value >> 1) ^ -(value & 1), at + 2
    value = 0
    for shift in range(0, LONGEST, 7):
        if at >= end:
            raise BrokenRecord(Problem.TRUNCATED)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF_FFFF_FFFF:
                break
            return (value >> 1) ^ -(value & 1), at
    raise BrokenRecord(Problem.VARINT)
