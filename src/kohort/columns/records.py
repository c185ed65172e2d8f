"""Record batches to ``Record`` objects: the record-at-a-time face of the client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kohort.columns.batches import Place, sections
from kohort.columns.fast_way import FastWay
from kohort.columns.plain import read_section
from kohort.model import Record
from kohort.wire.codec import Buffer
from kohort.wire.compression import DEFAULT_MAX_BYTES

FEW_BYTES: Final = 2048
"""Fewer are read the plain way at any time: sooner than the kernels have their tables."""
by_kernels: Final = FastWay("kohort.columns.located", "located_records")


def records_of(
    buf: Buffer,
    *,
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int | None = None,
    check_crcs: bool = True,
    max_batch_bytes: int = DEFAULT_MAX_BYTES,
    aborted: Iterable[tuple[int, int]] = (),
) -> list[Record]:
    """The records of ``buf`` (consecutive batches, perhaps with a partial one at the end) whose offsets lie in
    ``start_offset <= offset < end_offset``.

    Raises CorruptRecord, with topic, partition and the offset of the bad batch; the records before it are had by asking
    again with that offset as ``end_offset``.
    """
    place = Place(topic, partition, start_offset, end_offset)
    options: dict[str, Any] = {"check_crcs": check_crcs, "max_batch_bytes": max_batch_bytes, "aborted": aborted}
    if len(buf) < FEW_BYTES:
        return plain_records(buf, place, options)
    located_records = by_kernels.found()
    if located_records is not None:
        found: list[Record] = located_records(buf, place, **options)
        return found
    out = plain_records(buf, place, options)
    by_kernels.missed += len(out)
    return out


def plain_records(buf: Buffer, place: Place, options: dict[str, Any]) -> list[Record]:
    """The records, read in plain Python."""
    out: list[Record] = []
    for section in sections(buf, place, **options):
        read_section(section, place, out)
    return out
