"""Sticky assignment for members with equal subscriptions (protocol/assignors.md#equal-subscriptions).

With P partitions and M members, each member gets floor(P/M) partitions or one more, and keeps as many of its previous
partitions as possible. The time is linear, except for sorts. Partitions are represented by integers
(``PartitionNumbers``): tuples (topic, partition) would take most of the time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from itertools import islice

from kohort.assignors.previous_ownership import Ownership, PartitionNumbers
from kohort.assignors.spec import Assignment, MemberSubscription, SubscribedTopics, java_order, racks_matter
from kohort.model import TopicPartition


class EqualSubscriptions:
    """Computation of an assignment for members with equal subscriptions."""

    def __init__(
        self,
        topics: SubscribedTopics,
        numbering: PartitionNumbers,
        members: Sequence[MemberSubscription],
        ownership: Ownership,
    ) -> None:
        self._numbering = numbering
        self._ownership = ownership
        self._racks = {m.member_id: m.rack for m in members}
        self._by_rack = racks_matter(topics, map(numbering.partition, numbering), members)
        self._racks_of: dict[int, frozenset[str]] = {}
        if self._by_rack:
            self._racks_of = {number: topics.racks_of(numbering.partition(number)) for number in numbering}
        self._min, self._over_allowed = divmod(numbering.total, len(members))
        self._max = self._min + (self._over_allowed > 0)
        self._over = 0
        self._under_min: list[str] = []
        self._exactly_min: list[str] = []
        self._given_up: dict[int, str] = {}
        self._transferring: dict[int, str] = {}
        self._assignment: dict[str, list[int]] = {m.member_id: [] for m in members}

    def assign(self) -> Assignment:
        for member_id in self._assignment:
            self._keep(member_id)
        unassigned = self._left_over()
        # Unlike in range and roundrobin, static members do not come first: all members are sorted by member id.
        self._under_min.sort(key=java_order)
        self._exactly_min.sort(key=java_order)
        if self._by_rack:
            unassigned = self._deal_by_rack(unassigned)
        self._deal_round(unassigned)
        return {member_id: self._numbering.partitions(numbers) for member_id, numbers in self._assignment.items()}

    def transferring(self) -> dict[TopicPartition, str]:
        """Return the partitions that ``assign`` moved between members, as a dict: partition -> new owner."""
        return {self._numbering.partition(number): new_owner for number, new_owner in self._transferring.items()}

    def _left_over(self) -> list[int]:
        kept = {number for numbers in self._assignment.values() for number in numbers}
        if len(kept) == self._numbering.total:
            return []
        return [number for number in self._numbering if number not in kept]

    def _in_rack(self, member_id: str, number: int) -> bool:
        return self._racks[member_id] in self._racks_of[number]

    def _keep(self, member_id: str) -> None:
        fitting = sorted(self._ownership.owned.get(member_id, ()))
        if self._by_rack:
            outside = {n for n in fitting if self._racks[member_id] and not self._in_rack(member_id, n)}
            self._given_up |= dict.fromkeys(outside, member_id)
            fitting = [n for n in fitting if n not in outside]
        if self._ownership.contested:
            fitting = [n for n in fitting if n not in self._ownership.contested]
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
        self._assignment[member_id] = fitting[:keep]
        self._given_up |= dict.fromkeys(fitting[keep:], member_id)

    def _count_over(self) -> None:
        self._over += 1
        if self._over == self._over_allowed:
            self._exactly_min.clear()

    def _give(self, member_id: str, numbers: Sequence[int]) -> int:
        if self._given_up or self._ownership.contested:
            for number in numbers:
                if self._given_up.get(number, member_id) != member_id or number in self._ownership.contested:
                    self._transferring[number] = member_id
        self._assignment[member_id] += numbers
        return len(self._assignment[member_id])

    def _deal_by_rack(self, unassigned: list[int]) -> list[int]:
        in_rack = Counter(self._racks.values())
        left = []
        turn = 0
        for number in sorted(unassigned, key=lambda n: sum(in_rack[rack] for rack in self._racks_of[n])):
            turn, placed = self._place_under_min(number, turn)
            if not placed and not self._place_exactly_min(number):
                left.append(number)
        return left

    def _place_under_min(self, number: int, turn: int) -> tuple[int, bool]:
        count = len(self._under_min)
        for i in range(count):
            at = (turn + i) % count
            member_id = self._under_min[at]
            if not self._in_rack(member_id, number):
                continue
            if self._give(member_id, [number]) >= self._min:
                del self._under_min[at]
                if self._min < self._max and self._over < self._over_allowed:
                    self._exactly_min.append(member_id)
                return at, True
            return at + 1, True
        return turn, False

    def _place_exactly_min(self, number: int) -> bool:
        for at, member_id in enumerate(self._exactly_min):
            if self._in_rack(member_id, number):
                del self._exactly_min[at]
                self._give(member_id, [number])
                self._count_over()
                return True
        return False

    def _deal_round(self, unassigned: list[int]) -> None:
        """Assign partitions to members in turn until each member has the minimum number of partitions.

        Then assign the remaining partitions, at most one to each member that has exactly the minimum.
        """
        under, extras = self._under_min, deque(self._exactly_min)
        start = 0
        while under:
            short = {member_id: self._min - len(self._assignment[member_id]) for member_id in under}
            rounds, width = min(short.values()), len(under)
            stop = start + rounds * width
            for at, member_id in enumerate(under):
                self._give(member_id, unassigned[start + at : stop : width])
            start = stop
            extras += (member_id for member_id in under if short[member_id] == rounds)
            under = [member_id for member_id in under if short[member_id] > rounds]
        for number in islice(unassigned, start, None):
            self._give(extras.popleft(), [number])
