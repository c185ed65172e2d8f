"""A partition never has two owners in one generation, nor at one time; a member's generation never goes back."""

from __future__ import annotations

from kohort.assignors.spec import NO_GENERATION
from kohort.model import TopicPartition
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.life import GroupLife
from kohort_lab.sim.checks.watcher import WatchedConsumer, Watcher


class OneOwner(Watcher):
    """Who holds what, by generation, as the consumers themselves see it.

    An assignment reaches members only once it is written, so a generation that was given out twice, before and after
    a crash, cannot have been assigned twice; whoever was told of its number the first time alone is no member of it.
    Members of one generation never hold a partition together, not even for a moment: whoever takes it has it only
    after the other one has told its user that it is gone. A member of an older generation that has not heard of the
    new one yet may still hold it: that is what fencing is for. One that was removed in the middle of giving partitions
    up holds the others until it tells its user that they are lost: it has no generation then, and takes nothing.
    Whoever keeps what it had takes nothing: the other one may be a static member that missed the generation in which
    it lost the partition, and has joined the next one without having heard of either.
    A generation is one of the group's ``life``: the next life has one of the same number, and whoever still holds
    something of the life before is a member of an older generation.
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

    def gave_up(self, consumer: WatchedConsumer, kind: str, partitions: frozenset[TopicPartition]) -> None:
        del kind  # whatever the reason
        if consumer.name in self._holders:
            self._holders[consumer.name][1].difference_update(partitions)

    def check_generation(self, member_id: str, generation_id: int) -> None:
        last = self._last.get(member_id, -1)
        if generation_id < last:
            raise CheckFailed(f"{member_id}: generation {generation_id} after {last}")
        self._last[member_id] = generation_id

    def check_member(self, name: str, generation_id: int) -> None:
        if generation_id == NO_GENERATION:
            raise CheckFailed(f"{name} takes an assignment while it is not a member of the group")

    def check_no_other_holds(
        self, consumer: WatchedConsumer, generation_id: int, taken: frozenset[TopicPartition]
    ) -> None:
        life = self._life.of(consumer.member_id)
        for other, held in self._holders.values():
            stranger = other.identity != consumer.identity and other.generation_id == generation_id
            stranger = stranger and self._life.has_written(generation_id, other.member_id)
            if stranger and self._life.of(other.member_id) == life and (both := taken & held):
                raise CheckFailed(
                    f"{consumer.name} takes {min(both)} in generation {generation_id} while {other.name}, a member of "
                    "the same generation, has not given it up"
                )
