"""Record batches to ``Record`` objects: the record-at-a-time face of the client."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kohort.columns.batches import Place, sections
from kohort.columns.plain import read_section
from kohort.model import Record
from kohort.wire.codec import Buffer
from kohort.wire.compression import DEFAULT_MAX_BYTES


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
    found = sections(buf, place, check_crcs=check_crcs, max_batch_bytes=max_batch_bytes, aborted=aborted)
    out: list[Record] = []
    with collector_held():
        for section in found:
            read_section(section, place, out)
    return out


@contextmanager
def collector_held() -> Iterator[None]:
    """No cyclic collection while many objects are made that hold no cycles: the collector would walk them all, again
    and again, to find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
