"""Record batches to ``Record`` objects: the record-at-a-time face of the client."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from kohort.columns.batches import Place, sections
from kohort.columns.plain import read_section
from kohort.model import Record
from kohort.wire.codec import Buffer
from kohort.wire.compression import DEFAULT_MAX_BYTES

WORTH_LOADING: Final = 50_000
FEW_BYTES: Final = 2048
"""Fewer are read the plain way at any time: sooner than the kernels have their tables, and without holding the
collector."""
LOCATED: Final = "kohort.columns.located"


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
    with collector_held():
        located_records = fast_way()
        if located_records is not None:
            return located_records(buf, place, **options)
        out = plain_records(buf, place, options)
    _plain.records += len(out)
    return out


def plain_records(buf: Buffer, place: Place, options: dict[str, Any]) -> list[Record]:
    """The records, read in plain Python."""
    out: list[Record] = []
    for section in sections(buf, place, **options):
        read_section(section, place, out)
    return out


class PlainUse:
    """How many records this process has read the plain way where kernels would have helped."""

    records = 0


_plain = PlainUse()


def fast_way() -> Callable[..., list[Record]] | None:
    """The reader built on kernels, once it pays: loading it takes as long as reading some 30,000 records the plain way,
    and 70 MB. None until then, or where numba is not installed: on a machine's first use it compiles the kernels."""
    if LOCATED not in sys.modules:
        if _plain.records < WORTH_LOADING:
            return None
        if any(find_spec(name) is None for name in ("numba", "numpy")):
            _plain.records = 0
            return None
    from kohort.columns.located import located_records

    return located_records


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
