"""Context of a coordinator decision: time, options, topics, and data for the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from kohort.clock import Rng
from kohort.config import BrokerConfig
from kohort.config.group import GroupOptions
from kohort.coordinator.journal_evidence import JournalEvidence
from kohort.coordinator.outcome import TopicsView

SEARCH_LOST_MS: Final = 1_000
"""Time in ms after which a topic search without progress no longer blocks the searches of other groups.

The group of the search may have been deleted.
"""

OptionsOfGroup: TypeAlias = Callable[[str], GroupOptions]
LagOfGroup: TypeAlias = Callable[[str, Iterable[tuple[str, int]]], int | None]
"""Function that returns a group's lag in records, summed over the given partitions; None if the lag is unknown."""


class SearchTurns:
    """Schedule of the groups' topic searches: one group searches at a time, with at most one step per millisecond."""

    def __init__(self) -> None:
        self._of = ""
        self._stepped_ms = -SEARCH_LOST_MS
        self._next_ms = 0

    def may_step(self, group_id: str, now_ms: int) -> bool:
        """Return True if the group may do a search step now.

        Return False if another group searches, or if this millisecond already had a step.
        """
        is_others_turn = self._of not in ("", group_id) and now_ms < self._stepped_ms + SEARCH_LOST_MS
        if self._stepped_ms == now_ms or is_others_turn:
            return False
        self._of, self._stepped_ms = group_id, now_ms
        return True

    def done(self) -> None:
        self._of = ""

    def next_ms(self, now_ms: int) -> int:
        """Return the time in ms of a waiting group's next attempt to search. No two groups get the same time."""
        self._next_ms = max(self._next_ms, now_ms) + 1
        return self._next_ms


@dataclass(slots=True)
class Context:
    """Context of a coordinator decision: all its input except the group and the request."""

    now_ms: int
    config: BrokerConfig
    rng: Rng
    topics: TopicsView
    evidence: JournalEvidence
    """Data for journal entries. Decisions depend neither on ``evidence`` nor on ``lag_of``."""
    options_of_group: OptionsOfGroup
    searches: SearchTurns
    lag_of: LagOfGroup
