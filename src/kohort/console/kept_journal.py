"""The entries of a cluster's journal that the console has at hand: as bytes, so many in all, the oldest going first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from kohort.coordinator.journal import JournalEntry, build_entry, parse_entry
from kohort.insight.findings.model import RebalanceFinding
from kohort.insight.findings.rebalances import find_rebalances

MIB: Final = 1 << 20
ENTRY_BYTES: Final = 100
"""What an entry takes besides its bytes, about."""


class ConsoleJournal:
    """Entries by group, in the order in which they came. May be used on any thread."""

    def __init__(self, max_bytes: int = 64 * MIB) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._by_group: dict[str, deque[tuple[int, bytes]]] = {}
        self._order: deque[str] = deque()
        """The groups of all entries, oldest first: whose goes next."""
        self._bytes = 0
        self.since_ms: int | None = None
        self.until_ms: int | None = None
        self.left_out = 0
        """Entries that were let go of."""

    def add(self, entries: Iterable[JournalEntry]) -> None:
        """Keep entries."""
        with self._lock:
            for entry in entries:
                data = build_entry(entry)
                self._by_group.setdefault(entry.group, deque()).append((entry.at_ms, data))
                self._order.append(entry.group)
                self._bytes += len(data) + ENTRY_BYTES
                self.since_ms = entry.at_ms if self.since_ms is None else self.since_ms
                self.until_ms = max(entry.at_ms, self.until_ms or 0)
            while self._bytes > self._max_bytes and self._order:
                self._let_go()

    def _let_go(self) -> None:
        group = self._order.popleft()
        at_ms, data = self._by_group[group].popleft()
        if not self._by_group[group]:
            del self._by_group[group]
        self._bytes -= len(data) + ENTRY_BYTES
        self.left_out += 1
        self.since_ms = at_ms

    def groups(self) -> list[str]:
        """Return the names of the groups that have entries."""
        with self._lock:
            return list(self._by_group)

    def entries(self, group: str, until_ms: int | None = None, since_ms: int = 0) -> list[JournalEntry]:
        """Return the entries of a group of a time, in their order."""
        with self._lock:
            kept = list(self._by_group.get(group, ()))
        return [
            parse_entry(data) for at_ms, data in kept if at_ms >= since_ms and (until_ms is None or at_ms <= until_ms)
        ]

    def rebalances(self, since_ms: int, until_ms: int | None, back_ms: int) -> Mapping[str, list[RebalanceFinding]]:
        """Return the rebalances of all groups that were opened between two times. Entries from ``back_ms`` before are
        looked at, since a rebalance is told by what was before it."""
        found: dict[str, list[RebalanceFinding]] = {}
        for group in self.groups():
            told = find_rebalances(self.entries(group, until_ms, since_ms - back_ms))
            found[group] = [this for this in told if this.opened_at_ms >= since_ms]
        return found
