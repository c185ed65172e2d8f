"""Server-side range assignor: each member gets a run of consecutive partitions of each topic.

The rules: protocol/assignors.md#server-side-assignors (RangeAssignor of Kafka's coordinator).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.assignors.server.iteration import member_order
from kohort.assignors.server.spec import (
    MEMBER_US,
    PARTITION_US,
    TOPIC_US,
    MemberSpec,
    ServerAssignor,
    Targets,
    check_topics,
)
from kohort.assignors.spec import java_order
from kohort.steps import Pace, Steps


class RangeAssignor(ServerAssignor):
    """Server-side range assignor. It ignores previous assignments.

    If all members have equal subscriptions, a member gets the same partition numbers of all topics with equal partition
    counts. Static members come first, sorted by instance id, then dynamic members, sorted by member id.
    """

    name = "range"

    def steps(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int], pace: Pace
    ) -> Steps[Targets]:
        check_topics(members, partition_counts)
        subscribers: dict[bytes, list[str]] = {}
        in_order: dict[frozenset[bytes], list[bytes]] = {}
        for member_id in (yield from _ordered(members, pace)):
            topics = members[member_id].topics
            if topics not in in_order:
                in_order[topics] = [topic for topic in partition_counts if topic in topics]
            for topic in in_order[topics]:
                subscribers.setdefault(topic, []).append(member_id)
            if pace.is_due(MEMBER_US + PARTITION_US * len(in_order[topics])):
                yield
        targets: Targets = {member_id: {} for member_id in members}
        for topic, of_topic in subscribers.items():
            base, extras = divmod(partition_counts[topic], len(of_topic))
            start = 0
            for i, member_id in enumerate(of_topic if base else of_topic[:extras]):
                stop = start + base + (i < extras)
                partitions = frozenset(range(start, stop))
                before = members[member_id].owned.get(topic)
                targets[member_id][topic] = before if before == partitions else partitions
                start = stop
                if pace.is_due(TOPIC_US + PARTITION_US * len(partitions)):
                    yield
        return targets


def _ordered(members: Mapping[str, MemberSpec], pace: Pace) -> Steps[list[str]]:
    ranks: dict[str, tuple[bool, bytes]] = {}
    for member_id in (yield from member_order(members, pace)):
        instance_id = members[member_id].instance_id
        ranks[member_id] = (instance_id is None, java_order(member_id if instance_id is None else instance_id))
        if pace.is_due(MEMBER_US):
            yield
    return sorted(ranks, key=ranks.__getitem__)


RANGE: Final = RangeAssignor()
