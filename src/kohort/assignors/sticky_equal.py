"""Sticky assignment where all members subscribe to the same topics (protocol/assignors.md#equal-subscriptions).

With P partitions and M members everyone gets floor(P/M) or one more, and everyone keeps as much of what it had as that
allows. One pass over what is owned, one over what is left: linear but for the sorting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from kohort.assignors.previous_ownership import Ownership
from kohort.assignors.spec import Assignment, MemberSubscription, SubscribedTopics, java_order, racks_matter
from kohort.model import TopicPartition


class EqualSubscriptions:
    """One assignment under way. After ``assign``, ``transferring`` holds the partitions that change hands."""

    def __init__(
        self,
        topics: SubscribedTopics,
        names: Sequence[str],
        members: Sequence[MemberSubscription],
        ownership: Ownership,
    ) -> None:
        self.transferring: dict[TopicPartition, str] = {}
        self._partitions = [p for name in names for p in topics.partitions(name)]
        self._topics = topics
        self._ownership = ownership
        self._racks = {m.member_id: m.rack for m in members}
        self._by_rack = racks_matter(topics, self._partitions, members)
        self._min, self._over_allowed = divmod(len(self._partitions), len(members))
        self._max = self._min + (self._over_allowed > 0)
        self._over = 0
        self._under_min: list[str] = []
        self._exactly_min: list[str] = []
        self._given_up: dict[TopicPartition, str] = {}
        self._assignment: Assignment = {m.member_id: [] for m in members}

    def assign(self) -> Assignment:
        """Return the partitions of each member."""
        for member_id in self._assignment:
            self._keep(member_id)
        kept = {p for partitions in self._assignment.values() for p in partitions}
        unassigned = [p for p in self._partitions if p not in kept]
        # Plain ids here, no static members first: unlike range and roundrobin.
        self._under_min.sort(key=java_order)
        self._exactly_min.sort(key=java_order)
        if self._by_rack:
            unassigned = self._deal_by_rack(unassigned)
        self._deal_round(unassigned)
        return self._assignment

    def _fits(self, member_id: str, partition: TopicPartition) -> bool:
        """Tell whether the member may keep ``partition``: one without a rack may keep anything."""
        return not self._by_rack or not self._racks[member_id] or self._in_rack(member_id, partition)

    def _in_rack(self, member_id: str, partition: TopicPartition) -> bool:
        return self._racks[member_id] in self._topics.racks_of(partition)

    def _keep(self, member_id: str) -> None:
        owned = self._ownership.owned.get(member_id, [])
        fitting = [p for p in owned if self._fits(member_id, p)]
        self._given_up |= {p: member_id for p in owned if not self._fits(member_id, p)}
        fitting = [p for p in fitting if p not in self._ownership.contested]
        fitting.sort(key=lambda p: (p.partition, java_order(p.topic)))
        if len(fitting) < self._min:
            keep = len(fitting)
            self._under_min.append(member_id)
        elif len(fitting) >= self._max and self._over < self._over_allowed:
            keep = self._max
            self._count_over()
        else:
            keep = self._min
            if self._over < self._over_allowed:
                self._exactly_min.append(member_id)
        self._assignment[member_id] += fitting[:keep]
        self._given_up |= dict.fromkeys(fitting[keep:], member_id)

    def _count_over(self) -> None:
        self._over += 1
        if self._over == self._over_allowed:
            self._exactly_min.clear()

    def _give(self, member_id: str, partition: TopicPartition) -> int:
        """Returns how many the member has now. What another gave up, or two claimed, changes hands."""
        if self._given_up.get(partition, member_id) != member_id or partition in self._ownership.contested:
            self.transferring[partition] = member_id
        self._assignment[member_id].append(partition)
        return len(self._assignment[member_id])

    def _deal_by_rack(self, unassigned: list[TopicPartition]) -> list[TopicPartition]:
        """Give partitions to members of their racks, the hardest to place first; returns those left over."""
        readers = {p: sum(self._in_rack(m, p) for m in self._assignment) for p in unassigned}
        left = []
        turn = 0
        for partition in sorted(unassigned, key=lambda p: readers[p]):
            turn, placed = self._place_under_min(partition, turn)
            if not placed and not self._place_exactly_min(partition):
                left.append(partition)
        return left

    def _place_under_min(self, partition: TopicPartition, turn: int) -> tuple[int, bool]:
        count = len(self._under_min)
        for i in range(count):
            at = (turn + i) % count
            member_id = self._under_min[at]
            if not self._in_rack(member_id, partition):
                continue
            if self._give(member_id, partition) >= self._min:
                del self._under_min[at]
                if self._min < self._max and self._over < self._over_allowed:
                    self._exactly_min.append(member_id)
                return at, True
            return at + 1, True
        return turn, False

    def _place_exactly_min(self, partition: TopicPartition) -> bool:
        for at, member_id in enumerate(self._exactly_min):
            if self._in_rack(member_id, partition):
                del self._exactly_min[at]
                self._give(member_id, partition)
                self._count_over()
                return True
        return False

    def _deal_round(self, unassigned: list[TopicPartition]) -> None:
        """Round and round those under the minimum; then one more each for those that may have it."""
        under = self._under_min
        extras = deque(self._exactly_min)
        at = 0
        for partition in unassigned:
            if under:
                at %= len(under)
                member_id = under[at]
            else:
                member_id = extras.popleft()
            count = self._give(member_id, partition)
            if not under:
                continue
            if count == self._min:
                del under[at]
                extras.append(member_id)
            else:
                at += 1
