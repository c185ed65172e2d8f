"""roundrobin assignor: partitions of all topics go to the members in turn (protocol/assignors.md#roundrobin)."""

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


def assign(topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
    """Return each member's partitions. A member that does not subscribe to a partition's topic is skipped."""
    assignment: Assignment = {m.member_id: [] for m in members}
    circle = in_order(members)
    at = 0
    for topic in known_topics(topics, members):
        for partition in topics.partitions(topic):
            while topic not in circle[at].topics:
                at = (at + 1) % len(circle)
            assignment[circle[at].member_id].append(partition)
            at = (at + 1) % len(circle)
    return assignment


ROUNDROBIN = Assignor("roundrobin", assign, no_user_data)
