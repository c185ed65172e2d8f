"""uniform assignor (server-side). It balances partition counts, then minimizes moved partitions; it ignores racks.

The rules: protocol/assignors.md#server-side-assignors (Kafka's UniformAssignor). As in Kafka, there are two algorithms.
This module selects the algorithm, and contains the algorithm for equal subscriptions (Kafka: homogeneous).

With P partitions and M members each member gets P div M partitions, and P mod M members get one more. Members that
already own one more come first. The time is linear, except for the sort of the members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from kohort.assignors.server.iteration import in_partition_order, in_topic_order, member_order
from kohort.assignors.server.spec import (
    MEMBER_US,
    PARTITION_US,
    TOPIC_US,
    MemberSpec,
    PreviousTargets,
    ServerAssignor,
    Targets,
    check_topics,
)
from kohort.assignors.server.uniform_mixed import MixedTargets
from kohort.steps import Pace, Steps


class UniformAssignor(ServerAssignor):
    """Server-side assignor that balances partition counts.

    The counts of two members differ by at most one, as far as the subscriptions allow.
    """

    name = "uniform"

    def steps(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int], pace: Pace
    ) -> Steps[Targets]:
        if not members:
            return {}
        check_topics(members, partition_counts)
        first = next(iter(members.values()))
        for member in members.values():
            if not _subscribes_as(first, member):
                return (yield from MixedTargets(members, partition_counts, pace).assign())
            if pace.is_due(PARTITION_US):
                yield
        return (yield from EqualTargets(first, members, partition_counts, pace).assign())


def _subscribes_as(first: MemberSpec, member: MemberSpec) -> bool:
    if member.names and member.regex:
        return False
    return (member.topics, member.names, member.regex) == (first.topics, first.names, first.regex)


UNIFORM: Final = UniformAssignor()


class EqualTargets:
    """Computation of the target assignment for members with equal subscriptions."""

    def __init__(
        self, first: MemberSpec, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int], pace: Pace
    ) -> None:
        self._members = members
        self._topics = [topic for topic in partition_counts if topic in first.topics]
        self._counts = partition_counts
        self._pace = pace
        self._previous = PreviousTargets(partition_counts)
        self._targets = self._previous.by_member
        self._base, self._extras = divmod(sum(partition_counts[topic] for topic in self._topics), len(members))
        self._unassigned: list[tuple[bytes, int]] = []

    def assign(self) -> Steps[Targets]:
        ordered = yield from member_order(self._members, self._pace)
        yield from self._previous.read(ordered, self._members, self._pace)
        yield from self._collect_unassigned()
        unfilled = []
        for i, member_id in enumerate(ordered):
            may_have = self._base + (self._extras > 0)
            room = may_have - self._keep(member_id, may_have)
            # The member gets no extra partition (above ``_base``) if enough members follow to take all of them.
            # A following member may already own its extra partition, and then keeps it.
            if room and self._extras and len(ordered) - i > self._extras:
                room -= 1
            elif self._extras:
                self._extras -= 1
            if room:
                unfilled.append((member_id, room))
            if self._pace.is_due(MEMBER_US):
                yield
        rest = iter(self._unassigned)
        for member_id, room in unfilled:
            self._fill(member_id, room, rest)
            if self._pace.is_due(MEMBER_US + PARTITION_US * room):
                yield
        return self._targets

    def _collect_unassigned(self) -> Steps[None]:
        for topic in in_topic_order(self._topics):
            taken, count = self._previous.taken.get(topic, ()), self._counts[topic]
            self._unassigned += [(topic, partition) for partition in range(count) if partition not in taken]
            if self._pace.is_due(TOPIC_US + PARTITION_US * count):
                yield

    def _keep(self, member_id: str, may_have: int) -> int:
        """Reduce a member's target assignment to at most ``may_have`` partitions; return the number of kept ones."""
        room = may_have
        target = self._targets[member_id]
        for topic, partitions in list(target.items()):
            if len(partitions) > room:
                in_order = in_partition_order(partitions)
                self._unassigned += [(topic, partition) for partition in in_order[room:]]
                if room:  # replacing the value of a key keeps the iteration order, as in Java
                    target[topic] = frozenset(in_order[:room])
                else:
                    del target[topic]
            room -= min(room, len(partitions))
        return may_have - room

    def _fill(self, member_id: str, room: int, rest: Iterator[tuple[bytes, int]]) -> None:
        gained: dict[bytes, list[int]] = {}
        for topic, partition in islice(rest, room):
            gained.setdefault(topic, []).append(partition)
        had = self._targets[member_id]
        # Kafka's computeIfAbsent() puts a member's new topics before its other topics in the same hash bucket.
        target = {topic: frozenset(gained[topic]) for topic in reversed(gained) if topic not in had}
        for topic, partitions in had.items():
            target[topic] = partitions.union(gained[topic]) if topic in gained else partitions
        self._targets[member_id] = target
