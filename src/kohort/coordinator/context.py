"""What a decision may look at: the time, chance, the options, the topics, and when connections closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kohort.clock import Rng
from kohort.config import BrokerConfig
from kohort.config.group import NO_OPTIONS, GroupOptions
from kohort.coordinator.outcome import TopicsView

REMEMBERED_CONNECTIONS: Final = 10_000
SEARCH_LOST_MS: Final = 1_000
"""A search that was not gone on with for so long does not keep others waiting: its group is gone."""

OptionsOfGroup: TypeAlias = Callable[[str], GroupOptions]
"""What a group has of its own, by its id."""


def no_options(_group_id: str) -> GroupOptions:
    """Return nothing: every group goes by the broker's options."""
    return NO_OPTIONS


class ClosedConnections:
    """When the latest few thousand connections closed. Evidence for the journal: nothing is decided on it."""

    def __init__(self, limit: int = REMEMBERED_CONNECTIONS) -> None:
        self._closed_at_ms: dict[int, int] = {}
        self._limit = limit

    def add(self, connection: int, now_ms: int) -> None:
        self._closed_at_ms[connection] = now_ms
        if len(self._closed_at_ms) > self._limit:
            del self._closed_at_ms[next(iter(self._closed_at_ms))]

    def closed_at_ms(self, connection: int) -> int | None:
        """Return when ``connection`` closed, or None: it is open, or closed too long ago to be remembered."""
        return self._closed_at_ms.get(connection)


class SearchTurns:
    """Whose search for the topics of expressions goes on: that of one group at a time, a step a millisecond. Else a
    thousand groups would each take a step at the same moment, and each remember all the topics that there are."""

    def __init__(self) -> None:
        self._of = ""
        self._stepped_ms = -SEARCH_LOST_MS
        self._next_ms = 0

    def takes(self, group_id: str, now_ms: int) -> bool:
        """Tell whether the group may take a step; it has the turn from then on, until it is done or not heard of."""
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
    connections: ClosedConnections
    options_of_group: OptionsOfGroup = no_options
    searches: SearchTurns = field(default_factory=SearchTurns)
