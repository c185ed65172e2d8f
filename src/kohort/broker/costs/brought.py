"""Units of work that a name brings: members of a group, partitions of a transaction, producers of a partition."""

from __future__ import annotations

from typing import Any, Final

from kohort.broker.state import BrokerState

MEMBERS_IN_A_UNIT: Final = 4
OWNED_IN_A_UNIT: Final = 50
UNITS_OF_A_MODERN_MEMBER: Final = 2
PARTITIONS_IN_A_UNIT: Final = 25
PRODUCERS_IN_A_UNIT: Final = 8


def members_of_group(state: BrokerState, chain: tuple[Any, ...]) -> int:
    """Weigh the members of a classic group."""
    (group_id,) = chain
    groups = state.coordinator.groups_beside(group_id)
    group = None if groups is None else groups.by_id.get(group_id)
    return 0 if group is None else len(group.round.members) // MEMBERS_IN_A_UNIT


def members_of_consumer_group(state: BrokerState, chain: tuple[Any, ...]) -> int:
    """Weigh the members of a consumer group, and the partitions that they own."""
    (group_id,) = chain
    groups = state.coordinator.groups_beside(group_id)
    group = None if groups is None else groups.consumer.get(group_id)
    if group is None:
        return 0
    return UNITS_OF_A_MODERN_MEMBER * len(group.members) + len(group.owners) // OWNED_IN_A_UNIT


def offsets_of_group(state: BrokerState, chain: tuple[Any, ...]) -> int:
    """Weigh the offsets of a group that is asked for all of them."""
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
