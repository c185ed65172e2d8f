"""uniform assignor for members with different subscriptions (Kafka: heterogeneous).

Members keep their partitions; unowned partitions go to the least loaded subscribers. Then the topics are balanced one
after the other: partitions of the topic move from its most to its least loaded subscribers, until the subscribers'
partition counts differ by one at most. A move in one topic can unbalance the subscribers of another topic. Therefore
the loop over all topics is repeated, and some results are not optimal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kohort.assignors.server.iteration import member_order, topic_rank
from kohort.assignors.server.spec import MEMBER_US, PARTITION_US, MemberSpec, PreviousTargets, Targets
from kohort.steps import Pace, Steps

MAX_PASSES: Final = 16
"""Maximum number of balancing loops over all topics. With equal subscriptions the second loop moves nothing."""
MOVE_US: Final = 1
_UNASSIGNED: Final = -1


class MixedTargets:
    """Target assignment of members with different subscriptions. A member is an index into Kafka's order of members."""

    def __init__(self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int], pace: Pace) -> None:
        self._members = members
        self._counts = partition_counts
        self._pace = pace
        self._previous = PreviousTargets(partition_counts)
        self._subscribers: dict[bytes, list[int]] = {}
        self._owners: dict[bytes, list[int]] = {}
        """Owners of the partitions 0, 1, ... of each topic, as a dict: topic id -> list of owners.

        Topics with the most partitions per subscriber come first.
        """
        self._sizes = [0] * len(members)

    def assign(self) -> Steps[Targets]:
        ordered = yield from member_order(self._members, self._pace)
        yield from self._previous.read(ordered, self._members, self._pace)
        yield from self._read(ordered)
        for topic in self._owners:
            yield from self._deal(topic)
        yield from self._balance([topic for topic in self._owners if len(self._subscribers[topic]) > 1])
        return (yield from self._targets())

    def _read(self, ordered: Sequence[str]) -> Steps[None]:
        for member, member_id in enumerate(ordered):
            topics = self._members[member_id].topics
            for topic in topics:
                self._subscribers.setdefault(topic, []).append(member)
            if self._pace.is_due(MEMBER_US + PARTITION_US * len(topics)):
                yield
        for topic in sorted(self._subscribers, key=self._rank):
            self._owners[topic] = [_UNASSIGNED] * self._counts[topic]
        for member, kept in enumerate(self._previous.by_member.values()):
            for topic, partitions in kept.items():
                self._sizes[member] += len(partitions)
                for partition in partitions:
                    self._owners[topic][partition] = member
            if self._pace.is_due(MEMBER_US + PARTITION_US * self._sizes[member]):
                yield

    def _rank(self, topic: bytes) -> tuple[float, int, tuple[int, int]]:
        subscribers = len(self._subscribers[topic])
        return -(self._counts[topic] / subscribers), subscribers, topic_rank(topic)

    def _by_size(self, topic: bytes) -> list[int]:
        return sorted(self._subscribers[topic], key=self._sizes.__getitem__)

    def _deal(self, topic: bytes) -> Steps[None]:
        owners = self._owners[topic]
        if _UNASSIGNED not in owners:
            return
        takers = _LeastLoaded(self._by_size(topic), self._sizes)
        if self._pace.is_due(PARTITION_US * len(self._subscribers[topic])):
            yield
        for partition, owner in enumerate(owners):
            if owner == _UNASSIGNED:
                owners[partition] = taker = takers.next()
                self._sizes[taker] += 1
                if self._pace.is_due(MOVE_US):
                    yield

    def _balance(self, topics: Sequence[bytes]) -> Steps[None]:
        last = None
        for _ in range(MAX_PASSES):
            for topic in topics:
                if topic == last:
                    return
                if (yield from self._moved(topic)) or last is None:
                    last = topic

    def _moved(self, topic: bytes) -> Steps[bool]:
        sizes = self._sizes
        loads = [sizes[member] for member in self._subscribers[topic]]
        if self._pace.is_due(PARTITION_US * len(loads)):
            yield
        if max(loads) - min(loads) <= 1:
            return False
        owners = self._owners[topic]
        to_give: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            to_give.setdefault(owner, []).append(partition)
        by_size = self._by_size(topic)
        if self._pace.is_due(PARTITION_US * (len(owners) + len(loads))):
            yield
        takers, givers = _LeastLoaded(by_size, sizes), _MostLoaded(by_size, sizes)
        moved = False
        while (giver := givers.next_of(to_give)) is not None:
            taker = takers.next()
            if givers.level - takers.level <= 1:
                break
            owners[to_give[giver].pop()] = taker
            sizes[giver] -= 1
            sizes[taker] += 1
            moved = True
            if self._pace.is_due(MOVE_US):
                yield
        return moved

    def _targets(self) -> Steps[Targets]:
        found: list[dict[bytes, list[int]]] = [{} for _ in self._sizes]
        for topic, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                found[owner].setdefault(topic, []).append(partition)
                if self._pace.is_due(MOVE_US):
                    yield
        targets: Targets = {}
        for member, (member_id, before) in enumerate(self._previous.by_member.items()):
            targets[member_id] = _renewed(before, found[member])
            if self._pace.is_due(MEMBER_US + PARTITION_US * self._sizes[member]):
                yield
        return targets


def _renewed(before: Mapping[bytes, frozenset[int]], now: dict[bytes, list[int]]) -> dict[bytes, frozenset[int]]:
    """Return a member's target assignment, with the topics in the order of Kafka's map.

    The member's new topics come first, beginning with the last added one; then its previous topics.
    """
    target = {}
    for topic in (*(topic for topic in reversed(now) if topic not in before), *before):
        if topic in now:
            partitions = frozenset(now[topic])
            target[topic] = before[topic] if before.get(topic) == partitions else partitions
    return target


class _LeastLoaded:
    """Iterator over the least loaded subscribers. The caller assigns one partition to each returned member."""

    def __init__(self, by_size: Sequence[int], sizes: Sequence[int]) -> None:
        self._members = by_size
        self._sizes = sizes
        self.level = sizes[by_size[0]] - 1
        """Current partition count of the subscribers that ``next`` returns. Each then gets one partition more."""
        self._end = 0
        self._at = 0

    def next(self) -> int:
        if self._at >= self._end:
            self.level += 1
            while self._end < len(self._members) and self._sizes[self._members[self._end]] == self.level:
                self._end += 1
            self._at = 0
        self._at += 1
        return self._members[self._at - 1]


class _MostLoaded:
    """Iterator over the most loaded subscribers. Of equally loaded subscribers, the last one comes first.

    The caller takes one partition of the topic from each returned member. Members without a partition of the topic are
    skipped.
    """

    def __init__(self, by_size: list[int], sizes: Sequence[int]) -> None:
        self._members = by_size
        self._sizes = sizes
        self.level = sizes[by_size[-1]] + 1
        """Current partition count of the subscribers that ``next_of`` returns. Each then loses one partition."""
        self._start = self._end = len(by_size)
        self._at = len(by_size) - 1

    def next_of(self, to_give: Mapping[int, Sequence[int]]) -> int | None:
        """Return the next member with a partition in ``to_give``, most loaded first; None after the last member."""
        while (member := self._next()) is not None:
            if to_give.get(member):
                return member
            self._exclude()
        return None

    def _next(self) -> int | None:
        if self._at < self._start:
            self._sink()
            self._at = self._end - 1
        if self._at < 0:
            return None
        self._at -= 1
        return self._members[self._at + 1]

    def _sink(self) -> None:
        if self._end <= self._start and self._start > 0:
            self.level = self._sizes[self._members[self._start - 1]]
        else:
            self.level -= 1
        while self._start > 0 and self._sizes[self._members[self._start - 1]] == self.level:
            self._start -= 1

    def _exclude(self) -> None:
        members, here, last = self._members, self._at + 1, self._end - 1
        members[here], members[last] = members[last], members[here]
        self._end = last
