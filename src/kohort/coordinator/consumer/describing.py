"""ConsumerGroupDescribe (69) v0-1 (protocol/consumer-groups.md#describing)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.coordinator.consumer.assignment import Current, Target
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.group_epoch import preferred_assignor
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.context import Context
from kohort.coordinator.outcome import TopicsView
from kohort.errors import ApiError
from kohort.wire.messages.group_consumer import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeTopicPartitions,
)

OF_CLASSIC_PROTOCOL: Final = 0
OF_CONSUMER_PROTOCOL: Final = 1


def describe_consumer_group(group: ModernGroup, ctx: Context, operations: int) -> ConsumerGroupDescribeGroup:
    """Describe a group; ``operations`` is what may be done to it, for whoever may do everything."""
    return ConsumerGroupDescribeGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group, ctx),
        members=[_member(member, group.target(member.member_id), ctx.topics) for member in group.members.values()],
        authorized_operations=operations,
    )


def refused_consumer_group(group_id: str, error: ApiError) -> ConsumerGroupDescribeGroup:
    return ConsumerGroupDescribeGroup(error_code=error.code, error_message=error.message or None, group_id=group_id)


def _member(member: ConsumerMember, target: Target, topics: TopicsView) -> ConsumerGroupDescribeMember:
    said = member.said
    return ConsumerGroupDescribeMember(
        member_id=member.member_id,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        member_epoch=member.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=said.subscribed_topic_names,
        subscribed_topic_regex=said.subscribed_topic_regex or "",
        assignment=_assignment(_had(member.current), topics),
        target_assignment=_assignment(target.items(), topics),
        member_type=OF_CLASSIC_PROTOCOL if member.speaks_classic else OF_CONSUMER_PROTOCOL,
    )


def _had(current: Current) -> Iterable[tuple[bytes, Iterable[int]]]:
    """Return what a member has, with what it is yet to let go of."""
    partitions: dict[bytes, list[int]] = {}
    for topic_id, partition, _ in current.held():
        partitions.setdefault(topic_id, []).append(partition)
    return partitions.items()


def _assignment(
    partitions: Iterable[tuple[bytes, Iterable[int]]], topics: TopicsView
) -> ConsumerGroupDescribeAssignment:
    """Return partitions with the names of their topics; topics that are gone are not in it."""
    named = [
        ConsumerGroupDescribeTopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(of))
        for topic_id, of in partitions
        if (name := topics.topic_name(topic_id)) is not None
    ]
    return ConsumerGroupDescribeAssignment(topic_partitions=named)
