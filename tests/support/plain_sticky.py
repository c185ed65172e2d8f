"""Sticky assignors in plain form, one partition at a time: the reference for the fast ones."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.assignors import cooperative, sticky
from kohort.assignors.cooperative import moving_partitions
from kohort.assignors.previous_ownership import MemberData as Claim
from kohort.assignors.spec import (
    NO_GENERATION,
    Assignment,
    MemberSubscription,
    SubscribedTopics,
    in_hash_order,
    java_order,
    known_topics,
    racks_matter,
)
from kohort.assignors.sticky_mixed import PartitionMovements
from kohort.model import TopicPartition

Load = tuple[int, bytes, str]


def plain_sticky(topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
    """Assign as ``sticky``."""
    return _deal(topics, members, _plainly(sticky.read_claim))[0]


def plain_cooperative(topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
    """Assign as ``cooperative-sticky``."""
    found, transferring = _deal(topics, members, _plainly(cooperative.read_claim))
    if transferring is None:
        transferring = moving_partitions(members, found)
    for partition, new_owner in transferring.items():
        found[new_owner].remove(partition)
    return found


def _plainly(read: Callable[[MemberSubscription], Claim]) -> ReadMemberData:
    def plain(member: MemberSubscription) -> MemberData:
        claim = read(member)
        return MemberData([TopicPartition(topic, p) for topic, run in claim.runs for p in run], claim.generation)

    return plain


def _deal(
    topics: SubscribedTopics, members: Sequence[MemberSubscription], read: ReadMemberData
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    if not members:
        return {}, {}
    ordered = in_hash_order(members)
    names = known_topics(topics, ordered)
    ownership = decide_ownership(ordered, {name: topics.counts[name] for name in names}, read)
    if all(set(m.topics) == set(ordered[0].topics) for m in ordered):
        equal = EqualSubscriptions(topics, names, ordered, ownership)
        return equal.assign(), equal.transferring
    return MixedSubscriptions(topics, names, ordered, ownership).assign(), None


class MemberData(NamedTuple):
    """Owned partitions that one member claims, and their generation (None: not sent)."""

    partitions: Sequence[TopicPartition]
    generation: int | None


ReadMemberData = Callable[[MemberSubscription], MemberData]


@dataclass(slots=True)
class Ownership:
    """Accepted claims."""

    owned: dict[str, list[TopicPartition]] = field(default_factory=dict)
    contested: set[TopicPartition] = field(default_factory=set)
    """Partitions that two members of one generation claim: none keeps them."""
    older: dict[TopicPartition, str] = field(default_factory=dict)
    """Newest of the older claims, by partition."""


def decide_ownership(
    members: Sequence[MemberSubscription], counts: Mapping[str, int], read: ReadMemberData
) -> Ownership:
    """Decide which claims are kept. Claims on partitions that no longer exist are dropped."""
    claims = {m.member_id: read(m) for m in members}
    by_id = {m.member_id: m for m in members}
    found = Ownership()
    owner: dict[TopicPartition, str] = {}
    for member_id, claim in claims.items():
        owned = found.owned.setdefault(member_id, [])
        generation = NO_GENERATION if claim.generation is None else claim.generation
        for partition in claim.partitions:
            if partition.partition >= counts.get(partition.topic, 0):
                continue
            other = owner.get(partition)
            if other is None:
                owner[partition] = member_id
                owned.append(partition)
                continue
            # The earlier claimer's generation comes from its Subscription even where its claim came from user data.
            stated = by_id[other].generation
            others = NO_GENERATION if stated is None else stated
            if generation < others:
                continue
            if partition in found.owned[other]:
                found.owned[other].remove(partition)
            owner[partition] = member_id
            if generation == others:
                found.contested.add(partition)
            else:
                owned.append(partition)
    found.older = _older_owners(claims)
    return found


def _older_owners(claims: dict[str, MemberData]) -> dict[TopicPartition, str]:
    newest = max((c.generation for c in claims.values() if c.generation is not None), default=NO_GENERATION)
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member_id, claim in claims.items():
        generation = NO_GENERATION if claim.generation is None else claim.generation
        if generation >= newest:
            continue
        for partition in claim.partitions:
            if partition not in found or generation > found[partition][0]:
                found[partition] = (generation, member_id)
    return {partition: member_id for partition, (_, member_id) in found.items()}


class EqualSubscriptions:
    """One assignment. After ``assign``, ``transferring`` holds the partitions that change owners."""

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
        self._revoked_from: dict[TopicPartition, str] = {}
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
        """Return True if the member may keep ``partition``: without a rack it may keep any."""
        return not self._by_rack or not self._racks[member_id] or self._in_rack(member_id, partition)

    def _in_rack(self, member_id: str, partition: TopicPartition) -> bool:
        return self._racks[member_id] in self._topics.racks_of(partition)

    def _keep(self, member_id: str) -> None:
        owned = self._ownership.owned.get(member_id, [])
        fitting = [p for p in owned if self._fits(member_id, p)]
        self._revoked_from |= {p: member_id for p in owned if not self._fits(member_id, p)}
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
        self._revoked_from |= dict.fromkeys(fitting[keep:], member_id)

    def _count_over(self) -> None:
        self._over += 1
        if self._over == self._over_allowed:
            self._exactly_min.clear()

    def _give(self, member_id: str, partition: TopicPartition) -> int:
        """Assign a partition; return the member's number of partitions. Revoked and contested ones move."""
        if self._revoked_from.get(partition, member_id) != member_id or partition in self._ownership.contested:
            self.transferring[partition] = member_id
        self._assignment[member_id].append(partition)
        return len(self._assignment[member_id])

    def _deal_by_rack(self, unassigned: list[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to members of their racks, the hardest to place first; return the rest."""
        readers = {p: sum(self._in_rack(m, p) for m in self._assignment) for p in unassigned}
        remaining = []
        turn = 0
        for partition in sorted(unassigned, key=lambda p: readers[p]):
            turn, placed = self._place_under_min(partition, turn)
            if not placed and not self._place_exactly_min(partition):
                remaining.append(partition)
        return remaining

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
        """Fill members up to the minimum in turns, then add one partition to each member with room."""
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


class MixedSubscriptions:
    """One assignment."""

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
        self._subscribers = {name: [m.member_id for m in members if name in m.topics] for name in names}
        order = sorted(names, key=lambda t: (len(self._subscribers[t]), java_order(t)))
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
        movable = [p for p in self._partitions if len(self._subscribers[p.topic]) > 1]
        before = {m: list(partitions) for m, partitions in self._assignment.items()}
        if not self._revoked:
            self._improve([p for p in unassigned if len(self._subscribers[p.topic]) > 1])
        moved = self._improve(movable)
        if not self._initial and moved and _imbalance(self._assignment) >= _imbalance(before):
            self._assignment = before
        self._assignment.update(fixed)
        return self._assignment

    # Kept partitions

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

    # Loads of members

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
        """Assign each partition to the eligible member with the least load; matching racks first."""
        remaining = []
        for partition in unassigned:
            near = self._least_loaded(partition, fitting=True) if self._by_rack else None
            if near is None:
                remaining.append(partition)
            else:
                self._add(near, partition)
        for partition in remaining:
            member_id = self._least_loaded(partition, fitting=False)
            if member_id is not None:
                self._add(member_id, partition)

    def _least_loaded(self, partition: TopicPartition, *, fitting: bool) -> str | None:
        """Return the subscriber with the least load; ``fitting``: only with a matching rack or without a rack."""
        for _, _, member_id in self._loads:
            if partition.topic in self._wants[member_id] and not (fitting and self._misfit(member_id, partition)):
                return member_id
        return None

    # Balance

    def _set_fixed_members_aside(self) -> Assignment:
        """Return members that can neither give nor take a partition; they take no part in the balancing."""
        fixed = {m: p for m, p in self._assignment.items() if not self._can_take_part(m)}
        for member_id in fixed:
            self._loads.remove(self._load(member_id))
            del self._assignment[member_id]
        return fixed

    def _can_take_part(self, member_id: str) -> bool:
        partitions = self._assignment[member_id]
        room = len(partitions) < self._most(member_id)
        return room or any(len(self._subscribers[p.topic]) > 1 for p in partitions)

    def _most(self, member_id: str) -> int:
        return sum(self._topics.counts[t] for t in self._wants[member_id])

    def _is_balanced(self) -> bool:
        """Return True if no move between two members would improve the balance."""
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
        """Move partitions while the balance improves; return True if any moved."""
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
        # Balance precedes racks here: the subscriber with the least load gets the partition.
        others = (m for m in self._subscribers[partition.topic] if m in self._assignment)
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
