"""Ownership check of consumer groups: a member owns only partitions that the coordinator has for it.

Those are its current assignment and its partitions pending revocation. They are disjoint between members, so no
partition has two owners. A fenced member may still own partitions until it learns of its fencing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.reconcile import CurrentAssignment
from kohort.log.topics import Topics
from kohort.model import TopicPartition
from kohort.wire.messages.group_classic import SyncGroupRequest, SyncGroupResponse
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, WatchedConsumer, Watcher


class _Holder(NamedTuple):
    consumer: WatchedConsumer
    member_id: str
    owned: frozenset[TopicPartition]


class ModernOwners(Watcher):
    """Owned partitions by member. Call ``look`` after every event.

    ``group``: current state, None unless it is a coordinated consumer group. ``stretches``: number of its lives and
    conversions. ``forged``: member ids whose owned partitions a forged heartbeat reported; they are skipped, since
    the coordinator has to believe the heartbeat, as in Kafka.

    Exception: a conversion during a cooperative rebalance. A partition that the classic generation revokes has no owner
    in the coordinator, so another member may get it while the classic member still owns it. As in Kafka, this lasts
    until the member joins again and applies its SyncGroup response. The check skips these partitions of a classic
    member until then, and also those of a removed classic member that joins again under its old id.
    """

    def __init__(
        self,
        group: Callable[[], ModernGroup | None],
        topics: Callable[[], Topics | None],
        stretches: Callable[[], int],
        forged: Collection[str] = (),
    ) -> None:
        self._group = group
        self._topics = topics
        self._stretches = stretches
        self._forged = forged
        self._stretch = -1
        self.converted_at: int | None = None
        """Epoch of the last conversion; at this epoch the assignment is that of the classic members."""
        self._holders: dict[str, _Holder] = {}
        self._leftover: dict[str, frozenset[TopicPartition]] = {}
        """Partitions beyond each client's assignment at the conversion."""
        self._counted: set[str] = set()
        """Member ids at the last check."""
        self._synced: set[str] = set()
        """Member ids with a SyncGroup response since the conversion."""
        self._names: dict[bytes, str] = {}
        self._has: dict[str, tuple[CurrentAssignment, frozenset[TopicPartition]]] = {}
        self._ids: list[str] = []
        """Member ids of owners at the last check."""

    def took(self, consumer: WatchedConsumer, generation_id: int, owned: frozenset[TopicPartition]) -> None:
        del generation_id
        self._holders[consumer.name] = _Holder(consumer, consumer.member_id, owned)
        still = frozenset[TopicPartition]() if consumer.member_id in self._synced else owned
        self._leftover[consumer.name] = self._leftover.get(consumer.name, frozenset()) & still
        self.check()

    def revoked(self, consumer: WatchedConsumer, kind: str, partitions: frozenset[TopicPartition]) -> None:
        del kind
        if (holder := self._holders.get(consumer.name)) is not None:
            self._holders[consumer.name] = holder._replace(owned=holder.owned - partitions)
            self._leftover[consumer.name] = self._leftover.get(consumer.name, frozenset()) - partitions

    def answered(self, exchange: Exchange) -> None:
        request = exchange.request
        synced = isinstance(request, SyncGroupRequest) and isinstance(exchange.answer, SyncGroupResponse)
        if synced and self._group() is not None and exchange.error == 0:
            assert isinstance(request, SyncGroupRequest)
            self._synced.add(request.member_id)

    def look(self, *, moved: bool) -> None:
        """Run the check if an assignment or the group changed; ``moved``: True if the group changed.

        Revocations need no check, and assignments are checked as they are applied.
        """
        ids = [holder.consumer.member_id for holder in self._holders.values()]
        if moved or ids != self._ids:
            self._ids = ids
            self.check()

    def check(self) -> None:
        """Compare the members' owned partitions with the coordinator's."""
        group = self._group()
        if group is None or self._topics() is None:
            return
        begins = self._stretches() != self._stretch
        if begins:
            self._stretch = self._stretches()
            self._synced.clear()
            self._leftover.clear()
            self.converted_at = group.epoch if any(m.is_classic for m in group.members.values()) else None
        joined, self._counted = group.members.keys() - self._counted, set(group.members)
        for holder in self._holders.values():
            member = group.members.get(holder.member_id)
            if not holder.owned or member is None or holder.consumer.member_id != holder.member_id:
                continue
            if holder.member_id in self._forged:
                continue
            more = holder.owned - self._coordinator_owned(holder.member_id, member.current)
            if (begins or holder.member_id in joined) and member.is_classic:
                self._leftover[holder.consumer.name] = more
                self._synced.discard(holder.member_id)
            if more := more - self._leftover.get(holder.consumer.name, frozenset()):
                raise CheckFailed(
                    f"{holder.consumer.name}, a member with epoch {member.epoch}, owns {min(more)}, "
                    f"but the coordinator assigns it to {self._owner(group, min(more))}"
                )

    def _coordinator_owned(self, member_id: str, current: CurrentAssignment) -> frozenset[TopicPartition]:
        """Return a member's partitions in the coordinator, cached by epoch."""
        cached, owned = self._has.get(member_id, (None, frozenset[TopicPartition]()))
        if cached is not current:
            owned = frozenset(TopicPartition(self._name(topic_id), p) for topic_id, p, _ in current.partitions())
            self._has[member_id] = (current, owned)
        return owned

    def _name(self, topic_id: bytes) -> str:
        name = self._names.get(topic_id)
        if name is None:
            topics = self._topics()
            topic = topics.by_id(topic_id) if topics is not None else None
            name = self._names[topic_id] = "" if topic is None else topic.name
        return name

    def _owner(self, group: ModernGroup, partition: TopicPartition) -> str:
        for (topic_id, number), member_id in group.owners.items():
            if number == partition.partition and self._name(topic_id) == partition.topic:
                return member_id
        return "nobody"
