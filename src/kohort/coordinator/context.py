"""Input of a coordinator decision besides group and request: time, options, topics, observations for the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kohort.clock import Rng
from kohort.config import BrokerConfig
from kohort.config.group import NO_OPTIONS, GroupOptions
from kohort.coordinator.journal_evidence import JournalEvidence
from kohort.coordinator.outcome import TopicsView

SEARCH_LOST_MS: Final = 1_000
"""Time in ms after which an idle pattern search loses its turn: its group was deleted."""

OptionsOfGroup: TypeAlias = Callable[[str], GroupOptions]
LagOfGroup: TypeAlias = Callable[[str, Iterable[tuple[str, int]]], int | None]
"""Return a group's lag in records, summed over the given partitions; None if unknown."""


def no_options(_group_id: str) -> GroupOptions:
    return NO_OPTIONS


def unknown_lag(_group_id: str, _places: Iterable[tuple[str, int]]) -> int | None:
    return None


class SearchTurns:
    """Turns of groups in the pattern search: one group searches at a time, one step per ms."""

    def __init__(self) -> None:
        self._of = ""
        self._stepped_ms = -SEARCH_LOST_MS
        self._next_ms = 0

    def may_step(self, group_id: str, now_ms: int) -> bool:
        """Return True if the group may match its subscription patterns now; one group matches at a time."""
        if self._stepped_ms == now_ms or (
            self._of not in ("", group_id) and now_ms < self._stepped_ms + SEARCH_LOST_MS
        ):
            return False
        self._of, self._stepped_ms = group_id, now_ms
        return True

    def done(self) -> None:
        self._of = ""

    def next_ms(self, now_ms: int) -> int:
        """Return the time in ms at which a waiting group tries its topic search again; each group gets its own time."""
        self._next_ms = max(self._next_ms, now_ms) + 1
        return self._next_ms


@dataclass(slots=True)
class Context:
    """Input of a coordinator decision besides its group and request."""

    now_ms: int
    config: BrokerConfig
    rng: Rng
    topics: TopicsView
    evidence: JournalEvidence
    """Observations for journal entries; decisions depend neither on them nor on ``lag_of``."""
    options_of_group: OptionsOfGroup = no_options
    searches: SearchTurns = field(default_factory=SearchTurns)
    lag_of: LagOfGroup = unknown_lag
