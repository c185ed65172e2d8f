"""Sticky assignment where members subscribe to different topics (protocol/assignors.md#mixed-subscriptions).

First, what can stay stays, and the rest goes to the member that has least; then partitions move one by one from members
with more to members with less, and instead of a move that would only undo an earlier one of the same topic, the earlier
one is taken back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from kohort.assignors.partition_movements import PartitionMovements
from kohort.assignors.previous_ownership import Ownership
from kohort.assignors.spec import Assignment, MemberSubscription, SubscribedTopics, java_order, racks_matter
from kohort.model import TopicPartition

Load = tuple[int, bytes, str]
"""The order of members by what they have: how many partitions, then their id."""


class MixedSubscriptions:
    """One assignment under way."""

    def __init__(
        self,
        topics: SubscribedTopics,
        names: Sequence[str],
        members: Sequence[MemberSubscription],
        ownership: Ownership,
    ) -> None:
        self._topics = topics
        self._racks = {m.member_id: m.rack for m in members}
        self._wants = {m.member_id: [t for t in m.topics if t in set(names)] for m in members}
        self._wanted_by = {name: [m.member_id for m in members if name in m.topics] for name in names}
        order = sorted(names, key=lambda t: (len(self._wanted_by[t]), java_order(t)))
        self._partitions = [p for name in order for p in topics.partitions(name)]
        self._by_rack = racks_matter(topics, self._partitions, members)
        self._older = ownership.older
        self._assignment: Assignment = {m.member_id: [] for m in members}
        self._owner: dict[TopicPartition, str] = {}
        self._revoked = False
        self._keep(ownership)
        self._initial = not any(self._assignment.values())
        self._loads: list[Load] = sorted(self._load(m) for m in self._assignment)
        self._moves = PartitionMovements()

    def assign(self) -> Assignment:
        """Return the partitions of each member."""
        unassigned = [p for p in self._partitions if p not in self._owner]
        self._give_out(unassigned)
        fixed = self._set_fixed_members_aside()
        movable = [p for p in self._partitions if len(self._wanted_by[p.topic]) > 1]
        before = {m: list(partitions) for m, partitions in self._assignment.items()}
        if not self._revoked:
            self._improve([p for p in unassigned if len(self._wanted_by[p.topic]) > 1])
        moved = self._improve(movable)
        if not self._initial and moved and _imbalance(self._assignment) >= _imbalance(before):
            self._assignment = before
        self._assignment.update(fixed)
        return self._assignment

    # What stays

    def _keep(self, ownership: Ownership) -> None:
        for member_id, partitions in ownership.owned.items():
            for partition in partitions:
                if partition.topic not in self._wants[member_id] or self._misfit(member_id, partition):
                    self._revoked = True
                    continue
                self._assignment[member_id].append(partition)
                self._owner[partition] = member_id

    def _misfit(self, member_id: str, partition: TopicPartition) -> bool:
        return (
            self._by_rack
            and bool(self._racks[member_id])
            and self._racks[member_id] not in self._topics.racks_of(partition)
        )

    # Who has how much

    def _load(self, member_id: str) -> Load:
        return (len(self._assignment[member_id]), java_order(member_id), member_id)

    def _add(self, member_id: str, partition: TopicPartition) -> None:
        del self._loads[bisect_left(self._loads, self._load(member_id))]
        self._assignment[member_id].append(partition)
        insort(self._loads, self._load(member_id))
        self._owner[partition] = member_id

    def _drop(self, member_id: str, partition: TopicPartition) -> None:
        del self._loads[bisect_left(self._loads, self._load(member_id))]
        self._assignment[member_id].remove(partition)
        insort(self._loads, self._load(member_id))

    def _give_out(self, unassigned: Iterable[TopicPartition]) -> None:
        """Each to the eligible member that has least; those whose racks fit first."""
        left = []
        for partition in unassigned:
            near = self._least_loaded(partition, fitting=True) if self._by_rack else None
            if near is None:
                left.append(partition)
            else:
                self._add(near, partition)
        for partition in left:
            member_id = self._least_loaded(partition, fitting=False)
            if member_id is not None:
                self._add(member_id, partition)

    def _least_loaded(self, partition: TopicPartition, *, fitting: bool) -> str | None:
        """Return who has least of those that want it; ``fitting``: of those whose rack has it, or who have no rack."""
        for _, _, member_id in self._loads:
            if partition.topic in self._wants[member_id] and not (fitting and self._misfit(member_id, partition)):
                return member_id
        return None

    # Balance

    def _set_fixed_members_aside(self) -> Assignment:
        """Return members that can neither give nor take take no part in what follows."""
        fixed = {m: p for m, p in self._assignment.items() if not self._can_take_part(m)}
        for member_id in fixed:
            self._loads.remove(self._load(member_id))
            del self._assignment[member_id]
        return fixed

    def _can_take_part(self, member_id: str) -> bool:
        partitions = self._assignment[member_id]
        room = len(partitions) < self._most(member_id)
        return room or any(len(self._wanted_by[p.topic]) > 1 for p in partitions)

    def _most(self, member_id: str) -> int:
        return sum(self._topics.counts[t] for t in self._wants[member_id])

    def _is_balanced(self) -> bool:
        """Tell whether nobody with room could take a partition from someone who holds at least two more."""
        if not self._loads or self._loads[0][0] >= self._loads[-1][0] - 1:
            return True
        most_of_topic: dict[str, int] = {}
        for size, _, member_id in self._loads:  # ascending, so the last one counts
            most_of_topic |= dict.fromkeys((p.topic for p in self._assignment[member_id]), size)
        return not any(
            size + 1 < most_of_topic.get(topic, 0)
            for size, _, member_id in self._loads
            for topic in self._wants[member_id]
        )

    def _improve(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions while that helps; returns whether any moved."""
        moved = False
        while True:
            again = False
            for partition in partitions:
                if self._is_balanced():
                    break
                target = self._better_owner(partition)
                if target is not None:
                    self._move(partition, target)
                    moved = again = True
            if not again:
                return moved

    def _better_owner(self, partition: TopicPartition) -> str | None:
        owner = self._owner.get(partition)
        if owner not in self._assignment:
            return None
        size = len(self._assignment[owner])
        older = self._older.get(partition)
        if older in self._assignment and partition.topic in self._wants[older] and self._has_less(older, size):
            return older
        # Balance goes before racks here: where anybody has less, whoever has least takes it.
        others = (m for m in self._wanted_by[partition.topic] if m in self._assignment)
        if any(self._has_less(m, size) for m in others):
            return self._least_loaded(partition, fitting=False)
        return None

    def _has_less(self, member_id: str, than: int) -> bool:
        return than > len(self._assignment[member_id]) + 1

    def _move(self, partition: TopicPartition, target: str) -> None:
        source = self._owner[partition]
        actual = self._moves.better(partition, source, target)
        holder = self._owner[actual]
        self._moves.record(actual, holder, target)
        self._drop(holder, actual)
        self._add(target, actual)


def _imbalance(assignment: Assignment) -> int:
    """Return the sum over all pairs of members of the difference in their sizes; 0 is perfect."""
    sizes = sorted(len(partitions) for partitions in assignment.values())
    # In ascending order the i-th size is added i times and subtracted for every size after it.
    return sum(size * (2 * i - len(sizes) + 1) for i, size in enumerate(sizes))
