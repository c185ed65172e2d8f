"""The walk over the records of one batch in plain Python, which serves without numba and judges the kernels in tests.

Every varint and every length is checked against the end of its record, and the record's end against the end of the
batch, before a byte is read or sliced (protocol/records.md#fields-of-a-record). ``Problem`` numbers the rules that a
record can break, as kernels return them.
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
    """The rule that a record breaks (protocol/records.md#fields-of-a-record)."""

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


def corrupt(problem: Problem, index: int, base_offset: int, wanted: OffsetRange) -> CorruptRecord:
    """Return the error for record number ``index`` of a batch. It names the batch's offset: what can be skipped."""
    return wanted.corrupt(f"record {index} of the batch: {PROBLEMS[problem]}", base_offset)


NULL: Final = 1
"""The length -1 as a varint."""
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


class Broken(Exception):
    """A record that breaks a rule; becomes a CorruptRecord with its place."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def read_section(section: RecordSection, wanted: OffsetRange, out: list[Record]) -> None:
    """Append the wanted records of one batch to ``out``. Raises CorruptRecord if any record of the batch is bad."""
    header, data, at, end = section.header, section.data, section.start, section.end
    if not isinstance(data, bytes):
        data, at, end = bytes(data[at:end]), 0, end - at
    for index in range(header.record_count):
        try:
            record, at = read_record(data, at, end, header, wanted)
        except Broken as broken:
            raise corrupt(broken.problem, index, header.base_offset, wanted) from None
        if record is not None:
            out.append(record)
    if at != end:
        raise corrupt(Problem.TRAILING_BYTES, header.record_count, header.base_offset, wanted)


def read_record(
    data: bytes, at: int, limit: int, header: BatchHeader, wanted: OffsetRange
) -> tuple[Record | None, int]:
    """Return the record at ``at``, which must end by ``limit``, and where it ends; None for one that is not wanted, but
    checked all the same."""
    length, at = varint(data, at, limit)
    end = at + length
    if length < 0 or end > limit:
        raise Broken(Problem.RECORD_LENGTH)
    if length == 0:
        raise Broken(Problem.TRUNCATED)
    timestamp_delta, at = varint(data, at + 1, end)
    offset_delta, at = varint(data, at, end)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise Broken(Problem.OFFSET_DELTA)
    kind = header.timestamp_type
    timestamp_ms = header.max_timestamp if kind else timestamp_of(header.base_timestamp, timestamp_delta)
    key, at = read_bytes(data, at, end, Problem.KEY_LENGTH)
    value, at = read_bytes(data, at, end, Problem.VALUE_LENGTH)
    headers, at = read_headers(data, at, end)
    if at != end:
        raise Broken(Problem.RECORD_NOT_FILLED)
    offset = header.base_offset + offset_delta
    if offset < wanted.start_offset or (wanted.end_offset is not None and offset >= wanted.end_offset):
        return None, end
    names = named(headers) if headers else ()
    epoch = header.partition_leader_epoch
    return Record(wanted.topic, wanted.partition, offset, timestamp_ms, key, value, names, kind, epoch), end


def timestamp_of(base: int, delta: int) -> int:
    """CreateTime of a record; a base of -1 means that the batch carries none."""
    if base == -1:
        return -1
    value = base + delta
    if not INT64_MIN <= value <= INT64_MAX:
        raise Broken(Problem.TIMESTAMP)
    return value


def read_bytes(data: bytes, at: int, end: int, problem: Problem) -> tuple[bytes | None, int]:
    """Return a nullable byte string: its length (-1: null), then its bytes."""
    if at < end and data[at] == NULL:
        return None, at + 1
    length, at = varint(data, at, end)
    if length < 0:
        if length != -1:
            raise Broken(problem)
        return None, at
    if at + length > end:
        raise Broken(problem)
    return data[at : at + length], at + length


def read_headers(data: bytes, at: int, end: int) -> tuple[list[tuple[bytes, bytes | None]], int]:
    """Return the headers of one record; a count is checked against the bytes left (two each) before it is used."""
    if at < end and data[at] == 0:
        return [], at + 1
    count, at = varint(data, at, end)
    if count < 0 or count * 2 > end - at:
        raise Broken(Problem.HEADER_COUNT)
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        name, at = read_bytes(data, at, end, Problem.HEADER_KEY)
        value, at = read_bytes(data, at, end, Problem.HEADER_VALUE)
        if name is None:
            raise Broken(Problem.HEADER_KEY)
        headers.append((name, value))
    return headers, at


def named(headers: list[tuple[bytes, bytes | None]]) -> tuple[Header, ...]:
    """Return headers with their names as text; bytes that are not UTF-8 become U+FFFD, as in Java."""
    return tuple([(name.decode(errors="replace"), value) for name, value in headers])


def parse_headers(data: bytes) -> tuple[Header, ...]:
    """Return the headers that ``data`` is, of a record whose lengths a kernel has already checked."""
    return named(read_headers(data, 0, len(data))[0])


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a zig-zag varint of at most 64 bits, all of it before ``end``, and where it ends."""
    if at < end and (byte := data[at]) < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    if at + 1 < end and (high := data[at + 1]) < 0x80:
        value = data[at] & 0x7F | high << 7
        return (value >> 1) ^ -(value & 1), at + 2
    value = 0
    for shift in range(0, LONGEST, 7):
        if at >= end:
            raise Broken(Problem.TRUNCATED)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF_FFFF_FFFF:
                break
            return (value >> 1) ^ -(value & 1), at
    raise Broken(Problem.VARINT)
