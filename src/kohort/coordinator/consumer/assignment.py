"""Partitions by topic id, and a member's way to what it is to have.

The rules: protocol/consumer-groups.md#reconciliation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupTargetAssignmentMemberValue,
    CurrentTopicPartitions,
    TargetTopicPartition,
)

Target = Mapping[bytes, frozenset[int]]
"""What a member is to have: topic id to partitions. A topic without partitions is not in it."""
Held = Mapping[bytes, Mapping[int, int]]
"""What a member has: topic id to partition to the epoch since when. A topic without partitions is not in it."""

NOTHING: Final[Mapping[bytes, Mapping[int, int]]] = MappingProxyType({})
NO_TARGET: Final[Target] = MappingProxyType({})


class ReconciliationState(IntEnum):
    """What a member's reconciliation waits for; the value is the one on the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class Current(NamedTuple):
    """How far a member has come: never changed, replaced by the next one."""

    epoch: int = 0
    previous_epoch: int = 0
    state: ReconciliationState = ReconciliationState.STABLE
    assigned: Held = NOTHING
    pending: Held = NOTHING
    """Taken from the member, which has not yet said that it let go of them."""

    def held(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield topic id, partition and epoch of everything that nobody else may be given."""
        for part in (self.assigned, self.pending):
            for topic_id, partitions in part.items():
                for partition, epoch in partitions.items():
                    yield topic_id, partition, epoch


NEW_MEMBER: Final = Current()
"""Of a member that nothing was written of yet but what it said of itself."""


def current_of(value: ConsumerGroupCurrentMemberAssignmentValue) -> Current:
    """Return what a record of type 8 says. Without epochs (before 4.3) all was assigned at the member's epoch; a state
    that is not known counts as stable."""
    known = value.state in ReconciliationState._value2member_map_
    return Current(
        value.member_epoch,
        value.previous_member_epoch,
        ReconciliationState(value.state) if known else ReconciliationState.STABLE,
        _held(value.assigned_partitions, value.member_epoch),
        _held(value.partitions_pending_revocation, value.member_epoch),
    )


def _held(topics: list[CurrentTopicPartitions], member_epoch: int) -> Held:
    held: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        if topic.partitions:
            held[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return held


def value_of(current: Current) -> ConsumerGroupCurrentMemberAssignmentValue:
    """Return the value of a record of type 8."""
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        assigned_partitions=_topics_of(current.assigned),
        partitions_pending_revocation=_topics_of(current.pending),
    )


def _topics_of(held: Held) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[p] for p in sorted(partitions)],
        )
        for topic_id, partitions in held.items()
        if partitions
    ]


def target_of(value: ConsumerGroupTargetAssignmentMemberValue) -> Target:
    """Return what a record of type 7 says."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions if topic.partitions}


def target_value_of(target: Target) -> ConsumerGroupTargetAssignmentMemberValue:
    """Return the value of a record of type 7."""
    topics = [TargetTopicPartition(topic_id=topic_id, partitions=sorted(of)) for topic_id, of in target.items() if of]
    return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)
