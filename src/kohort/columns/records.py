"""Record batches to ``Record`` objects: the record-at-a-time face of the client."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from kohort.columns.batches import USUAL, OffsetRange, ReadOptions, sections
from kohort.columns.plain import read_section
from kohort.model import Record
from kohort.wire.codec import Buffer

FEW_BYTES: Final = 2048
"""Fewer are read the plain way at any time: sooner than the kernels have their tables."""
WORTH_LOADING: Final = 50_000
NEEDED: Final = ("numba", "numpy")


class FastWay:
    """The reader built on kernels, once it pays: loading it costs a process a fifth of a second and 60 MB, as much time
    as some ten thousands of records cost the plain way."""

    def __init__(self) -> None:
        self.missed = 0
        """How many records this process has read the plain way where kernels would have helped."""
        self._reader: Callable[..., list[Record]] | None = None

    def found(self) -> Callable[..., list[Record]] | None:
        """None until it pays, or where numba is not installed: on a machine's first use it compiles the kernels."""
        if self._reader is None and self.missed >= WORTH_LOADING:
            if all(find_spec(name) is not None for name in NEEDED):
                from kohort.columns.records_by_kernels import located_records

                self._reader = located_records
            else:
                self.missed = 0
        return self._reader


by_kernels: Final = FastWay()


def records_of(buf: Buffer, wanted: OffsetRange, options: ReadOptions = USUAL) -> list[Record]:
    """Return the wanted records of ``buf``: consecutive batches, perhaps with a partial one at the end.

    Raises CorruptRecord, with topic, partition and the offset of the bad batch; the records before it are had by asking
    again with that offset as ``end_offset``.
    """
    if len(buf) < FEW_BYTES:
        return plain_records(buf, wanted, options)
    located_records = by_kernels.found()
    if located_records is not None:
        return located_records(buf, wanted, options)
    out = plain_records(buf, wanted, options)
    by_kernels.missed += len(out)
    return out


def plain_records(buf: Buffer, wanted: OffsetRange, options: ReadOptions) -> list[Record]:
    out: list[Record] = []
    for section in sections(buf, wanted, options):
        read_section(section, wanted, out)
    return out
