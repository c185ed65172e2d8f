"""uniform where members subscribe to different topics: Kafka's heterogeneous case.

Members keep what they have, what nobody has goes to whoever has least, and then partitions move from those that have
most to those that have least, topic by topic, until no topic's subscribers differ by more than one. Where subscriptions
overlap a move can undo the balance of another topic, so there are several passes, and not every result is the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kohort.assignors.server.iteration import in_member_order, topic_rank
from kohort.assignors.server.previous_targets import PreviousTargets
from kohort.assignors.server.spec import MemberSpec, Targets

MAX_PASSES: Final = 16
"""Over all topics. Where all subscribers of a topic want the same, the second one finds nothing to do."""
_NOBODY: Final = -1


class MixedTargets:
    """One assignment under way. Members are numbers: their places in Kafka's order."""

    def __init__(self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> None:
        self._ordered = in_member_order(members)
        self._previous = PreviousTargets(self._ordered, members, partition_counts)
        self._subscribers: dict[bytes, list[int]] = {}
        for member, member_id in enumerate(self._ordered):
            for topic in members[member_id].topics:
                self._subscribers.setdefault(topic, []).append(member)
        self._topics = sorted(self._subscribers, key=lambda t: self._rank(t, partition_counts[t]))
        self._owners = {topic: [_NOBODY] * partition_counts[topic] for topic in self._topics}
        self._sizes = [0] * len(members)
        for member, kept in enumerate(self._previous.by_member.values()):
            for topic, partitions in kept.items():
                self._sizes[member] += len(partitions)
                for partition in partitions:
                    self._owners[topic][partition] = member

    def assign(self) -> Targets:
        """Return the target of every member."""
        for topic in self._topics:
            self._deal(topic)
        self._balance([topic for topic in self._topics if len(self._subscribers[topic]) > 1])
        return self._told()

    def _rank(self, topic: bytes, count: int) -> tuple[float, int, tuple[int, int]]:
        """Sorts topics with many partitions for each of their subscribers first."""
        subscribers = len(self._subscribers[topic])
        return -(count / subscribers), subscribers, topic_rank(topic)

    def _by_size(self, topic: bytes) -> list[int]:
        return sorted(self._subscribers[topic], key=self._sizes.__getitem__)

    def _deal(self, topic: bytes) -> None:
        """Give what nobody has to the subscribers that have least."""
        owners = self._owners[topic]
        if _NOBODY not in owners:
            return
        takers = _Takers(self._by_size(topic), self._sizes)
        for partition, owner in enumerate(owners):
            if owner == _NOBODY:
                owners[partition] = taker = takers.next()
                self._sizes[taker] += 1

    def _balance(self, topics: Sequence[bytes]) -> None:
        last = None
        for _ in range(MAX_PASSES):
            for topic in topics:
                if topic == last:
                    return
                if self._moved(topic) or last is None:
                    last = topic

    def _moved(self, topic: bytes) -> bool:
        """Move partitions of one topic from who has most to who has least; tells whether any moved."""
        sizes = self._sizes
        loads = [sizes[member] for member in self._subscribers[topic]]
        if max(loads) - min(loads) <= 1:
            return False
        owners = self._owners[topic]
        to_give: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            to_give.setdefault(owner, []).append(partition)
        by_size = self._by_size(topic)
        takers, givers = _Takers(by_size, sizes), _Givers(by_size, sizes)
        moved = False
        while (giver := givers.next_of(to_give)) is not None:
            taker = takers.next()
            if givers.level - takers.level <= 1:
                break
            owners[to_give[giver].pop()] = taker
            sizes[giver] -= 1
            sizes[taker] += 1
            moved = True
        return moved

    def _told(self) -> Targets:
        """Collect the partitions of each member, with the sets that were given where nothing changed."""
        found: list[dict[bytes, list[int]]] = [{} for _ in self._ordered]
        for topic, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                found[owner].setdefault(topic, []).append(partition)
        return {
            member_id: _renewed(self._previous.by_member[member_id], now)
            for member_id, now in zip(self._ordered, found, strict=True)
        }


def _renewed(before: Mapping[bytes, frozenset[int]], now: dict[bytes, list[int]]) -> dict[bytes, frozenset[int]]:
    """Returns ``now`` as sets; the topics that are new come first, the last one before the others, as in a bucket of
    Java's that computeIfAbsent fills."""
    target = {}
    for topic in (*(topic for topic in reversed(now) if topic not in before), *before):
        if topic in now:
            partitions = frozenset(now[topic])
            target[topic] = before[topic] if before.get(topic) == partitions else partitions
    return target


class _Takers:
    """The members that have least, one after the other: a level of them that rises and takes in those it reaches."""

    def __init__(self, by_size: Sequence[int], sizes: Sequence[int]) -> None:
        self._members = by_size
        self._sizes = sizes
        self.level = sizes[by_size[0]] - 1
        """How many partitions those in the level have before they take another."""
        self._end = 0
        self._at = 0

    def next(self) -> int:
        """Return the member that takes the next partition."""
        if self._at >= self._end:
            self.level += 1
            while self._end < len(self._members) and self._sizes[self._members[self._end]] == self.level:
                self._end += 1
            self._at = 0
        self._at += 1
        return self._members[self._at - 1]


class _Givers:
    """The members that have most, from the last to the first: a level of them that sinks and takes in those it
    reaches. Those without partitions of the topic are put behind the level."""

    def __init__(self, by_size: list[int], sizes: Sequence[int]) -> None:
        self._members = by_size
        self._sizes = sizes
        self.level = sizes[by_size[-1]] + 1
        """How many partitions those in the level have before they give one away."""
        self._start = self._end = len(by_size)
        self._at = len(by_size) - 1

    def next_of(self, to_give: Mapping[int, Sequence[int]]) -> int | None:
        """Return the member that gives the next partition, one that has some in ``to_give``; None if nobody has."""
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
        """Put the member that came last behind the level, and the level's last in its place."""
        members, here, last = self._members, self._at + 1, self._end - 1
        members[here], members[last] = members[last], members[here]
        self._end = last
