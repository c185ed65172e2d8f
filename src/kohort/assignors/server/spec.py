"""Input and result of server-side assignors (KIP-848, protocol/assignors.md#server-side-assignors).

Unlike client assignors they use topic ids, and start from the previous target assignment instead of the members'
owned partitions. ``builtin.SERVER_ASSIGNORS`` lists them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar, Final, NamedTuple

from kohort.assignors.server.iteration import in_owned_order
from kohort.errors import UsageError
from kohort.steps import Pace, Steps, at_once

MEMBER_US: Final = 2
TOPIC_US: Final = 2
PARTITION_US: Final = 0.2
"""Estimated cost in microseconds of one pass of an assignor over one member, topic of a member, or partition."""
Targets = dict[str, dict[bytes, frozenset[int]]]
"""Target assignments: member id to topic id to partitions. Every member has an entry; empty topics are absent."""


class MemberSpec(NamedTuple):
    """Member of a consumer group, as input of a server-side assignor.

    ``topics``: ids (16 bytes) of existing subscribed topics, by name or pattern. ``owned``: previous target assignment,
    partitions by topic id. ``names``: subscribed topic names, existing or not. ``regex``: subscription pattern. Kafka's
    assignors ignore racks. ``uniform`` treats subscriptions as different if names or patterns differ, or if a member
    has both.
    """

    topics: frozenset[bytes]
    owned: Mapping[bytes, frozenset[int]] = {}
    rack_id: str | None = None
    instance_id: str | None = None
    names: Collection[str] = frozenset()
    regex: str = ""


class ServerAssignor(ABC):
    """Server-side assignor of consumer groups."""

    name: ClassVar[str]
    """Name in ``group.consumer.assignors`` and in the ServerAssignor field of ConsumerGroupHeartbeat."""

    def assign(self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> Targets:
        """Return each member's target assignment by member id; unchanged partition sets are the same objects as before.

        Where Kafka's result depends on a hash map, ids in the same hash bucket keep the order of ``members`` and of
        ``partition_counts``. ``iteration.in_group_order`` and ``iteration.in_name_order`` sort as Kafka does; a joining
        member comes last. Raises UsageError for a subscribed topic without a partition count.
        """
        return at_once(self.steps(members, partition_counts, Pace()))

    @abstractmethod
    def steps(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int], pace: Pace
    ) -> Steps[Targets]:
        """Compute the target assignments in steps: a group of 30,000 members takes half a second."""


class PreviousTargets:
    """Previous target assignments, without unsubscribed topics, deleted partitions and second owners.

    ``taken``: partitions that have an owner, by topic id.
    """

    def __init__(self, partition_counts: Mapping[bytes, int]) -> None:
        self.taken: dict[bytes, set[int]] = {}
        self.by_member: Targets = {}
        self._counts = partition_counts

    def read(self, ordered: Iterable[str], members: Mapping[str, MemberSpec], pace: Pace) -> Steps[None]:
        """Read the previous target assignments of the members, in the order of the member ids ``ordered``."""
        for member_id in ordered:
            kept = self.by_member[member_id] = self._of(members[member_id])
            if pace.is_due(MEMBER_US + TOPIC_US * len(kept)):
                yield

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
    """Raise UsageError if a subscribed topic has no partition count."""
    # Most members share one set of topics, whose hash is cached: check each distinct set once.
    for topics in dict.fromkeys(member.topics for member in members.values()):
        if not topics <= partition_counts.keys():
            missing = min(topics - partition_counts.keys()).hex()
            raise UsageError(f"a member subscribes to topic id {missing}, which has no partition count")
