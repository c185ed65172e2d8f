"""Sticky assignment for members with different subscriptions (protocol/assignors.md#mixed-subscriptions).

Members keep their partitions of topics that they subscribe to; unowned partitions go to the least loaded subscribers.
Then partitions move one by one from more to less loaded members. If another partition of the topic has moved between
the same two members in the opposite direction, that partition moves back instead.

Partitions are represented by integers (``PartitionNumbers``). The integer modulo the number of topics is the topic.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kohort.assignors.previous_ownership import Ownership, PartitionNumbers
from kohort.assignors.spec import (
    Assignment,
    MemberSubscription,
    SubscribedTopics,
    java_bucket,
    java_order,
    racks_matter,
    table_size,
)
from kohort.model import TopicPartition, java_string_hash


class _Pair(NamedTuple):
    source: str
    target: str


class _Moved:
    """Partitions that have moved from one member to another, in the order of a Java HashSet."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, None] = {}
        self._most = 0
        """Largest number of partitions that this set ever had. A Java HashSet never shrinks."""

    def add(self, partition: TopicPartition) -> None:
        self.partitions[partition] = None
        self._most = max(self._most, len(self.partitions))

    def first(self) -> TopicPartition:
        size = table_size(self._most)
        return min(self.partitions, key=lambda p: java_bucket(_hash_code(p), size))


def _hash_code(partition: TopicPartition) -> int:
    return 31 * (31 + partition.partition) + java_string_hash(partition.topic)


class PartitionMovements:
    """Source member and target member of each moved partition.

    Several moves of a partition count as one move from the first source to the last target. A move back to the first
    source cancels all these moves.
    """

    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, _Pair] = {}
        self._by_topic: dict[str, dict[_Pair, _Moved]] = {}

    def better(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move from ``source`` to ``target``: ``partition``, or another partition of its topic.

        A partition that has moved from ``target`` to ``source`` is preferred: the two moves cancel each other.
        """
        if partition in self._by_partition:
            source = self._by_partition[partition].source
        opposite = self._by_topic.get(partition.topic, {}).get(_Pair(target, source))
        return opposite.first() if opposite else partition

    def record(self, partition: TopicPartition, source: str, target: str) -> None:
        earlier = self._by_partition.pop(partition, None)
        if earlier is not None:
            of_topic = self._by_topic[partition.topic]
            del of_topic[earlier].partitions[partition]
            if not of_topic[earlier].partitions:
                del of_topic[earlier]
            source = earlier.source
        if source == target:
            return
        pair = _Pair(source, target)
        self._by_partition[partition] = pair
        self._by_topic.setdefault(partition.topic, {}).setdefault(pair, _Moved()).add(partition)


class _Imbalance(NamedTuple):
    """Possible move of a partition from ``holder`` to ``taker``, which has at least two partitions fewer."""

    taker: str
    holder: str
    rank: int


class Loads:
    """Members sorted by their number of partitions, then by member id.

    ``held``: each member's partitions as integers (modulo ``topics``: the topic). The caller changes ``held`` and calls
    ``note_change`` after each change. ``subscribed``: each member's subscribed topics.
    """

    def __init__(
        self, held: Mapping[str, Collection[int]], subscribed: Mapping[str, Collection[int]], topics: int
    ) -> None:
        self._held = held
        self._subscribed = subscribed
        self._topics = topics
        self._by_id = sorted(held, key=java_order)
        self._place = {member_id: i for i, member_id in enumerate(self._by_id)}
        # Sort key of a member, as one integer: partition count * number of members + index of its id in ``_by_id``.
        self._order = sorted(self._key(m, len(held[m])) for m in held)
        self._of_topic = {m: Counter(number % topics for number in numbers) for m, numbers in held.items()}
        self._least: dict[int, str | None] = {}
        self._known_imbalance: _Imbalance | None = None
        self._balanced: bool | None = None

    def _key(self, member_id: str, size: int) -> int:
        return size * len(self._by_id) + self._place[member_id]

    def __iter__(self) -> Iterator[str]:
        return (self._by_id[key % len(self._by_id)] for key in self._order)

    def note_change(self, member_id: str, number: int, by: int) -> None:
        """Sort a member again after it gained (``by=1``) or lost (``by=-1``) the partition ``number``."""
        key = self._key(member_id, len(self._held[member_id]))
        del self._order[bisect_left(self._order, key - by * len(self._by_id))]
        insort(self._order, key)
        self._of_topic[member_id][number % self._topics] += by
        self._least.clear()
        self._balanced = None

    def forget(self, member_id: str) -> None:
        """Exclude a member from further moves. Its partitions remain in ``held``."""
        self._order.remove(self._key(member_id, len(self._held[member_id])))
        self._least.clear()
        self._balanced = None

    def least(self, rank: int) -> str | None:
        if rank not in self._least:
            self._least[rank] = next((m for m in self if rank in self._subscribed[m]), None)
        return self._least[rank]

    def are_balanced(self) -> bool:
        """Return True if no move of a partition improves the balance.

        A move improves it if the new owner subscribes to the topic, and has at least two partitions fewer.
        """
        if self._balanced is None:
            if not self._still_imbalanced():
                self._known_imbalance = self._find_imbalance()
            self._balanced = self._known_imbalance is None
        return self._balanced

    def _still_imbalanced(self) -> bool:
        known = self._known_imbalance
        return (
            known is not None
            and known.taker in self._held
            and known.holder in self._held
            and self._of_topic[known.holder][known.rank] > 0
            and len(self._held[known.taker]) + 1 < len(self._held[known.holder])
        )

    def _find_imbalance(self) -> _Imbalance | None:
        members, by_id = len(self._by_id), self._by_id
        if not self._order or self._order[0] // members >= self._order[-1] // members - 1:
            return None
        fewest = self._order[0] // members
        top: dict[int, str] = {}
        for key in reversed(self._order):
            if key // members <= fewest + 1 or len(top) == self._topics:
                break
            holder = by_id[key % members]
            for rank, count in self._of_topic[holder].items():
                if count:
                    top.setdefault(rank, holder)
        most = self._order[-1] // members
        for key in self._order:
            if key // members + 1 >= most:
                return None
            taker = by_id[key % members]
            for rank in self._subscribed[taker]:
                holder = top.get(rank, taker)
                if key // members + 1 < len(self._held[holder]):
                    return _Imbalance(taker, holder, rank)
        return None


def imbalance(held: Mapping[str, Collection[int]]) -> int:
    """Return the sum of the differences in partition count over all pairs of members; 0 is perfect balance."""
    sizes = sorted(map(len, held.values()))
    # Of n sorted counts, the count at index i is the larger one in i pairs, the smaller one in n - 1 - i pairs.
    return sum(size * (2 * i - len(sizes) + 1) for i, size in enumerate(sizes))


class MixedSubscriptions:
    """Computation of an assignment for members with different subscriptions."""

    def __init__(
        self,
        topics: SubscribedTopics,
        numbering: PartitionNumbers,
        members: Sequence[MemberSubscription],
        ownership: Ownership,
    ) -> None:
        self._numbering = numbering
        self._racks = {m.member_id: m.rack for m in members}
        # Many members have equal tuples of topic names: convert only the distinct tuples.
        distinct = {
            subscribed: (numbering.ranks(subscribed), sum(topics.counts.get(t, 0) for t in subscribed))
            for subscribed in {m.topics for m in members}
        }
        self._subscribed = {m.member_id: distinct[m.topics][0] for m in members}
        self._most = {m.member_id: distinct[m.topics][1] for m in members}
        self._subscriber_counts = [0] * numbering.topics
        for subscribed in self._subscribed.values():
            for rank in subscribed:
                self._subscriber_counts[rank] += 1
        order = sorted(range(numbering.topics), key=self._subscriber_counts.__getitem__)
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
        self._loads = Loads(self._held, self._subscribed, numbering.topics)
        self._moves = PartitionMovements()

    def assign(self) -> Assignment:
        unassigned = [n for n in self._partitions if n not in self._owner]
        self._deal(unassigned)
        fixed = self._set_fixed_members_aside()
        step = self._numbering.topics
        movable = [n for n in self._partitions if self._subscriber_counts[n % step] > 1]
        before = {m: dict(held) for m, held in self._held.items()}
        if not self._revoked:
            self._improve([n for n in unassigned if self._subscriber_counts[n % step] > 1])
        moved = self._improve(movable)
        found = self._held
        if not self._initial and moved and imbalance(self._held) >= imbalance(before):
            found = before
        return {m: self._numbering.partitions(held) for m, held in (found | fixed).items()}

    def _keep(self, ownership: Ownership) -> None:
        step = self._numbering.topics
        for member_id, numbers in ownership.owned.items():
            subscribed, held = self._subscribed[member_id], self._held[member_id]
            for number in numbers:
                if number % step not in subscribed or self._misfit(member_id, number):
                    self._revoked = True
                    continue
                held[number] = None
                self._owner[number] = member_id

    def _misfit(self, member_id: str, number: int) -> bool:
        return self._by_rack and bool(self._racks[member_id]) and self._racks[member_id] not in self._racks_of[number]

    def _add(self, member_id: str, number: int) -> None:
        self._held[member_id][number] = None
        self._owner[number] = member_id
        self._loads.note_change(member_id, number, 1)

    def _deal(self, unassigned: Iterable[int]) -> None:
        """Assign each partition to the least loaded subscriber in a rack of its replicas, else in any rack."""
        step = self._numbering.topics
        left = []
        for number in unassigned:
            if self._by_rack and (near := self._nearest(number)) is not None:
                self._add(near, number)
            else:
                left.append(number)
        for number in left:
            member_id = self._loads.least(number % step)
            if member_id is not None:
                self._add(member_id, number)

    def _nearest(self, number: int) -> str | None:
        rank = number % self._numbering.topics
        return next((m for m in self._loads if rank in self._subscribed[m] and not self._misfit(m, number)), None)

    def _set_fixed_members_aside(self) -> dict[str, dict[int, None]]:
        """Exclude members that can neither lose nor gain partitions; return them as a dict: member id -> partitions."""
        fixed = {m: held for m, held in self._held.items() if not self._can_take_part(m, held)}
        for member_id in fixed:
            self._loads.forget(member_id)
            del self._held[member_id]
        return fixed

    def _can_take_part(self, member_id: str, held: dict[int, None]) -> bool:
        step = self._numbering.topics
        return len(held) < self._most[member_id] or any(self._subscriber_counts[n % step] > 1 for n in held)

    def _improve(self, partitions: Sequence[int]) -> bool:
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
        if older in self._held and rank in self._subscribed[older] and self._has_less(older, size):
            return older
        # Balance is more important than racks: the least loaded subscriber of any rack gets the partition.
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
        self._loads.note_change(holder, number, -1)
        self._add(target, number)
