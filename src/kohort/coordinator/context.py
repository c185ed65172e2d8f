"""What a decision may look at: the time, chance, the options, the topics, and what is remembered for the journal."""

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
"""Drop an idle regex search after this long: its group was deleted."""

OptionsOfGroup: TypeAlias = Callable[[str], GroupOptions]
"""Options of a group, by its id."""


def no_options(_group_id: str) -> GroupOptions:
    """Return nothing: every group goes by the broker's options."""
    return NO_OPTIONS


LagOfGroup: TypeAlias = Callable[[str, Iterable[tuple[str, int]]], int | None]
"""Lag of a group in some partitions, by committed offsets; None if unknown."""


def unknown_lag(_group_id: str, _places: Iterable[tuple[str, int]]) -> int | None:
    """Return None: nobody knows."""
    return None


class SearchTurns:
    """Whose search for the topics of expressions goes on: that of one group at a time, a step a millisecond. Else a
    thousand groups would each take a step at the same moment, and each remember all the topics that there are."""

    def __init__(self) -> None:
        self._of = ""
        self._stepped_ms = -SEARCH_LOST_MS
        self._next_ms = 0

    def may_step(self, group_id: str, now_ms: int) -> bool:
        """Tell whether the group may take a step; it then has the turn until it is done or idle."""
        if self._stepped_ms == now_ms or (
            self._of not in ("", group_id) and now_ms < self._stepped_ms + SEARCH_LOST_MS
        ):
            return False
        self._of, self._stepped_ms = group_id, now_ms
        return True

    def done(self) -> None:
        """Let another group have its turn."""
        self._of = ""

    def next_ms(self, now_ms: int) -> int:
        """Return when whoever may not step now is to ask again: no two at the same moment."""
        self._next_ms = max(self._next_ms, now_ms) + 1
        return self._next_ms


@dataclass(slots=True)
class Context:
    """The facts that a decision is made on, beside its group and its event."""

    now_ms: int
    config: BrokerConfig
    rng: Rng
    topics: TopicsView
    evidence: JournalEvidence
    """Evidence for the journal, as ``lag_of`` is: nothing is decided on it."""
    options_of_group: OptionsOfGroup = no_options
    searches: SearchTurns = field(default_factory=SearchTurns)
    lag_of: LagOfGroup = unknown_lag
