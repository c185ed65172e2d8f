"""uniform where all members subscribe to the same topics: Kafka's homogeneous case.

With P partitions and M members everyone gets P div M, and P mod M members one more: those that have one more already,
as far as possible. Linear in members and partitions, but for the sorting of the members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from kohort.assignors.server.iteration import in_member_order, in_partition_order, in_topic_order
from kohort.assignors.server.previous_targets import PreviousTargets
from kohort.assignors.server.spec import MemberSpec, Targets


class EqualTargets:
    """One assignment under way."""

    def __init__(
        self, topics: Collection[bytes], members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]
    ) -> None:
        self._ordered = in_member_order(members)
        previous = PreviousTargets(self._ordered, members, partition_counts)
        self._targets: Targets = previous.by_member
        total = sum(partition_counts[topic] for topic in topics)
        self._base, self._extras = divmod(total, len(members))
        nobody: set[int] = set()
        self._unassigned = [
            (topic, partition)
            for topic in in_topic_order([topic for topic in partition_counts if topic in topics])
            for taken in (previous.taken.get(topic, nobody),)
            for partition in range(partition_counts[topic])
            if partition not in taken
        ]

    def assign(self) -> Targets:
        """Return the target of every member."""
        unfilled = []
        for i, member_id in enumerate(self._ordered):
            may_have = self._base + (self._extras > 0)
            room = may_have - self._keep(member_id, may_have)
            # One more is for those that have it, unless no more members are left than there are to give away.
            if room and self._extras and len(self._ordered) - i > self._extras:
                room -= 1
            elif self._extras:
                self._extras -= 1
            if room:
                unfilled.append((member_id, room))
        rest = iter(self._unassigned)
        for member_id, room in unfilled:
            self._fill(member_id, room, rest)
        return self._targets

    def _keep(self, member_id: str, may_have: int) -> int:
        """Cut what the member has down to ``may_have`` partitions; returns how many it keeps."""
        room = may_have
        target = self._targets[member_id]
        for topic, partitions in list(target.items()):
            if len(partitions) > room:
                in_order = in_partition_order(partitions)
                self._unassigned += [(topic, partition) for partition in in_order[room:]]
                if room:
                    target[topic] = frozenset(in_order[:room])  # in its place among the others, as in a hash map
                else:
                    del target[topic]
            room -= min(room, len(partitions))
        return may_have - room

    def _fill(self, member_id: str, room: int, rest: Iterator[tuple[bytes, int]]) -> None:
        gained: dict[bytes, list[int]] = {}
        for topic, partition in islice(rest, room):
            gained.setdefault(topic, []).append(partition)
        had = self._targets[member_id]
        # Java's computeIfAbsent puts what is new before what is in its bucket.
        target = {topic: frozenset(gained[topic]) for topic in reversed(gained) if topic not in had}
        for topic, partitions in had.items():
            target[topic] = partitions.union(gained[topic]) if topic in gained else partitions
        self._targets[member_id] = target
