"""Aborted transactions of a partition: Kafka's ``.txnindex`` files, one beside each segment with entries.

An entry is stored beside the segment that has the abort marker. It is flushed before later records count as flushed:
otherwise a ``read_committed`` consumer could receive aborted records after a power loss. After an unclean stop,
recovery rebuilds the entries from the markers. A compacted segment has no aborted records and no entries.

Entries are read from their files on demand. Memory holds a count and the last marker of each segment, and at most
``MOST_ENTRIES`` entries in cached pages for all partitions of a process.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
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
PAGE_OVERHEAD: Final = 2


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


Page = list[AbortedTransaction]


def build_entry(aborted: AbortedTransaction) -> bytes:
    return _entry.pack(VERSION, *aborted)


def parse_page(data: bytes) -> Page:
    """Parse consecutive entries of a file. Raises ValueError if they are malformed or unordered."""
    if len(data) % ENTRY_BYTES:
        raise ValueError(f"{len(data)} bytes are not a whole number of entries")
    if any(data[::ENTRY_BYTES]) or any(data[1::ENTRY_BYTES]):
        raise ValueError(f"an entry has a version other than {VERSION}")
    page = [AbortedTransaction(pid, first, last, stable) for _, pid, first, last, stable in _entry.iter_unpack(data)]
    if any(a.last_offset >= b.last_offset for a, b in pairwise(page)):
        raise ValueError("markers of entries do not increase")
    return page


class AbortedPages:
    """LRU cache of pages of all partitions; its keys are pairs of a segment's entries and a page number."""

    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self.limit = most_entries
        self.used = 0
        self._pages: OrderedDict[tuple[object, int], Page] = OrderedDict()

    def get(self, owner: object, number: int) -> Page | None:
        page = self._pages.get((owner, number))
        if page is not None:
            self._pages.move_to_end((owner, number))
        return page

    def put(self, owner: object, number: int, page: Page) -> None:
        self.forget(owner, number)
        self._pages[owner, number] = page
        self.used += len(page) + PAGE_OVERHEAD
        self._make_room()

    def add(self, owner: object, number: int, entry: AbortedTransaction) -> None:
        page = self._pages.get((owner, number))
        if page is not None:
            page.append(entry)
            self.used += 1
            self._make_room()

    def forget(self, owner: object, number: int) -> None:
        page = self._pages.pop((owner, number), None)
        if page is not None:
            self.used -= len(page) + PAGE_OVERHEAD

    def _make_room(self) -> None:
        while self.used > self.limit:
            self.forget(*next(iter(self._pages)))


NO_PAGES: Final = AbortedPages(0)
"""Cache that keeps no page."""
ENDING: Final = "txnindex"
PAGE_BYTES: Final = PAGE_ENTRIES * ENTRY_BYTES
_last_marker: Final = attrgetter("last_marker")
_marker: Final = attrgetter("last_offset")
_stable: Final = attrgetter("last_stable_offset")


@dataclass(slots=True, eq=False)
class _SegmentEntries:
    name: str
    base_offset: int
    count: int = 0
    last_marker: int = -1

    @property
    def pages(self) -> int:
        return -(-self.count // PAGE_ENTRIES)


class AbortedTransactions:
    """Aborted transactions of one partition, in the order of their markers. Reads raise StorageError."""

    __slots__ = ("_folder", "_segments", "_storage", "pages")

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = folder
        self._segments: list[_SegmentEntries] = []
        self.pages = NO_PAGES

    def __len__(self) -> int:
        return sum(segment.count for segment in self._segments)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        for segment in self._segments:
            for number in range(segment.pages):
                yield from self._page(segment, number)

    def _name(self, segment_name: str) -> str:
        return f"{self._folder}/{segment_name}.{ENDING}"

    def load(self, segment_name: str) -> None:
        """Load the entries of the next segment. Raises ValueError if the file is malformed."""
        found = _SegmentEntries(self._name(segment_name), int(segment_name))
        found.last_marker = self._segments[-1].last_marker if self._segments else -1
        with closing(self._storage.open(found.name)) as file:
            for at in range(0, file.size, PAGE_BYTES):
                page = parse_page(file.read(at, PAGE_BYTES))
                if page[0].last_offset <= found.last_marker:
                    raise ValueError("markers of entries do not follow those of the previous segment")
                found.count += len(page)
                found.last_marker = page[-1].last_offset
        if found.count:
            self._segments.append(found)

    def reset_segment(self, segment_name: str) -> None:
        """Delete the entries of a segment, before recovery replays its markers."""
        self._storage.delete(self._name(segment_name))

    def add(self, aborted: AbortedTransaction, segment_name: str) -> None:
        """Write an entry beside the segment that has the abort marker; ignore an entry that exists.

        The entry of a failed flush stays in the file: a retry of the abort writes another marker and another entry.
        """
        if self._segments and self._segments[-1].last_marker >= aborted.last_offset:
            return
        name = self._name(segment_name)
        with closing(self._storage.open(name)) as file:
            number = file.append([build_entry(aborted)]) // ENTRY_BYTES
            if not self._segments or self._segments[-1].name != name:
                self._segments.append(_SegmentEntries(name, int(segment_name)))
            segment = self._segments[-1]
            segment.count, segment.last_marker = number + 1, aborted.last_offset
            if number % PAGE_ENTRIES:
                self.pages.add(segment, number // PAGE_ENTRIES, aborted)
            else:
                self.pages.put(segment, number // PAGE_ENTRIES, [aborted])
            file.flush()

    def between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with batches in ``[start, end)``.

        The search ends at the first entry with a last stable offset of ``end`` or more.
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

    def is_aborted(self, producer_id: int, offset: int) -> bool:
        """True if the producer's batch at ``offset`` was aborted."""
        return any(a.producer_id == producer_id for a in self.between(offset, offset + 1))

    def forget(self, start: int, end: int) -> None:
        gone = [segment for segment in self._segments if start <= segment.base_offset < end]
        self._segments = [segment for segment in self._segments if segment not in gone]
        for segment in gone:
            for number in range(segment.pages):
                self.pages.forget(segment, number)

    # ---------------------------------------------------------------- reading

    def _page_reaching(self, segment: _SegmentEntries, offset: int) -> int:
        if segment.count <= PAGE_ENTRIES:
            return 0
        before_last = range(segment.pages - 1)
        return bisect_left(before_last, offset, key=lambda number: self._last_marker_of(segment, number))

    def _last_marker_of(self, segment: _SegmentEntries, number: int) -> int:
        page = self.pages.get(segment, number) or self._read(segment, (number + 1) * PAGE_ENTRIES - 1, 1)
        return page[-1].last_offset

    def _page(self, segment: _SegmentEntries, number: int) -> Page:
        page = self.pages.get(segment, number)
        if page is None:
            first = number * PAGE_ENTRIES
            page = self._read(segment, first, min(segment.count - first, PAGE_ENTRIES))
            self.pages.put(segment, number, page)
        return page

    def _read(self, segment: _SegmentEntries, first: int, count: int) -> Page:
        with closing(self._storage.open(segment.name)) as file:
            data = file.read(first * ENTRY_BYTES, count * ENTRY_BYTES)
        if len(data) < count * ENTRY_BYTES:
            raise CorruptLog(f"{segment.name} is truncated: fewer than {segment.count} entries")
        try:
            return parse_page(data)
        except ValueError as error:
            raise CorruptLog(f"{segment.name} cannot be read: {error}") from error
