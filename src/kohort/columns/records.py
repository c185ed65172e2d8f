"""Record batches to ``Record`` objects."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from kohort.columns.batches import USUAL, OffsetRange, ReadOptions, sections
from kohort.columns.plain import read_section
from kohort.model import Record
from kohort.wire.codec import Buffer

FEW_BYTES: Final = 2048
"""Size in bytes below which a buffer is read without kernels, which is faster for few records."""
WORTH_LOADING: Final = 50_000
NEEDED: Final = ("numba", "numpy")


class KernelReader:
    """Reader with kernels, loaded after ``WORTH_LOADING`` records: loading costs 0.2 s and 60 MB."""

    def __init__(self) -> None:
        self.missed = 0
        """Number of records that this process read without kernels."""
        self._reader: Callable[..., list[Record]] | None = None

    def found(self) -> Callable[..., list[Record]] | None:
        """Return the reader; None before ``WORTH_LOADING`` records, or without numba."""
        if self._reader is None and self.missed >= WORTH_LOADING:
            if all(find_spec(name) is not None for name in NEEDED):
                from kohort.columns.records_by_kernels import located_records

                self._reader = located_records
            else:
                self.missed = 0
        return self._reader


kernel_reader: Final = KernelReader()


def records_of(buf: Buffer, span: OffsetRange, options: ReadOptions = USUAL) -> list[Record]:
    """Return the records of ``buf`` within ``span``: consecutive batches, possibly with a partial one at the end.

    Raises CorruptRecord with topic, partition and offset of the bad batch: the records before it can be read with that
    offset as ``end_offset``.
    """
    if len(buf) < FEW_BYTES:
        return plain_records(buf, span, options)
    located_records = kernel_reader.found()
    if located_records is not None:
        return located_records(buf, span, options)
    out = plain_records(buf, span, options)
    kernel_reader.missed += len(out)
    return out


def plain_records(buf: Buffer, span: OffsetRange, options: ReadOptions) -> list[Record]:
    out: list[Record] = []
    for section in sections(buf, span, options):
        read_section(section, span, out)
    return out
