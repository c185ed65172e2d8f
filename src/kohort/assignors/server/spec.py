"""Input and result of server-side assignors (KIP-848, protocol/assignors.md#server-side-assignors).

Unlike client-side assignors they use topic ids. They start from the previous target assignment, not from the members'
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
"""Estimated cost in microseconds to process one partition, or one topic of a member, in a loop."""
Targets = dict[str, dict[bytes, frozenset[int]]]
"""Target assignments as a dict: member id -> topic id -> partitions.

Every member has an entry. Topics without assigned partitions are omitted from it.
"""


class MemberSpec(NamedTuple):
    """Member of a consumer group, as input of a server-side assignor.

    - ``topics``: ids (16 bytes) of the existing topics to which the member subscribes by names or a pattern
    - ``owned``: previous target assignment as a dict: topic id -> partitions
    - ``rack_id``: ignored by Kafka's assignors
    - ``names``: subscribed topic names, including those of missing topics
    - ``regex``: subscription pattern. ``uniform`` regards subscriptions as different if names or patterns differ, or if
      a member has both names and a pattern
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
    """Name in ``group.consumer.assignors``, and in the ServerAssignor field of ConsumerGroupHeartbeat."""

    def assign(self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> Targets:
        """Return the target assignments. A set of partitions that does not change remains the same object.

        Kafka's result depends on the order of hash tables. To get the same result, sort ``members`` with
        ``iteration.in_group_order`` (a joining member comes last), and ``partition_counts`` with
        ``iteration.in_name_order``. Raises UsageError for a subscribed topic without a partition count.
        """
        return at_once(self.steps(members, partition_counts, Pace()))

    @abstractmethod
    def steps(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int], pace: Pace
    ) -> Steps[Targets]:
        """Compute the target assignments in steps. A group of 30,000 members takes half a second."""


class PreviousTargets:
    """Previous target assignments, without unsubscribed topics and nonexistent partitions.

    If a partition has several owners, only the first owner counts. ``taken`` is a dict: topic id -> partitions with an
    owner.
    """

    def __init__(self, partition_counts: Mapping[bytes, int]) -> None:
        self.taken: dict[bytes, set[int]] = {}
        self.by_member: Targets = {}
        self._counts = partition_counts

    def read(self, ordered: Iterable[str], members: Mapping[str, MemberSpec], pace: Pace) -> Steps[None]:
        """Read the previous target assignment of each member, in the order of the member ids in ``ordered``."""
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
    # Many members share one frozenset of topics: check only the distinct sets.
    for topics in dict.fromkeys(member.topics for member in members.values()):
        if not topics <= partition_counts.keys():
            missing = min(topics - partition_counts.keys()).hex()
            raise UsageError(f"a member subscribes to topic id {missing}, which has no partition count")
