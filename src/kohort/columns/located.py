"""Record objects the fast way: a kernel finds where each key and value lies, and slices become records.

Needs numba; ``records`` decides when it is worth loading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np

from kohort.columns import kernels, scan
from kohort.columns.batches import Place, raise_first
from kohort.columns.plain import Broken, headers_at
from kohort.columns.problems import PROBLEMS
from kohort.columns.table import CHUNK_BYTES, SectionTable, address_of, section_tables
from kohort.errors import CorruptRecord
from kohort.model import Header, Record
from kohort.wire.codec import Buffer


def located_records(
    buf: Buffer, place: Place, *, check_crcs: bool, max_batch_bytes: int, aborted: Iterable[tuple[int, int]]
) -> list[Record]:
    """As ``records.records_of``."""
    options: dict[str, Any] = {
        "check_crcs": check_crcs,
        "max_batch_bytes": max_batch_bytes,
        "aborted": tuple(aborted),
    }
    out: list[Record] = []
    try:
        for table in section_tables(buf, place, **options, chunk_bytes=CHUNK_BYTES):
            out += table_records(table)
    except CorruptRecord as error:
        raise_first(error, place, lambda before: located_records(buf, before, **options))
    return out


def table_records(table: SectionTable) -> list[Record]:
    """The wanted records of a table."""
    out: list[Record] = []
    noted = np.empty((kernels.ROOM, table.room), np.int64)
    table.walked({array: noted[array].ctypes.data for array in range(kernels.ROOM)})
    for first, rows, data, kind, epoch in runs(table):
        out += run_records(table, noted[:, first : first + rows], first, data, kind, epoch)
    return out


def runs(table: SectionTable) -> Iterator[tuple[int, int, Buffer, int, int]]:
    """Stretches of wanted records that lie in one buffer and share a timestamp type and a leader epoch."""
    fields = table.rows[:, [scan.ROWS, scan.TIME_TYPE, scan.LEADER_EPOCH]].tolist()
    first, rows, now = 0, 0, None
    for (count, kind, epoch), data in zip(fields, table.buffers, strict=True):
        if now is not None and (data is not now[0] or (kind, epoch) != now[1:]):
            if rows:
                yield first, rows, *now
            first, rows = first + rows, 0
        now = (data, kind, epoch)
        rows += count
    if now is not None and rows:
        yield first, rows, *now


def run_records(table: SectionTable, noted: Any, first: int, data: Buffer, kind: int, epoch: int) -> list[Record]:
    """Records from the columns that ``walk`` noted for them."""
    base = address_of(data)
    whole = data if isinstance(data, bytes) else bytes(data)
    keys = blobs(whole, noted[kernels.KEY_AT] - base, noted[kernels.KEY_LENGTH])
    values = blobs(whole, noted[kernels.VALUE_AT] - base, noted[kernels.VALUE_LENGTH])
    offsets, times = noted[kernels.OFFSETS].tolist(), noted[kernels.TIMES].tolist()
    headers = run_headers(table, noted, first, whole, base)
    place = table.place
    topics, partitions = repeat(place.topic), repeat(place.partition)
    return list(map(Record, topics, partitions, offsets, times, keys, values, headers, repeat(kind), repeat(epoch)))


def blobs(data: bytes, starts: Any, lengths: Any) -> list[bytes | None]:
    """The byte strings at these places. A null one, of length -1, ends before it starts."""
    places = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
    if lengths.min() >= 0:
        return [data[start:end] for start, end in places]
    return [data[start:end] if end >= start else None for start, end in places]


def run_headers(table: SectionTable, noted: Any, first: int, data: bytes, base: int) -> list[list[Header]]:
    """The headers of each record, decoded only where there are any."""
    places = noted[kernels.HEADERS_AT]
    headers: list[list[Header]] = [[] for _ in range(len(places))]
    for row in np.flatnonzero(places).tolist():
        try:
            headers[row] = headers_at(data, int(places[row]) - base, int(noted[kernels.HEADERS_END, row]) - base)
        except Broken as broken:
            raise table.corrupt_row(PROBLEMS[broken.problem], first + row) from None
    return headers
