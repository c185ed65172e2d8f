"""Aborted transactions of a partition: Kafka's ``.txnindex`` files, one beside each segment with entries.

An entry is in the file of the segment that holds the marker, and on disk before later records count as flushed: else
a reader of committed records could receive aborted ones. After an unclean stop the entries are rebuilt from the
markers. A compacted segment has no entries: it holds no aborted record.

As in Kafka, entries are read from their files on demand. Memory holds their number and the last marker per segment,
and the pages in use: at most ``MOST_ENTRIES`` entries for all partitions of a process.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from kohort.errors import CorruptLog
from kohort.log.storage import Storage

_entry: Final = struct.Struct(">hqqqq")
VERSION: Final = 0
ENTRY_BYTES: Final = _entry.size
PAGE_ENTRIES: Final = 256
MOST_ENTRIES: Final = 40_000
"""About 8 MB."""
PAGE_ITSELF: Final = 2


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


Page = list[AbortedTransaction]


def build_entry(aborted: AbortedTransaction) -> bytes:
    return _entry.pack(VERSION, *aborted)


def parse_page(data: bytes) -> Page:
    """Parse consecutive entries of a file. Raises ValueError if they are malformed or out of order."""
    if len(data) % ENTRY_BYTES:
        raise ValueError(f"{len(data)} bytes are not a whole number of entries")
    if any(data[::ENTRY_BYTES]) or any(data[1::ENTRY_BYTES]):
        raise ValueError(f"an entry of another version; only {VERSION} is read")
    page = [AbortedTransaction(pid, first, last, stable) for _, pid, first, last, stable in _entry.iter_unpack(data)]
    if any(a.last_offset >= b.last_offset for a, b in pairwise(page)):
        raise ValueError("its entries are not in order")
    return page


class AbortedPages:
    """Least recently used pages of all partitions of a process, by owner and page number."""

    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self.limit = most_entries
        self.used = 0
        self._pages: OrderedDict[tuple[object, int], Page] = OrderedDict()

    def get(self, of: object, number: int) -> Page | None:
        page = self._pages.get((of, number))
        if page is not None:
            self._pages.move_to_end((of, number))
        return page

    def put(self, of: object, number: int, page: Page) -> None:
        """Keep a page; the least recently used pages make room."""
        self.forget(of, number)
        self._pages[of, number] = page
        self.used += len(page) + PAGE_ITSELF
        self._make_room()

    def add(self, of: object, number: int, entry: AbortedTransaction) -> None:
        page = self._pages.get((of, number))
        if page is not None:
            page.append(entry)
            self.used += 1
            self._make_room()

    def forget(self, of: object, number: int) -> None:
        page = self._pages.pop((of, number), None)
        if page is not None:
            self.used -= len(page) + PAGE_ITSELF

    def _make_room(self) -> None:
        while self.used > self.limit:
            self.forget(*next(iter(self._pages)))


ENDING: Final = "txnindex"
PAGE_BYTES: Final = PAGE_ENTRIES * ENTRY_BYTES
_last_marker: Final = attrgetter("last_marker")
_marker: Final = attrgetter("last_offset")
_stable: Final = attrgetter("last_stable_offset")


class _OfSegment:
    __slots__ = ("base_offset", "count", "last_marker", "name")

    def __init__(self, name: str, base_offset: int) -> None:
        self.name = name
        self.base_offset = base_offset
        self.count = 0
        self.last_marker = -1

    @property
    def pages(self) -> int:
        return -(-self.count // PAGE_ENTRIES)


class AbortedTransactions:
    """Aborted transactions of one partition, in the order of their markers. Reads raise StorageError."""

    __slots__ = ("_folder", "_segments", "_storage", "pages")

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = folder
        self._segments: list[_OfSegment] = []
        self.pages: AbortedPages | None = None

    def __len__(self) -> int:
        return sum(segment.count for segment in self._segments)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        for segment in self._segments:
            for number in range(segment.pages):
                yield from self._page(segment, number)

    def _name(self, segment_name: str) -> str:
        return f"{self._folder}/{segment_name}.{ENDING}"

    def load(self, segment_name: str) -> None:
        """Load the entries of the next segment. Raises ValueError for a malformed file."""
        found = _OfSegment(self._name(segment_name), int(segment_name))
        found.last_marker = self._segments[-1].last_marker if self._segments else -1
        file = self._storage.open(found.name)
        try:
            for at in range(0, file.size, PAGE_BYTES):
                page = parse_page(file.read(at, PAGE_BYTES))
                if page[0].last_offset <= found.last_marker:
                    raise ValueError("its entries are older than those before it")
                found.count += len(page)
                found.last_marker = page[-1].last_offset
        finally:
            file.close()
        if found.count:
            self._segments.append(found)

    def begin_anew(self, segment_name: str) -> None:
        """Delete the file of a segment whose markers are about to be replayed."""
        self._storage.delete(self._name(segment_name))

    def add(self, aborted: AbortedTransaction, segment_name: str) -> None:
        """Write an entry beside the segment that holds its marker; one that is known is left alone.

        One that cannot be taken to the disk is in the file all the same: it comes once more, for a marker of its own.
        """
        if self._segments and self._segments[-1].last_marker >= aborted.last_offset:
            return
        name = self._name(segment_name)
        file = self._storage.open(name)
        try:
            number = file.append([build_entry(aborted)]) // ENTRY_BYTES
            if not self._segments or self._segments[-1].name != name:
                self._segments.append(_OfSegment(name, int(segment_name)))
            segment = self._segments[-1]
            segment.count, segment.last_marker = number + 1, aborted.last_offset
            if self.pages is not None:
                if number % PAGE_ENTRIES:
                    self.pages.add(segment, number // PAGE_ENTRIES, aborted)
                else:
                    self.pages.put(segment, number // PAGE_ENTRIES, [aborted])
            file.flush()
        finally:
            file.close()

    def between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with batches in ``[start, end)``.

        The search ends at the first entry whose last stable offset reaches ``end``.
        """
        segments = self._segments
        if not segments or start > segments[-1].last_marker:
            return []
        found: list[AbortedTransaction] = []
        for segment in segments[bisect_left(segments, start, key=_last_marker) :]:
            for number in range(self._page_reaching(segment, start), segment.pages):
                page = self._page(segment, number)
                stable = bisect_left(page, end, key=_stable)
                found += [e for e in page[bisect_left(page, start, key=_marker) : stable + 1] if e.first_offset < end]
                if stable < len(page):
                    return found
        return found

    def holds(self, producer_id: int, offset: int) -> bool:
        """True if the producer's batch at ``offset`` was aborted."""
        return any(a.producer_id == producer_id for a in self.between(offset, offset + 1))

    def forget(self, start: int, end: int) -> None:
        gone = [segment for segment in self._segments if start <= segment.base_offset < end]
        self._segments = [segment for segment in self._segments if segment not in gone]
        if self.pages is not None:
            for segment in gone:
                for number in range(segment.pages):
                    self.pages.forget(segment, number)

    # ---------------------------------------------------------------- reading

    def _page_reaching(self, segment: _OfSegment, offset: int) -> int:
        if segment.count <= PAGE_ENTRIES:
            return 0
        before_last = range(segment.pages - 1)
        return bisect_left(before_last, offset, key=lambda number: self._last_marker_of(segment, number))

    def _last_marker_of(self, segment: _OfSegment, number: int) -> int:
        page = None if self.pages is None else self.pages.get(segment, number)
        if page is None:
            page = self._read(segment, (number + 1) * PAGE_ENTRIES - 1, 1)
        return page[-1].last_offset

    def _page(self, segment: _OfSegment, number: int) -> Page:
        page = None if self.pages is None else self.pages.get(segment, number)
        if page is None:
            first = number * PAGE_ENTRIES
            page = self._read(segment, first, min(segment.count - first, PAGE_ENTRIES))
            if self.pages is not None:
                self.pages.put(segment, number, page)
        return page

    def _read(self, segment: _OfSegment, first: int, count: int) -> Page:
        file = self._storage.open(segment.name)
        try:
            data = file.read(first * ENTRY_BYTES, count * ENTRY_BYTES)
        finally:
            file.close()
        if len(data) < count * ENTRY_BYTES:
            raise CorruptLog(f"{segment.name} had {segment.count} entries, and is shorter now")
        try:
            return parse_page(data)
        except ValueError as error:
            raise CorruptLog(f"{segment.name} cannot be read any more: {error}") from error
