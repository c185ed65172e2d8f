"""The entries of ``.txnindex`` files, a page of them at a time, and the pages that were read lately.

Of all partitions of a process no more than ``MOST_ENTRIES`` are kept in memory. Readers come one after another to the
same places, the end of a log above all; who comes to another reads the disk.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from itertools import pairwise
from typing import Final, NamedTuple

_entry: Final = struct.Struct(">hqqqq")
VERSION: Final = 0
ENTRY_BYTES: Final = _entry.size
PAGE_ENTRIES: Final = 256
MOST_ENTRIES: Final = 40_000
"""About 8 MB."""
PAGE_ITSELF: Final = 2
"""What a page takes besides its entries, in entries."""


class AbortedTransaction(NamedTuple):
    """What a producer wrote from ``first_offset`` to its marker at ``last_offset`` was taken back.

    ``last_stable_offset`` is where reading could go on to once that was known.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


Page = list[AbortedTransaction]


def build_entry(aborted: AbortedTransaction) -> bytes:
    return _entry.pack(VERSION, *aborted)


def parse_page(data: bytes) -> Page:
    """Return the entries of a piece of a file. Raises ValueError for what is none, or not in order."""
    if len(data) % ENTRY_BYTES:
        raise ValueError(f"{len(data)} bytes are not a whole number of entries")
    if any(data[::ENTRY_BYTES]) or any(data[1::ENTRY_BYTES]):
        raise ValueError(f"an entry of another version; only {VERSION} is read")
    page = [AbortedTransaction(pid, first, last, stable) for _, pid, first, last, stable in _entry.iter_unpack(data)]
    if any(a.last_offset >= b.last_offset for a, b in pairwise(page)):
        raise ValueError("its entries are not in order")
    return page


class AbortedPages:
    """The pages that were used lately, of all partitions of a process; a page belongs to an object and has a number."""

    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self.limit = most_entries
        self.used = 0
        """Entries that are kept, and what their pages take, in entries."""
        self._pages: OrderedDict[tuple[object, int], Page] = OrderedDict()

    def get(self, of: object, number: int) -> Page | None:
        page = self._pages.get((of, number))
        if page is not None:
            self._pages.move_to_end((of, number))
        return page

    def put(self, of: object, number: int, page: Page) -> None:
        """Keep a page; those that were not used for the longest go for it."""
        self.forget(of, number)
        self._pages[of, number] = page
        self.used += len(page) + PAGE_ITSELF
        self._make_room()

    def add(self, of: object, number: int, entry: AbortedTransaction) -> None:
        """Keep an entry behind the others of its page, where that is kept."""
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
