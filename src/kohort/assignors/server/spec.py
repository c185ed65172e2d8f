"""What a server-side assignor is given, and what it returns (KIP-848, protocol/assignors.md#server-side-assignors).

Unlike the assignors of clients these know topics by their ids, and begin from the previous target assignment: from
what members were meant to have, not from what they say they own. The list of them: ``SERVER_ASSIGNORS`` of ``builtin``.
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
"""Estimated cost of one member, one topic of a member, one partition, in one pass over them."""


class MemberSpec(NamedTuple):
    """One member of a group, as an assignor sees it.

    ``topics`` are the ids (16 bytes) of the existing topics that it subscribes to, by name or by pattern; ``owned`` is
    its previous target: partitions by topic id. Kafka's assignors look at no rack. ``names`` are those that it
    subscribes to by name, existing or not, and ``regex`` is its expression: where names or expressions differ, or a
    member has both, ``uniform`` deals as to members with different topics.
    """

    topics: frozenset[bytes]
    owned: Mapping[bytes, frozenset[int]] = {}
    rack_id: str | None = None
    instance_id: str | None = None
    names: Collection[str] = frozenset()
    regex: str = ""


Targets = dict[str, dict[bytes, frozenset[int]]]
"""Member id, topic id, partitions: every member has an entry, a topic only where the member has partitions of it."""


class ServerAssignor(ABC):
    """A server-side strategy by its name on the wire."""

    name: ClassVar[str]
    """The name in ``group.consumer.assignors`` and in the heartbeat's ServerAssignor."""

    def assign(self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> Targets:
        """Return the target of every member; a set that did not change is the one that was given.

        Where Kafka's result depends on a hash map, entries of one bucket keep the order of ``members`` (by id) and
        of ``partition_counts``. ``iteration.in_group_order`` and ``iteration.in_name_order`` sort as Kafka does; a
        joining member comes last.

        Raises UsageError if a member subscribes to a topic that ``partition_counts`` lacks.
        """
        return at_once(self.steps(members, partition_counts, Pace()))

    @abstractmethod
    def steps(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int], pace: Pace
    ) -> Steps[Targets]:
        """Do as ``assign``, in steps: a group of 30,000 members takes half a second."""


class PreviousTargets:
    """The previous targets without topics that a member no longer wants, partitions that do not exist, and second
    owners; ``taken`` holds the partitions that have an owner, by topic id."""

    def __init__(self, partition_counts: Mapping[bytes, int]) -> None:
        self.taken: dict[bytes, set[int]] = {}
        self.by_member: Targets = {}
        self._counts = partition_counts

    def read(self, ordered: Iterable[str], members: Mapping[str, MemberSpec], pace: Pace) -> Steps[None]:
        """Take the targets of the members over, in this order."""
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
    """Raise UsageError if a member subscribes to a topic without a partition count."""
    # Members mostly share one set, which remembers its hash: it is looked through once.
    for topics in dict.fromkeys(member.topics for member in members.values()):
        if not topics <= partition_counts.keys():
            missing = min(topics - partition_counts.keys()).hex()
            raise UsageError(f"a member subscribes to topic id {missing}, of which no partition count is given")
