"""Partitions as seen by clients: the value at each offset, and offsets that readers skipped.

A *place* packs a partition's index (upper bits) and an offset into one integer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

OFFSET_BITS: Final = 44
OFFSETS_END: Final = 1 << OFFSET_BITS
PAGE_BITS: Final = 8
PAGE: Final = 1 << PAGE_BITS
WITHIN: Final = PAGE - 1
UNKNOWN_VALUES: Final = array("i", [-1]) * PAGE
NOTHING: Final = array("q", [0]) * PAGE


class LogPage:
    """Page of offsets: value, line of the first read and of the first read_committed read."""

    __slots__ = ("committed_done", "committed_line", "line", "value")

    def __init__(self) -> None:
        self.value = array("i", UNKNOWN_VALUES)
        self.line = array("q", NOTHING)
        self.committed_line = array("q", NOTHING)
        self.committed_done = array("q", NOTHING)


class SeenLog:
    """One partition as seen by clients."""

    def __init__(self, topic: str, partition: int, number: int) -> None:
        self.topic = topic
        self.partition = partition
        self.number = number
        self.pages: dict[int, LogPage] = {}
        self.begins = 0
        """Log start offset: retention or deletion may have removed earlier records."""
        self.ends: list[tuple[int, int, int]] = []
        """Log end offsets that clients received: (request time, end offset, line)."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def page(self, offset: int) -> LogPage:
        """Return the page of an offset; creates it if missing."""
        found = self.pages.get(offset >> PAGE_BITS)
        if found is None:
            found = self.pages[offset >> PAGE_BITS] = LogPage()
        return found

    def place(self, offset: int) -> int:
        """Pack partition and offset into one integer."""
        return self.number << OFFSET_BITS | offset

    def known_values(self, start: int, end: int) -> Iterator[tuple[int, int, LogPage]]:
        """Yield offset, value and page of each known value in ``[start, end)``."""
        first, last = start >> PAGE_BITS, (end - 1) >> PAGE_BITS
        numbers = range(first, last + 1) if last - first < len(self.pages) else sorted(self.pages)
        for number in numbers:
            page = self.pages.get(number)
            if page is None or not first <= number <= last:
                continue
            base = number << PAGE_BITS
            for offset in range(max(start, base), min(end, base + PAGE)):
                if (value := page.value[offset & WITHIN]) >= 0:
                    yield offset, value, page


class PassedStretch(NamedTuple):
    """Offsets ``[start, end)`` that a reader skipped."""

    log: int
    start: int
    end: int
    line: int
    committed_only: bool


class PassedStretches:
    """Skipped offsets, as columns: transaction markers cause one entry per transaction."""

    def __init__(self) -> None:
        self._log = array("i")
        self._start = array("q")
        self._end = array("q")
        self._line = array("q")
        self._committed_only = array("b")

    def add(self, gap: PassedStretch) -> None:
        self._log.append(gap.log)
        self._start.append(gap.start)
        self._end.append(gap.end)
        self._line.append(gap.line)
        self._committed_only.append(gap.committed_only)

    def __iter__(self) -> Iterator[PassedStretch]:
        columns = zip(self._log, self._start, self._end, self._line, self._committed_only, strict=True)
        return (PassedStretch(log, start, end, line, bool(only)) for log, start, end, line, only in columns)


class Logs:
    def __init__(self) -> None:
        self._of: dict[tuple[str, int], SeenLog] = {}
        self.all: list[SeenLog] = []
        self.gaps = PassedStretches()
        self.compacted: set[str] = set()
        """Compacted topics."""
        self.whole: set[str] = set()
        """Topics whose producers are all recorded."""

    def log(self, topic: str, partition: int) -> SeenLog:
        """Return a partition; creates it if missing."""
        found = self._of.get((topic, partition))
        if found is None:
            found = self._of[topic, partition] = SeenLog(topic, partition, len(self.all))
            self.all.append(found)
        return found

    def at(self, place: int) -> tuple[SeenLog, int]:
        """Unpack partition and offset of a place."""
        return self.all[place >> OFFSET_BITS], place & (OFFSETS_END - 1)

    def describe(self, place: int) -> str:
        """Describe a place in an anomaly."""
        log, offset = self.at(place)
        return f"offset {offset} of {log}"
