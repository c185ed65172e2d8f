"""What the coordinator remembers for the journal alone, beside its groups: nothing is decided on it.

When connections closed, when the broker itself stood still, whose connections may close since they left, who commits
to groups that it is no member of; and how many requests of members were refused. All of it is bounded, and gone after a
restart.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from kohort.coordinator.counters import FencedCounters
from kohort.coordinator.journal import (
    Who,
)
from kohort.coordinator.journal_events import MemberDisconnected
from kohort.coordinator.member_said import SaidByMembers
from kohort.coordinator.memorable_names import are_memorable, beginning_of

CONNECTIONS: Final = 10_000
STALLS: Final = 100
LEAVERS: Final = 1_000
COMMITTERS: Final = 1_000
TOLD_AGAIN_MS: Final = 3_600_000
"""After which it is told again that somebody commits who is no member."""
TOLD_BACK_MS: Final = 1_000
"""The same of commits that go back."""


class ClosedConnections:
    """When the latest few thousand connections closed."""

    def __init__(self, limit: int = CONNECTIONS) -> None:
        self._closed_at_ms: dict[int, int] = {}
        self._limit = limit

    def add(self, connection: int, now_ms: int) -> None:
        self._closed_at_ms[connection] = now_ms
        if len(self._closed_at_ms) > self._limit:
            del self._closed_at_ms[next(iter(self._closed_at_ms))]

    def closed_at_ms(self, connection: int) -> int | None:
        """Return when ``connection`` closed, or None: it is open, or closed too long ago to be remembered."""
        return self._closed_at_ms.get(connection)


class Stall(NamedTuple):
    """A time in which the broker did nothing at all, although it had something to do."""

    from_ms: int
    until_ms: int


class BrokerStalls:
    """When this broker stood still, lately."""

    def __init__(self) -> None:
        self._stalls: deque[Stall] = deque(maxlen=STALLS)

    def add(self, stall: Stall) -> None:
        self._stalls.append(stall)

    def since(self, from_ms: int, now_ms: int) -> tuple[int, int | None]:
        """Return for how many milliseconds the broker has stood still from ``from_ms`` on, and since when."""
        cut = [(max(s.from_ms, from_ms), min(s.until_ms, now_ms)) for s in self._stalls]
        stood = [(began, ended) for began, ended in cut if ended > began]
        return sum(ended - began for began, ended in stood), min((began for began, _ in stood), default=None)


class Leavers:
    """Members that left, by the connections on which they said so, until these close."""

    def __init__(self) -> None:
        self._left: dict[int, tuple[str, Who, int]] = {}

    def add(self, connection: int, group: str, who: Who, now_ms: int) -> None:
        if not are_memorable(group, who.member_id, who.client_id, who.instance_id):
            return
        self._left[connection] = group, who, now_ms
        if len(self._left) > LEAVERS:
            del self._left[next(iter(self._left))]

    def closed(self, connection: int, now_ms: int) -> MemberDisconnected | None:
        """Return the entry for a connection that closed, if somebody had left on it."""
        left = self._left.pop(connection, None)
        if left is None:
            return None
        group, who, left_at_ms = left
        return MemberDisconnected(at_ms=now_ms, group=group, who=who, after_ms=now_ms - left_at_ms)


class OutsideCommitters:
    """Who has committed to which group without being a member, and when that was told last."""

    def __init__(self) -> None:
        self._told_ms: dict[tuple[str, str, str], int] = {}

    def is_news(self, group: str, who: Who, now_ms: int, *, backwards: bool) -> bool:
        """Tell whether a commit is to be told of, and take it that it is."""
        key = beginning_of(group), beginning_of(who.client_id), who.client_host
        told_ms = self._told_ms.get(key)
        if told_ms is not None and now_ms - told_ms < (TOLD_BACK_MS if backwards else TOLD_AGAIN_MS):
            return False
        self._told_ms.pop(key, None)
        self._told_ms[key] = now_ms
        if len(self._told_ms) > COMMITTERS:
            del self._told_ms[next(iter(self._told_ms))]
        return True


class Remembered:
    """All of it, for the decisions that write entries."""

    __slots__ = ("committers", "connections", "fenced", "leavers", "said", "stalls")

    def __init__(self) -> None:
        self.connections = ClosedConnections()
        self.stalls = BrokerStalls()
        self.leavers = Leavers()
        self.committers = OutsideCommitters()
        self.said = SaidByMembers()
        self.fenced = FencedCounters()
