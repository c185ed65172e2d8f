"""Ownership check of classic groups: one owner per partition and generation; generations never decrease."""

from __future__ import annotations

from kohort.assignors.spec import NO_GENERATION
from kohort.model import TopicPartition
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.life import GroupLife
from kohort_lab.sim.checks.watcher import WatchedConsumer, Watcher


class OneOwner(Watcher):
    """Owners by generation, as the consumers see them.

    An assignment is persisted before members receive it, so a generation number that repeats after a crash was not
    assigned before. Members of one generation never share a partition: the next owner gets it after the previous
    owner's revocation callback. A member of an older generation may own it longer; fencing covers that. A member that
    is removed during a revocation keeps its other partitions until its lost callback. A member that keeps a partition
    is not checked: a static member may have missed the generation that revoked it. Generations of different lives of
    the group are different (``life``).
    """

    def __init__(self, life: GroupLife) -> None:
        self._life = life
        self._owners: dict[tuple[int, int, TopicPartition], str] = {}
        self._last: dict[str, int] = {}
        self._holders: dict[str, tuple[WatchedConsumer, set[TopicPartition]]] = {}

    def took(self, consumer: WatchedConsumer, generation_id: int, owned: frozenset[TopicPartition]) -> None:
        self.check_member(consumer.name, generation_id)
        self.check_generation(consumer.member_id, generation_id)
        life = self._life.of(consumer.member_id)
        for partition in sorted(owned):
            other = self._owners.setdefault((life, generation_id, partition), consumer.identity)
            if other != consumer.identity:
                raise CheckFailed(
                    f"{partition} has two owners in generation {generation_id}: {other} and {consumer.identity}"
                )
        _, had = self._holders.get(consumer.name, (consumer, set[TopicPartition]()))
        self._holders[consumer.name] = (consumer, set(owned))
        self.check_no_other_holds(consumer, generation_id, owned - had)

    def revoked(self, consumer: WatchedConsumer, kind: str, partitions: frozenset[TopicPartition]) -> None:
        del kind  # for any reason
        if consumer.name in self._holders:
            self._holders[consumer.name][1].difference_update(partitions)

    def check_generation(self, member_id: str, generation_id: int) -> None:
        last = self._last.get(member_id, -1)
        if generation_id < last:
            raise CheckFailed(f"{member_id}: generation {generation_id} after {last}")
        self._last[member_id] = generation_id

    def check_member(self, name: str, generation_id: int) -> None:
        if generation_id == NO_GENERATION:
            raise CheckFailed(f"{name} receives an assignment without being a member of the group")

    def check_no_other_holds(
        self, consumer: WatchedConsumer, generation_id: int, taken: frozenset[TopicPartition]
    ) -> None:
        life = self._life.of(consumer.member_id)
        for other, owned in self._holders.values():
            stranger = other.identity != consumer.identity and other.generation_id == generation_id
            stranger = stranger and self._life.has_written(generation_id, other.member_id)
            if stranger and self._life.of(other.member_id) == life and (both := taken & owned):
                raise CheckFailed(
                    f"{consumer.name} is assigned {min(both)} in generation {generation_id} "
                    f"before {other.name}, of the same generation, has revoked it"
                )
