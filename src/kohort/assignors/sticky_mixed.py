"""Sticky assignment where members subscribe to different topics (protocol/assignors.md#mixed-subscriptions).

First, what can stay stays, and the rest goes to the member that has least; then partitions move one by one from members
with more to members with less, and instead of a move that would only undo an earlier one of the same topic, the earlier
one is taken back. Partitions are numbers here (``PartitionNumbers``), and the remainder of a number is its topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.assignors.loads import Loads, imbalance
from kohort.assignors.numbering import PartitionNumbers
from kohort.assignors.partition_movements import PartitionMovements
from kohort.assignors.previous_ownership import Ownership
from kohort.assignors.spec import Assignment, MemberSubscription, SubscribedTopics, racks_matter


class MixedSubscriptions:
    """One assignment under way."""

    def __init__(
        self,
        topics: SubscribedTopics,
        numbering: PartitionNumbers,
        members: Sequence[MemberSubscription],
        ownership: Ownership,
    ) -> None:
        self._numbering = numbering
        self._racks = {m.member_id: m.rack for m in members}
        # Members often share one tuple of names; each is looked through once.
        distinct = {
            wanted: (numbering.ranks(wanted), sum(topics.counts.get(t, 0) for t in wanted))
            for wanted in {m.topics for m in members}
        }
        self._wants = {m.member_id: distinct[m.topics][0] for m in members}
        self._most = {m.member_id: distinct[m.topics][1] for m in members}
        self._wanted_by = [0] * numbering.topics
        for wanted in self._wants.values():
            for rank in wanted:
                self._wanted_by[rank] += 1
        order = sorted(range(numbering.topics), key=self._wanted_by.__getitem__)
        self._partitions = [number for rank in order for number in numbering.of_topic(rank)]
        self._by_rack = racks_matter(topics, map(numbering.partition, self._partitions), members)
        self._racks_of: dict[int, frozenset[str]] = {}
        if self._by_rack:
            self._racks_of = {n: topics.racks_of(numbering.partition(n)) for n in self._partitions}
        self._older = ownership.older
        self._held: dict[str, dict[int, None]] = {m.member_id: {} for m in members}
        self._owner: dict[int, str] = {}
        self._revoked = False
        self._keep(ownership)
        self._initial = not any(self._held.values())
        self._loads = Loads(self._held, self._wants, numbering.topics)
        self._moves = PartitionMovements()

    def assign(self) -> Assignment:
        """Return the partitions of each member."""
        unassigned = [n for n in self._partitions if n not in self._owner]
        self._give_out(unassigned)
        fixed = self._set_fixed_members_aside()
        step = self._numbering.topics
        movable = [n for n in self._partitions if self._wanted_by[n % step] > 1]
        before = {m: dict(held) for m, held in self._held.items()}
        if not self._revoked:
            self._improve([n for n in unassigned if self._wanted_by[n % step] > 1])
        moved = self._improve(movable)
        found = self._held
        if not self._initial and moved and imbalance(self._held) >= imbalance(before):
            found = before
        return {m: self._numbering.partitions(held) for m, held in (found | fixed).items()}

    # What stays

    def _keep(self, ownership: Ownership) -> None:
        step = self._numbering.topics
        for member_id, numbers in ownership.owned.items():
            wanted, held = self._wants[member_id], self._held[member_id]
            for number in numbers:
                if number % step not in wanted or self._misfit(member_id, number):
                    self._revoked = True
                    continue
                held[number] = None
                self._owner[number] = member_id

    def _misfit(self, member_id: str, number: int) -> bool:
        return self._by_rack and bool(self._racks[member_id]) and self._racks[member_id] not in self._racks_of[number]

    # Who has how much

    def _add(self, member_id: str, number: int) -> None:
        self._held[member_id][number] = None
        self._owner[number] = member_id
        self._loads.took(member_id, number)

    def _give_out(self, unassigned: Iterable[int]) -> None:
        """Each to the eligible member that has least; those whose racks fit first."""
        step = self._numbering.topics
        left = []
        for number in unassigned:
            near = self._nearest(number) if self._by_rack else None
            if near is None:
                left.append(number)
            else:
                self._add(near, number)
        for number in left:
            member_id = self._loads.least(number % step)
            if member_id is not None:
                self._add(member_id, number)

    def _nearest(self, number: int) -> str | None:
        """Return who has least of those that want a partition and whose rack has it, or who have no rack."""
        rank = number % self._numbering.topics
        return next((m for m in self._loads if rank in self._wants[m] and not self._misfit(m, number)), None)

    # Balance

    def _set_fixed_members_aside(self) -> dict[str, dict[int, None]]:
        """Members that can neither give nor take take no part in what follows; returns what they have."""
        fixed = {m: held for m, held in self._held.items() if not self._can_take_part(m, held)}
        for member_id in fixed:
            self._loads.forget(member_id)
            del self._held[member_id]
        return fixed

    def _can_take_part(self, member_id: str, held: dict[int, None]) -> bool:
        step = self._numbering.topics
        return len(held) < self._most[member_id] or any(self._wanted_by[n % step] > 1 for n in held)

    def _improve(self, partitions: Sequence[int]) -> bool:
        """Move partitions while that helps; returns whether any moved."""
        moved = False
        while True:
            again = False
            for number in partitions:
                if self._loads.are_balanced():
                    break
                target = self._better_owner(number)
                if target is not None:
                    self._move(number, target)
                    moved = again = True
            if not again:
                return moved

    def _better_owner(self, number: int) -> str | None:
        owner = self._owner.get(number)
        if owner not in self._held:
            return None
        size = len(self._held[owner])
        rank = number % self._numbering.topics
        older = self._older.get(number)
        if older in self._held and rank in self._wants[older] and self._has_less(older, size):
            return older
        # Balance goes before racks here: where anybody has less, whoever has least takes it.
        least = self._loads.least(rank)
        return least if least is not None and self._has_less(least, size) else None

    def _has_less(self, member_id: str, than: int) -> bool:
        return than > len(self._held[member_id]) + 1

    def _move(self, number: int, target: str) -> None:
        partition = self._numbering.partition(number)
        actual = self._moves.better(partition, self._owner[number], target)
        number = self._numbering.of_runs([(actual.topic, [actual.partition])])[0]
        holder = self._owner[number]
        self._moves.record(actual, holder, target)
        del self._held[holder][number]
        self._loads.gave(holder, number)
        self._add(target, number)
