"""Record objects the fast way: a kernel finds where each key and value lies, and they are cut out many at a time.

Needs numba; ``records`` decides when it is worth loading.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np

from kohort.columns import kernels, section_rows
from kohort.columns.batches import USUAL, OffsetRange, ReadOptions, raise_first
from kohort.columns.byte_strings import byte_strings_at
from kohort.columns.plain import Broken, parse_headers
from kohort.columns.problems import PROBLEMS
from kohort.columns.section_tables import CHUNK_BYTES, SectionTable, section_tables
from kohort.errors import CorruptRecord
from kohort.model import Header, Record
from kohort.wire.codec import Buffer


def located_records(buf: Buffer, wanted: OffsetRange, options: ReadOptions = USUAL) -> list[Record]:
    """Return what ``records.records_of`` does. Raises CorruptRecord."""
    out: list[Record] = []
    try:
        for table in section_tables(buf, wanted, options, CHUNK_BYTES):
            out += table_records(table)
    except CorruptRecord as error:
        raise_first(error, wanted, lambda before: located_records(buf, before, options))
    return out


def table_records(table: SectionTable) -> list[Record]:
    """Return the wanted records of a table."""
    noted = np.empty((kernels.ROOM, table.room), np.int64)
    first = noted.ctypes.data
    rows = table.walked({array: first + 8 * table.room * array for array in range(kernels.ROOM)})[kernels.ROOM]
    if rows == 0:
        return []
    noted = noted[:, :rows]
    return list(
        map(
            Record,
            repeat(table.wanted.topic),
            repeat(table.wanted.partition),
            noted[kernels.OFFSETS].tolist(),
            noted[kernels.TIMES].tolist(),
            byte_strings_at(noted[kernels.KEY_AT], noted[kernels.KEY_LENGTH]),
            byte_strings_at(noted[kernels.VALUE_AT], noted[kernels.VALUE_LENGTH]),
            row_headers(table, noted),
            of_batches(table, section_rows.TIME_TYPE),
            of_batches(table, section_rows.LEADER_EPOCH),
        )
    )


def of_batches(table: SectionTable, field: int) -> Iterable[int]:
    """Return what each record has from its batch."""
    values = table.rows[:, field]
    first = int(values[0])
    if (values == first).all():
        return repeat(first)
    each: list[int] = np.repeat(values, table.rows[:, section_rows.ROWS]).tolist()
    return each


def row_headers(table: SectionTable, noted: Any) -> Iterable[tuple[Header, ...]]:
    """Return the headers of each record, decoded only where there are any."""
    places, ends = noted[kernels.HEADERS_AT], noted[kernels.HEADERS_END]
    rows = np.flatnonzero(places)
    if not len(rows):
        return repeat(())
    headers: list[tuple[Header, ...]] = [()] * len(places)
    for row, at, end in zip(rows.tolist(), places[rows].tolist(), ends[rows].tolist(), strict=True):
        try:
            headers[row] = parse_headers(ctypes.string_at(at, end - at))
        except Broken as broken:
            raise table.corrupt_row(PROBLEMS[broken.problem], row) from None
    return headers
