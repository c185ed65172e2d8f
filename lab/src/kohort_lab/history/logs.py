"""What clients were told of each partition: which value at which offset, and which stretches a reader went past.

A place is a partition and an offset in one number: the partition's place in the list in the upper bits.
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
NOBODY: Final = array("i", [-1]) * PAGE
NOTHING: Final = array("q", [0]) * PAGE


class LogPage:
    """A stretch of offsets: the value of each, the first line that read it, and the first that read it as committed."""

    __slots__ = ("committed_done", "committed_line", "line", "value")

    def __init__(self) -> None:
        self.value = array("i", NOBODY)
        self.line = array("q", NOTHING)
        self.committed_line = array("q", NOTHING)
        self.committed_done = array("q", NOTHING)


class SeenLog:
    """One partition, as clients saw it."""

    def __init__(self, topic: str, partition: int, number: int) -> None:
        self.topic = topic
        self.partition = partition
        self.number = number
        self.pages: dict[int, LogPage] = {}
        self.begins = 0
        """Records below this offset may be gone: deleted, or out of retention."""
        self.ends: list[tuple[int, int, int]] = []
        """(when asked, the end of the log, line): what clients were told of its end."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def page(self, offset: int) -> LogPage:
        """Return the page of an offset, made if need be."""
        found = self.pages.get(offset >> PAGE_BITS)
        if found is None:
            found = self.pages[offset >> PAGE_BITS] = LogPage()
        return found

    def place(self, offset: int) -> int:
        """Return partition and offset as one number."""
        return self.number << OFFSET_BITS | offset

    def known(self, start: int, end: int) -> Iterator[tuple[int, int, LogPage]]:
        """Yield the offsets from ``start`` up to ``end`` of which a value is known: offset, value, page."""
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
    """A stretch that a reader went past without a record: from ``start`` up to ``end``."""

    log: int
    start: int
    end: int
    line: int
    committed_only: bool


class PassedStretches:
    """Every such stretch, in columns: with transactions there is one for each, since their markers take offsets."""

    def __init__(self) -> None:
        self._log = array("i")
        self._start = array("q")
        self._end = array("q")
        self._line = array("q")
        self._committed_only = array("b")

    def add(self, gap: PassedStretch) -> None:
        """Note one."""
        self._log.append(gap.log)
        self._start.append(gap.start)
        self._end.append(gap.end)
        self._line.append(gap.line)
        self._committed_only.append(gap.committed_only)

    def __iter__(self) -> Iterator[PassedStretch]:
        columns = zip(self._log, self._start, self._end, self._line, self._committed_only, strict=True)
        return (PassedStretch(log, start, end, line, bool(only)) for log, start, end, line, only in columns)


class Logs:
    """The partitions of a history."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, int], SeenLog] = {}
        self.all: list[SeenLog] = []
        self.gaps = PassedStretches()
        self.compacted: set[str] = set()
        """Topics whose records may vanish behind newer ones."""
        self.whole: set[str] = set()
        """Topics of which every producer is recorded."""

    def log(self, topic: str, partition: int) -> SeenLog:
        """Return a partition, made if need be."""
        found = self._of.get((topic, partition))
        if found is None:
            found = self._of[topic, partition] = SeenLog(topic, partition, len(self.all))
            self.all.append(found)
        return found

    def at(self, place: int) -> tuple[SeenLog, int]:
        """Return partition and offset of a place."""
        return self.all[place >> OFFSET_BITS], place & (OFFSETS_END - 1)

    def told(self, place: int) -> str:
        """Return a place in words."""
        log, offset = self.at(place)
        return f"offset {offset} of {log}"
