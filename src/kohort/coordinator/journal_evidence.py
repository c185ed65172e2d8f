"""Observations for the journal that are not part of the group state. Decisions do not depend on them.

They are: closed connections, stalls of the broker, departed members, commits by non-members, pushed client metrics,
counts of refused requests. Each has a maximum size. After a restart of the broker all are empty.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Sequence
from typing import Final, NamedTuple

from kohort.coordinator.journal_events import ClientIdentity, MemberDisconnected, MemberMetrics
from kohort.coordinator.records import OffsetCommitted, Record

MEMBERS: Final = 10_000
SAME_MS: Final = 300_000
"""Two clients with equal client id and host count as parallel if they push metrics within this time (ms).

The metrics of parallel clients are ignored if the clients have no member id. After a longer time, the second client
counts as a restart of the first client.
"""
NAME_LETTERS_MAX: Final = 1_000
"""Maximum letters of a client's member id, client id and host together. Clients with more are not recorded."""
NAME_PREFIX_MAX: Final = 300
"""Maximum letters of a member id or client id that are compared with another id. The rest is ignored."""
GROUPS_MOST: Final = 10_000
NAMES_MOST_BYTES: Final = 4 << 20
"""Maximum total bytes of the group ids for which counters are kept.

Above it, or above ``GROUPS_MOST`` groups, the oldest counters are dropped.
"""
CONNECTIONS: Final = 10_000
STALLS: Final = 100
LEAVERS: Final = 1_000
COMMITTERS: Final = 1_000
JOURNAL_AGAIN_MS: Final = 3_600_000
"""Minimum time in ms between two journal entries about commits of the same non-member."""
JOURNAL_BACKWARD_AGAIN_MS: Final = 1_000
"""Minimum time in ms between two journal entries about a non-member's commits that move an offset back."""


class MetricsByMember:
    """Metrics in each member's last push, for the 10,000 members that pushed last."""

    def __init__(self, limit: int = MEMBERS) -> None:
        self._metrics: dict[tuple[str, str, str], tuple[str, MemberMetrics | None]] = {}
        self._limit = limit

    def add(self, client_instance_id: str, who: ClientIdentity, metrics: MemberMetrics) -> None:
        key = who.client_id, who.client_host, who.member_id
        if not names_fit(*key):
            return
        other, before = self._metrics.pop(key, ("", None))
        is_one = other in ("", client_instance_id) or (before is not None and metrics.at_ms - before.at_ms > SAME_MS)
        self._metrics[key] = client_instance_id, metrics if is_one or who.member_id else None
        if len(self._metrics) > self._limit:
            del self._metrics[next(iter(self._metrics))]

    def of(self, who: ClientIdentity) -> MemberMetrics | None:
        for member_id in (who.member_id, ""):
            _, metrics = self._metrics.get((who.client_id, who.client_host, member_id), ("", None))
            if metrics is not None:
                return metrics
        return None


def names_fit(*names: str | None) -> bool:
    return sum(len(name) for name in names if name) <= NAME_LETTERS_MAX


def name_prefix(name: str) -> str:
    """Return the first letters of a member id or client id. Comparisons ignore the rest."""
    return name[:NAME_PREFIX_MAX]


class OffsetCounters:
    """Numbers of committed, expired and deleted offsets."""

    __slots__ = ("committed", "deleted", "expired")

    def __init__(self) -> None:
        self.committed = 0
        self.expired = 0
        self.deleted = 0

    def written(self, records: Sequence[Record]) -> None:
        """Count the committed and deleted offsets in appended records."""
        for record in records:
            if type(record) is OffsetCommitted:
                if record.value is None:
                    self.deleted += 1
                else:
                    self.committed += 1

    def expired_since(self, deleted: int) -> None:
        """Subtract expired offsets from ``self.deleted`` and add them to ``self.expired``.

        ``deleted``: value of ``self.deleted`` before the expiry.
        """
        self.expired += self.deleted - deleted
        self.deleted = deleted


class FencedCounters:
    """Number of requests refused for a stale member id, instance id, generation or epoch, including repetitions."""

    __slots__ = ("_names_bytes", "by_group", "by_kind")

    def __init__(self) -> None:
        self.by_kind: Counter[tuple[str, str]] = Counter()
        self.by_group: dict[str, Counter[tuple[str, str]]] = {}
        self._names_bytes = 0

    def refused(self, group: str, api: str, error: str) -> None:
        self.by_kind[api, error] += 1
        counted = self.by_group.get(group)
        if counted is None:
            counted = self.by_group[group] = Counter()
            self._names_bytes += len(group)
            while len(self.by_group) > GROUPS_MOST or self._names_bytes > NAMES_MOST_BYTES:
                self._forget(next(iter(self.by_group)))
        counted[api, error] += 1

    def keep(self, groups: Container[str]) -> None:
        for name in [name for name in self.by_group if name not in groups]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        del self.by_group[name]
        self._names_bytes -= len(name)


class ClosedConnections:
    """Time at which each client connection closed, for the 10,000 connections that closed last."""

    def __init__(self, limit: int = CONNECTIONS) -> None:
        self._closed_at_ms: dict[int, int] = {}
        self._limit = limit

    def add(self, connection: int, now_ms: int) -> None:
        self._closed_at_ms[connection] = now_ms
        if len(self._closed_at_ms) > self._limit:
            del self._closed_at_ms[next(iter(self._closed_at_ms))]

    def closed_at_ms(self, connection: int) -> int | None:
        """Return the closing time of a connection in ms; None if the connection is open, or its time was dropped."""
        return self._closed_at_ms.get(connection)


class Stall(NamedTuple):
    """Period in which the broker stalled: events were due, but it processed none."""

    from_ms: int
    until_ms: int


class BrokerStalls:
    """Latest stalls of the broker: periods in which events were due, but it processed none."""

    def __init__(self) -> None:
        self._stalls: deque[Stall] = deque(maxlen=STALLS)

    def add(self, stall: Stall) -> None:
        self._stalls.append(stall)

    def since(self, from_ms: int, now_ms: int) -> tuple[int, int | None]:
        """Return the total duration in ms of stalls since ``from_ms``, and the start of the first stall or None."""
        cut = [(max(s.from_ms, from_ms), min(s.until_ms, now_ms)) for s in self._stalls]
        stood = [(began, ended) for began, ended in cut if ended > began]
        return sum(ended - began for began, ended in stood), min((began for began, _ in stood), default=None)


class DepartedMembers:
    """Departed members with the connection on which they left. Members with a closed connection are dropped."""

    def __init__(self) -> None:
        self._left: dict[int, tuple[str, ClientIdentity, int]] = {}

    def add(self, connection: int, group: str, who: ClientIdentity, now_ms: int) -> None:
        if not names_fit(group, who.member_id, who.client_id, who.instance_id):
            return
        self._left[connection] = group, who, now_ms
        if len(self._left) > LEAVERS:
            del self._left[next(iter(self._left))]

    def closed(self, connection: int, now_ms: int) -> MemberDisconnected | None:
        left = self._left.pop(connection, None)
        if left is None:
            return None
        group, who, left_at_ms = left
        return MemberDisconnected(at_ms=now_ms, group=group, member=who, after_ms=now_ms - left_at_ms)


class NonMemberCommitters:
    """Clients that committed offsets without being members, each with the time of its last journal entry."""

    def __init__(self) -> None:
        self._journaled_ms: dict[tuple[str, str, str], int] = {}

    def should_journal(self, group: str, who: ClientIdentity, now_ms: int, *, backwards: bool) -> bool:
        """Return True if this commit of a non-member gets a journal entry; then also record the time of the entry."""
        key = name_prefix(group), name_prefix(who.client_id), who.client_host
        journaled_ms = self._journaled_ms.get(key)
        if journaled_ms is not None and now_ms - journaled_ms < (
            JOURNAL_BACKWARD_AGAIN_MS if backwards else JOURNAL_AGAIN_MS
        ):
            return False
        self._journaled_ms.pop(key, None)
        self._journaled_ms[key] = now_ms
        if len(self._journaled_ms) > COMMITTERS:
            del self._journaled_ms[next(iter(self._journaled_ms))]
        return True


class JournalEvidence:
    """Observations for the journal entries of one coordinator."""

    __slots__ = ("client_metrics", "committers", "connections", "departed", "fenced", "stalls")

    def __init__(self) -> None:
        self.connections = ClosedConnections()
        self.stalls = BrokerStalls()
        self.departed = DepartedMembers()
        self.committers = NonMemberCommitters()
        self.client_metrics = MetricsByMember()
        self.fenced = FencedCounters()
