"""redundant: each partition goes to several members, so that work goes on without a pause when one of them is lost.

For members that do the same twice on purpose (hot standby, a second opinion). The group has one committed offset per
partition: let one of the members commit, or commit elsewhere.
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
from kohort.errors import ConfigError


def redundant(copies: int) -> Assignor:
    """Return each partition to ``copies`` members, or to all where there are fewer; named ``redundant-<copies>``."""
    if copies < 1:
        raise ConfigError(f"redundant({copies}): expected at least 1 copy")
    return Assignor(f"redundant-{copies}", lambda topics, members: _assign(topics, members, copies), no_user_data)


def _assign(topics: SubscribedTopics, members: Sequence[MemberSubscription], copies: int) -> Assignment:
    assignment: Assignment = {m.member_id: [] for m in members}
    ordered = in_order(members)
    for topic in known_topics(topics, members):
        readers = [m.member_id for m in ordered if topic in m.topics]
        for partition in topics.partitions(topic):
            # A stable sort by load: ties stay in the order of the members, and no member comes twice.
            for member_id in sorted(readers, key=lambda m: len(assignment[m]))[:copies]:
                assignment[member_id].append(partition)
    return assignment


REDUNDANT = Assignor("redundant", lambda topics, members: _assign(topics, members, 2), no_user_data)
"""Each partition to two members."""
