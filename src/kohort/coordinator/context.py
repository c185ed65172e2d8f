"""What a decision may look at: the time, chance, the options, the topics, and when connections closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from kohort.clock import Rng
from kohort.config import BrokerConfig
from kohort.config.group import NO_OPTIONS, GroupOptions
from kohort.coordinator.outcome import TopicsView

REMEMBERED_CONNECTIONS: Final = 10_000

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


@dataclass(slots=True)
class Context:
    """The facts that a decision is made on, beside its group and its event."""

    now_ms: int
    config: BrokerConfig
    rng: Rng
    topics: TopicsView
    connections: ClosedConnections
    options_of_group: OptionsOfGroup = no_options
