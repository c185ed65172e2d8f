"""What the coordinator remembers for the journal alone, beside its groups: nothing is decided on it.

When connections closed, when the broker itself stood still, whose connections may close since they left, who commits
to groups that it is no member of; and how many requests of members were refused. All of it is bounded, and gone after a
restart.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Sequence
from typing import Final, NamedTuple

from kohort.coordinator.journal_events import MemberDisconnected, MemberMetrics, Who
from kohort.coordinator.records import OffsetCommitted, Record

MEMBERS: Final = 10_000
SAME_MS: Final = 300_000
"""Two clients that name no member, and push within this time from one host under one client id, cannot be told
apart."""


class MetricsByMember:
    """The last words of the latest few thousand members."""

    def __init__(self, limit: int = MEMBERS) -> None:
        self._metrics: dict[tuple[str, str, str], tuple[str, MemberMetrics | None]] = {}
        self._limit = limit

    def add(self, client_instance_id: str, who: Who, said: MemberMetrics) -> None:
        key = who.client_id, who.client_host, who.member_id
        if not names_fit(*key):
            return
        other, before = self._metrics.pop(key, ("", None))
        is_one = other in ("", client_instance_id) or (before is not None and said.at_ms - before.at_ms > SAME_MS)
        self._metrics[key] = client_instance_id, said if is_one or who.member_id else None
        if len(self._metrics) > self._limit:
            del self._metrics[next(iter(self._metrics))]

    def of(self, who: Who) -> MemberMetrics | None:
        for member_id in (who.member_id, ""):
            _, said = self._metrics.get((who.client_id, who.client_host, member_id), ("", None))
            if said is not None:
                return said
        return None


NAME_LETTERS_MAX: Final = 1_000
"""Most letters of all names of one member or committer; with longer names it is not remembered."""
NAME_PREFIX_MAX: Final = 300
"""Letters of a name that tell members and clients apart."""


def names_fit(*names: str | None) -> bool:
    return sum(len(name) for name in names if name) <= NAME_LETTERS_MAX


def name_prefix(name: str) -> str:
    """Return what a name is told apart by."""
    return name[:NAME_PREFIX_MAX]


GROUPS_MOST: Final = 10_000
NAMES_MOST_BYTES: Final = 4 << 20
"""Most bytes of all group names; beyond it, or beyond ``GROUPS_MOST``, the oldest group is dropped."""


class OffsetCounters:
    """Offsets that were committed, that expired, and that were deleted in another way."""

    __slots__ = ("committed", "deleted", "expired")

    def __init__(self) -> None:
        self.committed = 0
        self.expired = 0
        self.deleted = 0

    def written(self, records: Sequence[Record]) -> None:
        """Count the offsets among records that are on the log."""
        for record in records:
            if type(record) is OffsetCommitted:
                if record.value is None:
                    self.deleted += 1
                else:
                    self.committed += 1

    def expired_since(self, deleted: int) -> None:
        """Count as expired what was deleted since there were ``deleted``."""
        self.expired += self.deleted - deleted
        self.deleted = deleted


class FencedCounters:
    """Requests that were refused because their sender is not, or no longer, what it believes to be.

    Each request counts, however often it comes: the journal tells of a member once in a generation.
    """

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


CONNECTIONS: Final = 10_000
STALLS: Final = 100
LEAVERS: Final = 1_000
COMMITTERS: Final = 1_000
JOURNAL_AGAIN_MS: Final = 3_600_000
"""Delay before another commit from outside of the group is journaled."""
JOURNAL_BACKWARD_AGAIN_MS: Final = 1_000
"""The same for commits that move an offset back."""


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
        """Return the stalled milliseconds since ``from_ms``, and when the first stall began."""
        cut = [(max(s.from_ms, from_ms), min(s.until_ms, now_ms)) for s in self._stalls]
        stood = [(began, ended) for began, ended in cut if ended > began]
        return sum(ended - began for began, ended in stood), min((began for began, _ in stood), default=None)


class DepartedMembers:
    """Members that left, by the connections on which they said so, until these close."""

    def __init__(self) -> None:
        self._left: dict[int, tuple[str, Who, int]] = {}

    def add(self, connection: int, group: str, who: Who, now_ms: int) -> None:
        if not names_fit(group, who.member_id, who.client_id, who.instance_id):
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


class NonMemberCommitters:
    """Who has committed to which group without being a member, and when that was told last."""

    def __init__(self) -> None:
        self._journaled_ms: dict[tuple[str, str, str], int] = {}

    def should_journal(self, group: str, who: Who, now_ms: int, *, backwards: bool) -> bool:
        """Tell whether to journal a commit, and note that it was journaled."""
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
    """All of it, for the decisions that write entries."""

    __slots__ = ("client_metrics", "committers", "connections", "departed", "fenced", "stalls")

    def __init__(self) -> None:
        self.connections = ClosedConnections()
        self.stalls = BrokerStalls()
        self.departed = DepartedMembers()
        self.committers = NonMemberCommitters()
        self.client_metrics = MetricsByMember()
        self.fenced = FencedCounters()
