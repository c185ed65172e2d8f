"""What members begin with: their previous targets, as far as they may keep them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kohort.assignors.server.iteration import in_owned_order
from kohort.assignors.server.spec import MemberSpec
from kohort.errors import UsageError


class PreviousTargets:
    """The previous targets without topics that a member no longer wants, partitions that do not exist, and second
    owners; ``taken`` holds the partitions that have an owner, by topic id."""

    def __init__(
        self, ordered: Iterable[str], members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]
    ) -> None:
        self.taken: dict[bytes, set[int]] = {}
        self._counts = partition_counts
        self.by_member = {member_id: self._of(members[member_id]) for member_id in ordered}

    def _of(self, member: MemberSpec) -> dict[bytes, frozenset[int]]:
        kept = {}
        for topic in in_owned_order(member.owned):
            if topic not in member.topics:
                continue
            partitions = self._still_there(topic, member.owned[topic])
            taken = self.taken.setdefault(topic, set())
            if not taken.isdisjoint(partitions):
                partitions -= taken
            taken |= partitions
            if partitions:
                kept[topic] = partitions
        return kept

    def _still_there(self, topic: bytes, partitions: frozenset[int]) -> frozenset[int]:
        count = self._counts[topic]
        if not partitions or (min(partitions) >= 0 and max(partitions) < count):
            return partitions
        return frozenset(p for p in partitions if 0 <= p < count)


def check_topics(members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> None:
    """Raise UsageError if a member subscribes to a topic whose partitions nobody counted."""
    # Members mostly share one set, which remembers its hash: it is looked through once.
    for topics in dict.fromkeys(member.topics for member in members.values()):
        if not topics <= partition_counts.keys():
            missing = min(topics - partition_counts.keys()).hex()
            raise UsageError(f"a member subscribes to topic id {missing}, of which no partition count is given")
