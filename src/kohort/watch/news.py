"""Which rebalances are new: those that entries just written have made, or brought to their end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from kohort.coordinator.journal import JournalEntry
from kohort.insight.findings.model import RebalanceFinding
from kohort.insight.findings.rebalances import find_rebalances

UNDER_WAY: Final = ("open", "assigning", "reconciling")
LAST: Final = 300
"""How many entries of a group are looked back at when it is heard of first."""
MOST: Final = 2_000
"""How many of one group are looked at at a time."""
FINDINGS_KEPT: Final = 3
"""So many rebalances back entries are kept, so that what comes next is understood."""
GROUPS_KEPT: Final = 200


class KeptJournal(Protocol):
    """Where entries of groups are kept."""

    def entries(self, group: str, *, last: int | None = None) -> list[JournalEntry]:
        """Return the last entries of a group, oldest first."""


Key = tuple[str, int]


@dataclass(slots=True)
class _Recent:
    entries: list[JournalEntry]
    told: set[Key] = field(default_factory=set)


class RebalanceNews:
    """Finds what is new; of the groups that were heard of last it has what is needed at hand."""

    def __init__(self, kept: KeptJournal) -> None:
        self._kept = kept
        self._recent: OrderedDict[str, _Recent] = OrderedDict()

    def of(self, new: Iterable[JournalEntry]) -> list[RebalanceFinding]:
        """Return the rebalances that are over since ``new`` was kept, the last entries of their groups."""
        by_group: dict[str, list[JournalEntry]] = {}
        for entry in new:
            by_group.setdefault(entry.group, []).append(entry)
        found = [this for group, entries in by_group.items() for this in self._of_group(group, entries)]
        return sorted(found, key=lambda this: this.opened_at_ms)

    def _of_group(self, group: str, new: Sequence[JournalEntry]) -> list[RebalanceFinding]:
        recent = self._recent.get(group) or self._looked_back(group, len(new))
        self._recent[group] = recent
        self._recent.move_to_end(group)
        if len(self._recent) > GROUPS_KEPT:
            self._recent.popitem(last=False)
        recent.entries = [*recent.entries, *new][-MOST:]
        found = find_rebalances(recent.entries)
        over = [this for this in found if this.end not in UNDER_WAY]
        news = [this for this in over if _key(this) not in recent.told]
        recent.told = {_key(this) for this in over}
        if len(found) > FINDINGS_KEPT:
            since_ms = found[-FINDINGS_KEPT].opened_at_ms
            recent.entries = [entry for entry in recent.entries if entry.at_ms >= since_ms]
        return news

    def _looked_back(self, group: str, count: int) -> _Recent:
        entries = self._kept.entries(group, last=LAST + count)
        before = entries[: len(entries) - count]
        return _Recent(before, {_key(this) for this in find_rebalances(before) if this.end not in UNDER_WAY})


def _key(this: RebalanceFinding) -> Key:
    return this.id, this.opened_at_ms
