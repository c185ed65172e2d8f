"""Section table of a buffer: one row per batch for the kernels, and the buffers that the rows point into.

For valid uncompressed batches one kernel call fills the table; Python processes only compressed batches and CRCs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import crc32c
import numpy as np

from kohort.columns import kernels
from kohort.columns.batches import INT64_MAX, OffsetRange, ReadOptions, RecordSection, checked, section_of, sections
from kohort.columns.kernels import BAD_RECORD, BAD_SECTION, PLAN_FIELDS, ROOM, walk
from kohort.columns.plain import Problem, corrupt
from kohort.errors import CorruptRecord
from kohort.wire.codec import Buffer
from kohort.wire.record_batch import CRC_STARTS_AT, parse_batch_header

CRC_AT: Final = 17
NO_LIMIT: Final = INT64_MAX
CHUNK_BYTES: Final = 64 << 20
"""Decompressed bytes per chunk if the caller reads in chunks."""


SMALLEST_RECORD: Final = 7


@dataclass(slots=True)
class SectionTable:
    """Table with a row for each batch. ``buffers``: buffer that the address of each row points into."""

    rows: Any
    span: OffsetRange
    buffers: list[Buffer]
    room: int = field(init=False)
    """Limit of the record count: the batches' counts, but no more than their bytes can hold."""

    def __post_init__(self) -> None:
        claims, sizes = self.rows[:, kernels.COUNT].tolist(), self.rows[:, kernels.LENGTH].tolist()
        self.room = sum(min(count, size // SMALLEST_RECORD) for count, size in zip(claims, sizes, strict=True))

    def walked(self, arrays: dict[int, int]) -> list[int]:
        """Check all records and store those within the span in ``arrays`` (index: address of ``room`` int64).

        Returns the plan after ``walk``, with the number of records as ROOM. Raises CorruptRecord.
        """
        plan = np.zeros(PLAN_FIELDS, np.int64)
        for array, address in arrays.items():
            plan[array] = address
        plan[ROOM] = self.room
        stop = NO_LIMIT if self.span.end_offset is None else self.span.end_offset
        count = walk(self.rows.ctypes.data, len(self.rows), self.span.start_offset, stop, plan.ctypes.data)
        found: list[int] = plan.tolist()
        if count < 0:
            base_offset = int(self.rows[found[BAD_SECTION], kernels.BASE_OFFSET])
            raise corrupt(Problem(-count), found[BAD_RECORD], base_offset, self.span)
        found[ROOM] = count
        return found

    def corrupt_row(self, problem: str, row: int) -> CorruptRecord:
        """Return the error for record number ``row``, at the offset of its batch."""
        section = int(np.searchsorted(np.cumsum(self.rows[:, kernels.ROWS]), row, "right"))
        return self.span.corrupt(problem, int(self.rows[section, kernels.BASE_OFFSET]))


def section_tables(
    buf: Buffer, span: OffsetRange, options: ReadOptions, chunk_bytes: int = NO_LIMIT
) -> Iterator[SectionTable]:
    """Yield tables of the batches in ``buf``, each with about ``chunk_bytes`` decompressed. Raises CorruptRecord."""
    rows = None if options.aborted else scanned(buf, span)
    if rows is None:
        yield from gathered(map(row_of, sections(buf, span, options)), span, chunk_bytes)
        return
    if options.check_crcs:
        check_all(buf, rows, span)
    if rows[:, kernels.CODEC].any() or int(rows[:, kernels.LENGTH].sum()) > chunk_bytes:
        plain = (decompressed(buf, row, span, options.max_batch_bytes) for row in rows)
        yield from gathered(plain, span, chunk_bytes)
    elif len(rows):
        yield SectionTable(rows, span, [buf] * len(rows))


def scanned(buf: Buffer, span: OffsetRange) -> Any:
    """Return the table rows of ``buf``; None for a batch that only the module ``batches`` can check."""
    stop = NO_LIMIT if span.end_offset is None else span.end_offset
    if len(buf) == 0:
        return np.zeros((0, kernels.SECTION_FIELDS), np.int64)
    at = address_of(buf)
    count = kernels.scan(at, len(buf), span.start_offset, stop, 0, 0)
    if count < 0:
        return None
    rows = np.empty((count, kernels.SECTION_FIELDS), np.int64)
    kernels.scan(at, len(buf), span.start_offset, stop, rows.ctypes.data, count)
    return rows


def check_all(buf: Buffer, rows: Any, span: OffsetRange) -> None:
    """Check the CRC of every batch in the table."""
    view = memoryview(buf)
    for at, size in rows[:, kernels.BATCH_AT : kernels.BATCH_SIZE + 1].tolist():
        stated = int.from_bytes(view[at + CRC_AT : at + CRC_STARTS_AT], "big")
        if crc32c.crc32c(view[at + CRC_STARTS_AT : at + size]) != stated:
            checked(buf, at, parse_batch_header(buf, at), span)


def decompressed(buf: Buffer, row: Any, span: OffsetRange, max_batch_bytes: int) -> tuple[Any, Buffer]:
    """Return the row of a batch after decompression, and the buffer that its address points into."""
    if not row[kernels.CODEC] or not row[kernels.COUNT]:
        return row, buf
    at = int(row[kernels.BATCH_AT])
    section = section_of(buf, at, parse_batch_header(buf, at), span, max_batch_bytes)
    row[kernels.ADDRESS], row[kernels.LENGTH] = address_of(section.data), section.end
    return row, section.data


def row_of(section: RecordSection) -> tuple[Any, Buffer]:
    """Return a row of the table from a record section."""
    header = section.header
    row = np.zeros(kernels.SECTION_FIELDS, np.int64)
    row[kernels.ADDRESS] = address_of(section.data) + section.start
    row[kernels.LENGTH] = section.end - section.start
    row[kernels.COUNT], row[kernels.BASE_OFFSET] = header.record_count, header.base_offset
    row[kernels.LAST_DELTA], row[kernels.BASE_TIME] = header.last_offset_delta, header.base_timestamp
    row[kernels.FIXED_TIME], row[kernels.TIME_TYPE] = header.max_timestamp, header.timestamp_type
    row[kernels.LEADER_EPOCH] = header.partition_leader_epoch
    return row, section.data


def gathered(found: Iterable[tuple[Any, Buffer]], span: OffsetRange, chunk_bytes: int) -> Iterator[SectionTable]:
    """Yield rows in tables of at least ``chunk_bytes`` each, except the last."""
    rows: list[Any] = []
    buffers: list[Buffer] = []
    size = 0
    for row, data in found:
        rows.append(row)
        buffers.append(data)
        size += int(row[kernels.LENGTH])
        if size >= chunk_bytes:
            yield SectionTable(np.array(rows), span, buffers)
            rows, buffers, size = [], [], 0
    if rows:
        yield SectionTable(np.array(rows), span, buffers)


def address_of(buf: Buffer) -> int:
    """Return the address of a buffer; the caller keeps it alive and unchanged."""
    if len(buf) == 0:
        return 0
    address: int = np.frombuffer(buf, np.uint8).__array_interface__["data"][0]
    return address
