"""Pure functions that bring a member's assignment closer to its target assignment, by one step at each heartbeat.

The rules: protocol/consumer-groups.md#reconciliation (Kafka's CurrentAssignmentBuilder).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
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
"""Target assignment of a member as a dict: topic id -> partition numbers. Topics without partitions are absent."""
AssignedPartitions = Mapping[bytes, Mapping[int, int]]
"""Assigned partitions as a dict: topic id -> partition number -> epoch in which the member got the partition.

Topics without partitions are absent.
"""

NO_PARTITIONS: Final[Mapping[bytes, Mapping[int, int]]] = MappingProxyType({})
NO_TARGET: Final[Target] = MappingProxyType({})
OwnedPartitions = Mapping[bytes, Collection[int]]
"""Partitions that a member reports as owned, as a dict: topic id -> partition numbers."""
IsFree = Callable[[bytes, int], bool]


class ReconciliationState(IntEnum):
    """State of a member's reconciliation. The enum value is its number in the current assignment record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class CurrentAssignment(NamedTuple):
    """Current assignment of a consumer group member. Immutable."""

    epoch: int = 0
    previous_epoch: int = 0
    state: ReconciliationState = ReconciliationState.STABLE
    assigned: AssignedPartitions = NO_PARTITIONS
    pending: AssignedPartitions = NO_PARTITIONS
    """Partitions that the member still owns and must revoke."""

    def partitions(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield topic id, partition number and epoch of each assigned partition and of each partition to be revoked."""
        for part in (self.assigned, self.pending):
            for topic_id, partitions in part.items():
                for partition, epoch in partitions.items():
                    yield topic_id, partition, epoch


NEW_MEMBER: Final = CurrentAssignment()


def current_of(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    """Parse the current assignment record (type 8) of a member.

    Records of Kafka before 4.3 have no epoch for each partition: the member epoch is used.
    """
    known = value.state in ReconciliationState._value2member_map_
    return CurrentAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        ReconciliationState(value.state) if known else ReconciliationState.STABLE,
        _partitions_of(value.assigned_partitions, value.member_epoch),
        _partitions_of(value.partitions_pending_revocation, value.member_epoch),
    )


def _partitions_of(topics: list[CurrentTopicPartitions], member_epoch: int) -> AssignedPartitions:
    held: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        if topic.partitions:
            held[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return held


def value_of(current: CurrentAssignment) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        assigned_partitions=_topics_of(current.assigned),
        partitions_pending_revocation=_topics_of(current.pending),
    )


def _topics_of(held: AssignedPartitions) -> list[CurrentTopicPartitions]:
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
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions if topic.partitions}


def target_value_of(target: Target) -> ConsumerGroupTargetAssignmentMemberValue:
    topics = [TargetTopicPartition(topic_id=topic_id, partitions=sorted(of)) for topic_id, of in target.items() if of]
    return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)


class ReconciliationTarget(NamedTuple):
    """Target assignment of a member, with its subscribed topics."""

    epoch: int
    target: Target
    topics: Collection[bytes]
    """Ids of the topics that the member subscribes to. Reconciliation ignores other topics in ``target``."""
    subscription_changed: bool = False
    subscribes_to_nothing: bool = False
    """True if the subscription contains no topic, not even a nonexistent one."""


def reconciled(
    current: CurrentAssignment, reconciliation: ReconciliationTarget, owned: OwnedPartitions | None, is_free: IsFree
) -> CurrentAssignment:
    """Return the member's assignment after a heartbeat. ``owned``: partitions that it reports as owned, or None.

    Returns ``current`` itself if nothing changes. Adds only unowned partitions, and partitions that this member itself
    still had to revoke.
    """
    if current.state is ReconciliationState.STABLE:
        advances = current.epoch != reconciliation.epoch
    else:
        advances = current.state is ReconciliationState.UNRELEASED_PARTITIONS or not _owns(owned, current.pending)
    if advances:
        return _next(current, reconciliation, owned, is_free)
    return _revoke_unsubscribed(current, reconciliation, owned) if reconciliation.subscription_changed else current


def _owns(owned: OwnedPartitions | None, held: AssignedPartitions) -> bool:
    if owned is None:
        return True
    return any(not held[topic].keys().isdisjoint(of) for topic, of in owned.items() if topic in held)


def _next(
    current: CurrentAssignment, reconciliation: ReconciliationTarget, owned: OwnedPartitions | None, is_free: IsFree
) -> CurrentAssignment:
    """Return the assignment one step closer to the target. The member epoch rises only after all revocations."""
    target = {topic: of for topic, of in reconciliation.target.items() if topic in reconciliation.topics}
    keep, revoke = _split(current.assigned, target)
    if revoke and _owns(owned, revoke):
        then = CurrentAssignment(current.epoch, current.epoch, ReconciliationState.UNREVOKED_PARTITIONS, keep, revoke)
        return _keep_if_equal(current, then)
    waits = False
    assigned = dict(keep)
    for topic, partitions in target.items():
        mine, own = keep.get(topic, {}), current.pending.get(topic, {})
        missing = [partition for partition in partitions if partition not in mine]
        free = [partition for partition in missing if partition in own or is_free(topic, partition)]
        waits |= len(free) < len(missing)
        if free:
            assigned[topic] = {**mine, **dict.fromkeys(sorted(free), reconciliation.epoch)}
    state = ReconciliationState.UNRELEASED_PARTITIONS if waits else ReconciliationState.STABLE
    return _keep_if_equal(current, CurrentAssignment(reconciliation.epoch, current.epoch, state, assigned))


def _split(assigned: AssignedPartitions, target: Target) -> tuple[AssignedPartitions, AssignedPartitions]:
    keep: dict[bytes, Mapping[int, int]] = {}
    revoke: dict[bytes, Mapping[int, int]] = {}
    for topic, partitions in assigned.items():
        target_partitions = target.get(topic, frozenset())
        if target_partitions.issuperset(partitions):
            keep[topic] = partitions
            continue
        kept = {p: epoch for p, epoch in partitions.items() if p in target_partitions}
        if kept:
            keep[topic] = kept
        revoke[topic] = {p: epoch for p, epoch in partitions.items() if p not in target_partitions}
    return keep, revoke


def _revoke_unsubscribed(
    current: CurrentAssignment, reconciliation: ReconciliationTarget, owned: OwnedPartitions | None
) -> CurrentAssignment:
    unsubscribed = {topic: of for topic, of in current.assigned.items() if topic not in reconciliation.topics}
    if not unsubscribed:
        # As in Kafka, the previous epoch becomes equal to the member epoch if the member subscribes to nothing.
        updates = reconciliation.subscribes_to_nothing and not current.pending
        return _keep_if_equal(current, current._replace(previous_epoch=current.epoch)) if updates else current
    assigned = {topic: of for topic, of in current.assigned.items() if topic in reconciliation.topics}
    pending = dict(current.pending)
    for topic, of in unsubscribed.items():
        pending[topic] = {**pending.get(topic, {}), **of}
    current = current._replace(previous_epoch=current.epoch, assigned=assigned or NO_PARTITIONS)
    if _owns(owned, pending):
        return current._replace(state=ReconciliationState.UNREVOKED_PARTITIONS, pending=pending)
    return current


def _keep_if_equal(current: CurrentAssignment, then: CurrentAssignment) -> CurrentAssignment:
    return current if then == current else then
