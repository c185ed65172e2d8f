"""The entries of a cluster's journal that the console has at hand: as bytes, so many in all, the oldest going first."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kohort.coordinator.journal import JournalEntry, build_entry, parse_entry
from kohort.insight.findings.model import RebalanceFinding
from kohort.insight.findings.rebalances import find_rebalances

MIB: Final = 1 << 20
ENTRY_BYTES: Final = 100
"""What an entry takes besides its bytes, about."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The rebalances of a group that its entries since a time told of, when it had no later ones."""

    version: int
    since_ms: int
    rebalances: list[RebalanceFinding]


class ConsoleJournal:
    """Entries by group, in the order in which they came. May be used on any thread."""

    def __init__(self, max_bytes: int = 64 * MIB) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._by_group: dict[str, deque[tuple[int, bytes]]] = {}
        self._order: deque[str] = deque()
        """The groups of all entries, oldest first: whose goes next."""
        self._added = 0
        self._versions: dict[str, int] = {}
        """How many entries there had been when the last of a group came."""
        self._found: dict[str, _Found] = {}
        """What was found last for "until now": most groups have no new entry from one sample to the next."""
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
                self._added += 1
                self._versions[entry.group] = self._added
                self._bytes += len(data) + ENTRY_BYTES
                self.since_ms = entry.at_ms if self.since_ms is None else self.since_ms
                self.until_ms = max(entry.at_ms, self.until_ms or 0)
            while self._bytes > self._max_bytes and self._order:
                self._let_go()

    def _let_go(self) -> None:
        group = self._order.popleft()
        at_ms, data = self._by_group[group].popleft()
        if not self._by_group[group]:
            del self._by_group[group], self._versions[group]
            self._found.pop(group, None)
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
        return {
            group: _since(since_ms, find_rebalances(self.entries(group, until_ms, since_ms - back_ms)))
            for group in self.groups()
        }

    def recent_rebalances(self, since_ms: int, back_ms: int) -> Mapping[str, list[RebalanceFinding]]:
        """Return the rebalances of all groups since a time, as ``rebalances`` does; what is found is kept, so that only
        groups with new entries are looked at the next time."""
        return {group: _since(since_ms, self._looked_at(group, since_ms - back_ms)) for group in self.groups()}

    def _looked_at(self, group: str, since_ms: int) -> list[RebalanceFinding]:
        with self._lock:
            version, known = self._versions.get(group, 0), self._found.get(group)
        if known is not None and known.version == version and known.since_ms <= since_ms:
            return known.rebalances  # found in entries from further back, which is as good
        found = find_rebalances(self.entries(group, None, since_ms))
        with self._lock:
            if self._versions.get(group) == version:
                self._found[group] = _Found(version, since_ms, found)
        return found


def _since(since_ms: int, found: Iterable[RebalanceFinding]) -> list[RebalanceFinding]:
    return [this for this in found if this.opened_at_ms >= since_ms]
