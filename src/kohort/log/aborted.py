"""Which transactions of a partition were aborted: Kafka's ``.txnindex`` files, one beside each segment that has any.

An entry is in the file of the segment that holds the marker, and is on the disk before anything after the marker counts
as flushed: without it, a reader of committed records would be given aborted ones. After an unclean stop the entries of
the segments that are read again are made anew from their markers. A compacted segment has none: it holds nothing that
was aborted.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from kohort.log.storage import Storage

_entry: Final = struct.Struct(">hqqqq")
VERSION: Final = 0
ENDING: Final = "txnindex"


class AbortedTransaction(NamedTuple):
    """What a producer wrote from ``first_offset`` to its marker at ``last_offset`` was taken back.

    ``last_stable_offset`` is where reading could go on to once that was known.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def build_entry(aborted: AbortedTransaction) -> bytes:
    return _entry.pack(VERSION, *aborted)


def parse_entries(data: bytes) -> list[AbortedTransaction]:
    """Return the entries of a file. Raises ValueError for anything else."""
    if len(data) % _entry.size:
        raise ValueError(f"{len(data)} bytes are not a whole number of entries")
    found = []
    for version, *fields in _entry.iter_unpack(data):
        if version != VERSION:
            raise ValueError(f"an entry of version {version}; only {VERSION} is read")
        found.append(AbortedTransaction(*fields))
    if any(a.last_offset >= b.last_offset for a, b in pairwise(found)):
        raise ValueError("its entries are not in order")
    return found


class AbortedTransactions:
    """Those of one partition, in the order of their markers."""

    __slots__ = ("_entries", "_folder", "_storage")

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = folder
        self._entries: list[AbortedTransaction] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return iter(self._entries)

    def _name(self, segment_name: str) -> str:
        return f"{self._folder}/{segment_name}.{ENDING}"

    def load(self, segment_name: str) -> None:
        """Take in the entries of a segment; the segments are given in order. Raises ValueError for a bad file."""
        data = self._storage.read(self._name(segment_name))
        if data:
            found = parse_entries(data)
            if self._entries and self._entries[-1].last_offset >= found[0].last_offset:
                raise ValueError("its entries are older than those before it")
            self._entries += found

    def begin_anew(self, segment_name: str) -> None:
        """Forget what a segment's file says: its markers are about to be read."""
        self._storage.delete(self._name(segment_name))

    def add(self, aborted: AbortedTransaction, segment_name: str) -> None:
        """Write an entry beside the segment that holds its marker; one that is known is left alone."""
        if self._entries and self._entries[-1].last_offset >= aborted.last_offset:
            return
        file = self._storage.open(self._name(segment_name))
        try:
            file.append([build_entry(aborted)])
            file.flush()
        finally:
            file.close()
        self._entries.append(aborted)

    def between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return those that have something in the offsets ``start`` to ``end`` (which is not one of them)."""
        first = bisect_left(self._entries, start, key=lambda entry: entry.last_offset)
        return [entry for entry in self._entries[first:] if entry.first_offset < end]

    def holds(self, producer_id: int, offset: int) -> bool:
        """Tell whether what the producer wrote at ``offset`` was taken back."""
        return any(a.producer_id == producer_id and a.first_offset <= offset for a in self.between(offset, offset + 1))

    def forget(self, start: int, end: int) -> None:
        """Forget offsets whose segments are gone, or hold nothing any more that was aborted."""
        self._entries = [entry for entry in self._entries if not start <= entry.last_offset < end]
