"""In a modern group no partition has two owners, at no instant: what members believe is what the coordinator has.

A member that the coordinator counts in owns nothing but what the coordinator has for it: what it is assigned, or is yet
to give up. As there no partition is two members', none is anywhere. Whoever is not counted in any more, and does not
know it yet, may still believe in what it had: that is what epochs are for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kohort.coordinator.consumer.group import ModernGroup
from kohort.log.topics import Topics
from kohort.model import TopicPartition
from kohort.sim.checks.broken import CheckFailed
from kohort.sim.checks.watcher import Exchange, WatchedConsumer, Watcher
from kohort.wire.messages.group_classic import SyncGroupRequest, SyncGroupResponse


class _Holder(NamedTuple):
    consumer: WatchedConsumer
    member_id: str
    held: frozenset[TopicPartition]


class ModernOwners(Watcher):
    """Who believes to own what. ``group`` is the group as it is coordinated now, None while it is not modern, or not
    coordinated; ``check`` is called after every event.

    A member of the classic protocol is looked at once it has been told its assignment by the modern group: what it has
    of a classic group before may be about to be revoked.
    """

    def __init__(self, group: Callable[[], ModernGroup | None], topics: Callable[[], Topics | None]) -> None:
        self._group = group
        self._topics = topics
        self._holders: dict[str, _Holder] = {}
        self._synced: dict[str, ModernGroup] = {}
        self._names: dict[bytes, str] = {}

    def took(self, consumer: WatchedConsumer, generation_id: int, owned: frozenset[TopicPartition]) -> None:
        del generation_id
        self._holders[consumer.name] = _Holder(consumer, consumer.member_id, owned)
        self.check()

    def gave_up(self, consumer: WatchedConsumer, kind: str, partitions: frozenset[TopicPartition]) -> None:
        del kind
        if (holder := self._holders.get(consumer.name)) is not None:
            self._holders[consumer.name] = holder._replace(held=holder.held - partitions)

    def answered(self, exchange: Exchange) -> None:
        asked, group = exchange.asked, self._group()
        synced = isinstance(asked, SyncGroupRequest) and isinstance(exchange.answer, SyncGroupResponse)
        if synced and group is not None and exchange.error == 0:
            assert isinstance(asked, SyncGroupRequest)
            self._synced[asked.member_id] = group

    def check(self) -> None:
        """Compare what members believe with what the coordinator has."""
        group = self._group()
        if group is None or self._topics() is None:
            return
        for holder in self._holders.values():
            member = group.members.get(holder.member_id)
            if not holder.held or member is None or holder.consumer.member_id != holder.member_id:
                continue
            if member.speaks_classic and self._synced.get(holder.member_id) is not group:
                continue
            held = {TopicPartition(self._name(topic_id), p) for topic_id, p, _ in member.current.held()}
            if more := holder.held - held:
                raise CheckFailed(
                    f"{holder.consumer.name} believes to own {min(more)}, and the coordinator, which counts it in with "
                    f"epoch {member.epoch}, has it for {self._owner(group, min(more))}"
                )

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
