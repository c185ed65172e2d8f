"""range: each topic is cut into runs of neighbouring partitions, one run per member; nothing is remembered.

The rules: protocol/assignors.md#server-side-assignors (Kafka's RangeAssignor of the coordinator).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.assignors.server.iteration import in_member_order
from kohort.assignors.server.previous_targets import check_topics
from kohort.assignors.server.spec import MemberSpec, Targets
from kohort.assignors.spec import java_order


class RangeAssignor:
    """Members with equal subscriptions have the same numbers of all topics with equally many partitions."""

    name: Final = "range"

    def assign(self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> Targets:
        """Return the target of every member: static ones go first, by instance id, then dynamic ones by member id."""
        check_topics(members, partition_counts)
        subscribers: dict[bytes, list[str]] = {}
        in_order: dict[frozenset[bytes], list[bytes]] = {}
        for member_id in _ordered(members):
            topics = members[member_id].topics
            if topics not in in_order:
                in_order[topics] = [topic for topic in partition_counts if topic in topics]
            for topic in in_order[topics]:
                subscribers.setdefault(topic, []).append(member_id)
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
        return targets


def _ordered(members: Mapping[str, MemberSpec]) -> list[str]:
    def rank(member_id: str) -> tuple[bool, bytes]:
        instance_id = members[member_id].instance_id
        return instance_id is None, java_order(member_id if instance_id is None else instance_id)

    return sorted(in_member_order(members), key=rank)


RANGE: Final = RangeAssignor()
