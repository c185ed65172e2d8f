"""In a modern group no partition has two owners, at no instant: what members believe is what the coordinator has.

A member that the coordinator counts in owns nothing but what the coordinator has for it: what it is assigned, or is yet
to give up. As there no partition is two members', none is anywhere. Whoever is not counted in any more, and does not
know it yet, may still believe in what it had: that is what epochs are for.
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
    held: frozenset[TopicPartition]


class ModernOwners(Watcher):
    """Who believes to own what. ``group`` is the group as it is coordinated now, None while it is not modern, or not
    coordinated; ``stretches`` counts its lives and conversions; ``look`` is called after every event.

    A classic group can be converted in the middle of a cooperative rebalance. What its generation took from a member
    is nobody's then to the coordinator, which may give it away, while the member has not been told, or its user has not
    given it up yet. So, as in Kafka, it may have two owners, until the member joins again (it is told to by its next
    heartbeat) and takes what SyncGroup says. Just that is left out here: what a member of the classic protocol had
    beside its share when the group was converted, for as long as it goes on to have it, up to that moment. So it is,
    too, with a member of the classic protocol that was taken out, does not know it, and joins again under its old id.

    ``spoken_for`` has the ids of members of whom a stranger says, in their own words of before, that they own little or
    nothing, or that they begin anew: as in Kafka the coordinator has to believe it, and these are not looked at.
    """

    def __init__(
        self,
        group: Callable[[], ModernGroup | None],
        topics: Callable[[], Topics | None],
        stretches: Callable[[], int],
        spoken_for: Collection[str] = (),
    ) -> None:
        self._group = group
        self._topics = topics
        self._stretches = stretches
        self._spoken_for = spoken_for
        self._stretch = -1
        self.converted_at: int | None = None
        """The epoch at which the group was converted last: as long as it has it, its shares are those of the members of
        the classic protocol."""
        self._holders: dict[str, _Holder] = {}
        self._leftover: dict[str, frozenset[TopicPartition]] = {}
        """What a member had beside its share when the group was converted, by the name of its client."""
        self._counted: set[str] = set()
        """Member ids that were counted in when this was checked last."""
        self._synced: set[str] = set()
        """Member ids that the modern group has told their assignments since."""
        self._names: dict[bytes, str] = {}
        self._has: dict[str, tuple[CurrentAssignment, frozenset[TopicPartition]]] = {}
        self._ids: list[str] = []
        """The member ids of those who took something, when this was checked last."""

    def took(self, consumer: WatchedConsumer, generation_id: int, owned: frozenset[TopicPartition]) -> None:
        del generation_id
        self._holders[consumer.name] = _Holder(consumer, consumer.member_id, owned)
        still = frozenset[TopicPartition]() if consumer.member_id in self._synced else owned
        self._leftover[consumer.name] = self._leftover.get(consumer.name, frozenset()) & still
        self.check()

    def gave_up(self, consumer: WatchedConsumer, kind: str, partitions: frozenset[TopicPartition]) -> None:
        del kind
        if (holder := self._holders.get(consumer.name)) is not None:
            self._holders[consumer.name] = holder._replace(held=holder.held - partitions)
            self._leftover[consumer.name] = self._leftover.get(consumer.name, frozenset()) - partitions

    def answered(self, exchange: Exchange) -> None:
        asked = exchange.asked
        synced = isinstance(asked, SyncGroupRequest) and isinstance(exchange.answer, SyncGroupResponse)
        if synced and self._group() is not None and exchange.error == 0:
            assert isinstance(asked, SyncGroupRequest)
            self._synced.add(asked.member_id)

    def look(self, *, moved: bool) -> None:
        """Check unless all is as it was when this was checked last. ``moved``: whether anything of the group is not.

        What members give up makes less of what they believe, and what they take is checked when they take it.
        """
        ids = [holder.consumer.member_id for holder in self._holders.values()]
        if moved or ids != self._ids:
            self._ids = ids
            self.check()

    def check(self) -> None:
        """Compare what members believe with what the coordinator has."""
        group = self._group()
        if group is None or self._topics() is None:
            return
        begins = self._stretches() != self._stretch
        if begins:
            self._stretch = self._stretches()
            self._synced.clear()
            self._leftover.clear()
            self.converted_at = group.epoch if any(m.is_classic for m in group.members.values()) else None
        came, self._counted = group.members.keys() - self._counted, set(group.members)
        for holder in self._holders.values():
            member = group.members.get(holder.member_id)
            if not holder.held or member is None or holder.consumer.member_id != holder.member_id:
                continue
            if holder.member_id in self._spoken_for:
                continue
            more = holder.held - self._held(holder.member_id, member.current)
            if (begins or holder.member_id in came) and member.is_classic:
                self._leftover[holder.consumer.name] = more
                self._synced.discard(holder.member_id)
            if more := more - self._leftover.get(holder.consumer.name, frozenset()):
                raise CheckFailed(
                    f"{holder.consumer.name} believes to own {min(more)}, and the coordinator, which counts it in with "
                    f"epoch {member.epoch}, has it for {self._owner(group, min(more))}"
                )

    def _held(self, member_id: str, current: CurrentAssignment) -> frozenset[TopicPartition]:
        """Return what the coordinator has for a member; worked out anew when it has come further."""
        known, held = self._has.get(member_id, (None, frozenset[TopicPartition]()))
        if known is not current:
            held = frozenset(TopicPartition(self._name(topic_id), p) for topic_id, p, _ in current.partitions())
            self._has[member_id] = (current, held)
        return held

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
