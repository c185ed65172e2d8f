"""rack-aware: a partition is read in a rack that holds a replica of it, wherever a member sits there.

Kafka's strategies look at racks only as far as the balance of partitions allows (KIP-881); here the rack goes first,
for those who pay for traffic between zones. Among the members in its racks a partition goes to the one that has least;
one without a member in its racks goes to the member that has least. Racks are those of the members (``client.rack``)
and, from the cluster's metadata, those of the replicas.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.assignors.spec import (
    Assignment,
    Assignor,
    MemberSubscription,
    SubscribedTopics,
    in_order,
    known_topics,
    no_user_data,
)
from kohort.model import TopicPartition


def assign(topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
    """Return the partitions of each member."""
    assignment: Assignment = {m.member_id: [] for m in members}
    ordered = in_order(members)
    readers = {t: [m for m in ordered if t in m.topics] for t in known_topics(topics, members)}
    near = {
        p: [m.member_id for m in of_topic if m.rack and m.rack in topics.racks_of(p)]
        for t, of_topic in readers.items()
        for p in topics.partitions(t)
    }
    # The fewer members are near, the less choice there is: those first, and what nobody is near to last.
    for partition in sorted(near, key=lambda p: len(near[p]) or len(ordered) + 1):
        candidates = near[partition] or [m.member_id for m in readers[partition.topic]]
        _give(partition, candidates, assignment)
    for partitions in assignment.values():
        partitions.sort()
    return assignment


def _give(partition: TopicPartition, candidates: Sequence[str], assignment: Assignment) -> None:
    assignment[min(candidates, key=lambda m: len(assignment[m]))].append(partition)


RACK_AWARE = Assignor("rack-aware", assign, no_user_data)
