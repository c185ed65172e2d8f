"""Which rebalances are new: those that entries just written have made, or brought to their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from kohort.coordinator.journal import JournalEntry
from kohort.insight.findings.model import RebalanceFinding
from kohort.insight.findings.rebalances import find_rebalances

UNDER_WAY: Final = ("open", "assigning", "reconciling")
LAST: Final = 300
"""How many entries of a group are looked back at."""


class KeptJournal(Protocol):
    """Where entries of groups are kept."""

    def entries(self, group: str, *, last: int | None = None) -> list[JournalEntry]:
        """Return the last entries of a group, oldest first."""


def new_rebalances(kept: KeptJournal, new: Sequence[JournalEntry]) -> list[RebalanceFinding]:
    """Return the rebalances that are over since ``new`` was kept, the last entries of their groups."""
    found = []
    for group, count in Counter(entry.group for entry in new).items():
        entries = kept.entries(group, last=max(LAST, count))
        known = {_key(this) for this in _over(entries[: len(entries) - count])}
        found += [this for this in _over(entries) if _key(this) not in known]
    return sorted(found, key=lambda this: this.opened_at_ms)


def _over(entries: Sequence[JournalEntry]) -> list[RebalanceFinding]:
    return [this for this in find_rebalances(entries) if this.end not in UNDER_WAY]


def _key(this: RebalanceFinding) -> tuple[str, int]:
    return this.id, this.opened_at_ms
