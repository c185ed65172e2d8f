"""Units of work that a name brings: members of a group, partitions of a transaction, producers of a partition."""

from __future__ import annotations

from typing import Any, Final

from kohort.broker.state import BrokerState

MEMBERS_IN_A_UNIT: Final = 4
BYTES_IN_A_UNIT: Final = 4_096
WEIGHED_MEMBERS: Final = 2_500
"""A larger group is a part of its own, so that the bytes of its members need no count."""
OWNED_IN_A_UNIT: Final = 50
UNITS_OF_A_MODERN_MEMBER: Final = 2
PARTITIONS_IN_A_UNIT: Final = 25
PRODUCERS_IN_A_UNIT: Final = 8


def members_of_group(state: BrokerState, chain: tuple[Any, ...]) -> int:
    """Weigh the members of a classic group, and their metadata and assignments."""
    (group_id,) = chain
    groups = state.coordinator.groups_beside(group_id)
    group = None if groups is None else groups.by_id.get(group_id)
    if group is None:
        return 0
    members = group.round.members
    if len(members) > WEIGHED_MEMBERS:
        return len(members) // MEMBERS_IN_A_UNIT
    size = sum(len(m.assignment) + sum(len(metadata) for _, metadata in m.protocols) for m in members.values())
    return len(members) // MEMBERS_IN_A_UNIT + size // BYTES_IN_A_UNIT


def members_of_consumer_group(state: BrokerState, chain: tuple[Any, ...]) -> int:
    """Weigh the members of a consumer group, the partitions that they own, and the names that they subscribe to."""
    (group_id,) = chain
    groups = state.coordinator.groups_beside(group_id)
    group = None if groups is None else groups.consumer.get(group_id)
    if group is None:
        return 0
    units = UNITS_OF_A_MODERN_MEMBER * len(group.members) + len(group.owners) // OWNED_IN_A_UNIT
    if len(group.members) > WEIGHED_MEMBERS:
        return units
    names = sum(len(member.said.subscribed_topic_names) for member in group.members.values())
    return units + names // OWNED_IN_A_UNIT


def offsets_of_group(state: BrokerState, chain: tuple[Any, ...]) -> int:
    """Weigh the offsets of a group in a request for all of its offsets."""
    if len(chain) > 1 or chain[0].topics is not None:
        return 0
    offsets = state.coordinator.committed(chain[0].group_id)
    return 0 if offsets is None else len(offsets)


def partitions_of_transaction(state: BrokerState, chain: tuple[Any, ...]) -> int:
    """Weigh the partitions of a transaction."""
    known = state.cluster.transactions.get(chain[0])
    return 0 if known is None else len(known.partitions) // PARTITIONS_IN_A_UNIT


def producers_of_partition(state: BrokerState, chain: tuple[Any, ...]) -> int:
    """Weigh the producers of a partition."""
    if len(chain) < 2:
        return 0
    topic, partition = chain
    log = state.topics.log(topic.name, partition)
    return 0 if log is None else len(log.producers) // PRODUCERS_IN_A_UNIT
