"""A data source limited to the groups and topics that a user of the cluster may DESCRIBE.

The cluster checks the rights: Kafka clients with the user's login describe each group and list the topics.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from kohort.console.lag_history import LagPoint
from kohort.console.reachability import ClusterUnreachable
from kohort.console.sources import ConsoleSource, GroupsKnown, SourceAbout, SourceNews
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.insight.findings.groups import find_group
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from kohort.watch.cluster_queries import ADMIN_MS
from kohort.watch.sampling import REASONS

if TYPE_CHECKING:
    from kohort.coordinator.journal import JournalEntry
    from kohort.insight.findings.groups import GroupFinding
    from kohort.insight.findings.model import RebalanceFinding
    from kohort.watch.opening import WatchClients

RIGHTS_S: Final = 10.0
"""Time in seconds for which a user's rights are cached. A revoked right remains valid for at most this time."""
MOST_NAMES: Final = 20_000
HIDDEN: Final = REASONS[ErrorCode.TOPIC_AUTHORIZATION_FAILED]


class UserRights:
    """Groups and topics that a user of the cluster may DESCRIBE, cached. Thread-safe."""

    def __init__(self, clients: WatchClients, clock: Callable[[], float]) -> None:
        self._clients, self._clock = clients, clock
        self._groups: dict[str, tuple[float, bool]] = {}
        self._topics: tuple[float, frozenset[str]] | None = None
        self._lock = threading.Lock()
        """Allows one query of the user's rights at a time. Requests that wait for it then use the cached result."""

    def groups(self, names: Collection[str]) -> set[str]:
        with self._lock:
            return self._allowed(names)

    def _allowed(self, names: Collection[str]) -> set[str]:
        now_s, known = self._clock(), self._groups
        due = [name for name in names if now_s - known.get(name, (now_s - RIGHTS_S, False))[0] >= RIGHTS_S]
        if due:
            with self._clients.admin() as admin:
                described = admin.describe_groups(due, timeout_ms=ADMIN_MS)
            fresh = {name: (now_s, is_allowed(described.errors.get(name))) for name in due}
            if len(known) > MOST_NAMES:
                known = {name: known[name] for name in names if name in known}
            known = {**known, **fresh}
            self._groups = known
        return {name for name in names if known.get(name, (now_s, False))[1]}

    def topics(self) -> frozenset[str]:
        with self._lock:
            now_s = self._clock()
            if self._topics is None or now_s - self._topics[0] >= RIGHTS_S:
                with self._clients.admin() as admin:
                    listed = admin.list_topics(internal=True, timeout_ms=ADMIN_MS)
                self._topics = now_s, frozenset(topic.name for topic in listed)
            return self._topics[1]


def is_allowed(error: KohortError | None) -> bool:
    """Return True if the result of describing a group proves the user's right: no error, or GROUP_ID_NOT_FOUND."""
    return error is None or (isinstance(error, ApiError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND)


class UserSource:
    """A data source limited to the rights of one user."""

    def __init__(self, source: ConsoleSource, clients: WatchClients, clock: Callable[[], float]) -> None:
        self._source, self._clients = source, clients
        self._rights = UserRights(clients, clock)

    def about(self) -> SourceAbout:
        return self._source.about()

    def now_ms(self) -> int:
        return self._source.now_ms()

    def known_until_ms(self) -> int:
        return self._source.known_until_ms()

    def unreachable(self) -> ClusterUnreachable | None:
        """Return the error of an outage, without the names of groups.

        During an outage, the console cannot check which groups the user may DESCRIBE.
        """
        lost = self._source.unreachable()
        return None if lost is None else lost.without_groups()

    def clients(self) -> WatchClients | None:
        return self._clients

    def sees(self, group: str, topics: Iterable[str] = ()) -> bool:
        return bool(self._seen([group])) and self._rights.topics() >= set(topics)

    def groups(self, at_ms: int | None) -> GroupsKnown:
        try:
            known = self._source.groups(at_ms)
        except ClusterUnreachable as lost:
            raise lost.without_groups() from None
        seen = self._seen([*known.groups, *known.unknown])
        topics = self._rights.topics()
        found = {name: one for name, one in known.groups.items() if name in seen}
        if at_ms is None:  # hide topics only in the present state: a past state has no offsets to hide
            narrow = {name: self._narrowed(one, topics, known) for name, one in found.items()}
            found = {name: one for name, one in narrow.items() if one is not None}
        rebalances = known.rebalances
        return GroupsKnown(
            at_ms=known.at_ms,
            groups=found,
            rebalances=None if rebalances is None else {name: rebalances[name] for name in rebalances if name in seen},
            unseen=known.unseen,
            unseen_groups={name: why for name, why in known.unseen_groups.items() if name in seen},
        )

    def _seen(self, names: Collection[str]) -> set[str]:
        lost = self.unreachable()
        if lost is not None:
            raise lost
        return self._rights.groups(names)

    def _narrowed(self, found: GroupFinding, topics: frozenset[str], known: GroupsKnown) -> GroupFinding | None:
        """Return a group's state with only those topics that the user may DESCRIBE; None for a deleted group."""
        if all(one.topic in topics for one in found.partitions):
            return found
        snapshots = [narrowed(snapshot, topics) for snapshot in self._source.snapshots(found.group)]
        return find_group(snapshots, known.rebalances_of(found.group)) if snapshots else None

    def snapshots(self, group: str) -> Sequence[GroupSnapshot]:
        if not self.sees(group):
            return ()
        topics = self._rights.topics()
        return [narrowed(snapshot, topics) for snapshot in self._source.snapshots(group)]

    def entries(self, group: str, until_ms: int | None) -> Sequence[JournalEntry]:
        return self._source.entries(group, until_ms) if self.sees(group) else ()

    def all_rebalances(self, since_ms: int, until_ms: int | None) -> Mapping[str, Sequence[RebalanceFinding]]:
        every = self._source.all_rebalances(since_ms, until_ms)
        seen = self._seen(list(every))
        return {group: found for group, found in every.items() if group in seen}

    def lag_points(self, group: str) -> Sequence[LagPoint]:
        if not self.sees(group):
            return ()
        points, topics = self._source.lag_points(group), self._rights.topics()
        if all(topics.issuperset(point.topics) for point in points) and not self._hides(group, topics):
            return points
        return [
            LagPoint(point.at_ms, None, None, {name: lag for name, lag in point.topics.items() if name in topics})
            for point in points
        ]

    def _hides(self, group: str, topics: frozenset[str]) -> bool:
        found = self._source.groups(None).groups.get(group)
        return found is None or any(one.topic not in topics for one in found.partitions)

    def listen(self, tell: Callable[[SourceNews], object]) -> None: ...

    def begin(self) -> None: ...

    def end(self) -> None: ...


def narrowed(snapshot: GroupSnapshot, topics: frozenset[str]) -> GroupSnapshot:
    """Return a snapshot without offsets of topics that the user may not DESCRIBE. OffsetFetch omits them, too."""
    assigned = {tp for member in snapshot.members for tp in member.assignment}
    partitions = [
        one if one.partition.topic in topics else PartitionSnapshot(partition=one.partition, error=HIDDEN)
        for one in snapshot.partitions
        if one.partition.topic in topics or one.partition in assigned
    ]
    return replace(
        snapshot,
        partitions=tuple(partitions),
        members=tuple(_narrowed_member(member, topics) for member in snapshot.members),
        partition_counts={name: count for name, count in snapshot.partition_counts.items() if name in topics},
        topic_ids={name: topic_id for name, topic_id in snapshot.topic_ids.items() if name in topics},
    )


def _narrowed_member(member: MemberSnapshot, topics: frozenset[str]) -> MemberSnapshot:
    matched = None if member.matched is None else tuple(name for name in member.matched if name in topics)
    return replace(member, matched=matched)
