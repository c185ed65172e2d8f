"""ConsumerGroupDescribe (69) v0-1 (protocol/consumer-groups.md#describing)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kohort.coordinator.consumer.assignment import Current
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.group_epoch import preferred_assignor
from kohort.coordinator.context import Context
from kohort.coordinator.outcome import TopicsView
from kohort.errors import ApiError
from kohort.steps import Pace, Steps
from kohort.wire.messages.group_consumer import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeTopicPartitions,
)

OF_CLASSIC_PROTOCOL: Final = 0
OF_CONSUMER_PROTOCOL: Final = 1
MEMBER_US: Final = 6
TOPIC_US: Final = 2
PARTITION_US: Final = 0.1


def describe_consumer_group(
    group: ModernGroup, ctx: Context, operations: int, pace: Pace
) -> Steps[ConsumerGroupDescribeGroup]:
    """Describe a group as it is now. ``operations``: bits of the operations that are allowed."""
    described = ConsumerGroupDescribeGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group, ctx),
        authorized_operations=operations,
    )
    taken = [  # one snapshot: the group may change between steps
        (m.member_id, m.said, m.current, group.target(m.member_id)) for m in group.members.values()
    ]
    for member_id, said, current, target in taken:
        had = yield from _assignment(_had(current), ctx.topics, pace)
        is_to_have = yield from _assignment(target.items(), ctx.topics, pace)
        described.members.append(
            ConsumerGroupDescribeMember(
                member_id=member_id,
                instance_id=said.instance_id,
                rack_id=said.rack_id,
                member_epoch=current.epoch,
                client_id=said.client_id,
                client_host=said.client_host,
                subscribed_topic_names=said.subscribed_topic_names,
                subscribed_topic_regex=said.subscribed_topic_regex or "",
                assignment=had,
                target_assignment=is_to_have,
                member_type=OF_CONSUMER_PROTOCOL if said.classic_member_metadata is None else OF_CLASSIC_PROTOCOL,
            )
        )
        if pace.is_due(MEMBER_US):
            yield
    return described


def refused_consumer_group(group_id: str, error: ApiError) -> ConsumerGroupDescribeGroup:
    return ConsumerGroupDescribeGroup(error_code=error.code, error_message=error.message or None, group_id=group_id)


def _had(current: Current) -> Iterator[tuple[bytes, list[int]]]:
    """Yield the partitions of a member by topic: assigned, and pending revocation."""
    for topic_id, assigned in current.assigned.items():
        yield topic_id, [*assigned, *current.pending.get(topic_id, ())]
    for topic_id, pending in current.pending.items():
        if topic_id not in current.assigned:
            yield topic_id, list(pending)


def _assignment(
    partitions: Iterable[tuple[bytes, Iterable[int]]], topics: TopicsView, pace: Pace
) -> Steps[ConsumerGroupDescribeAssignment]:
    """Return partitions with the names of their topics; deleted topics are left out."""
    named = []
    for topic_id, of in partitions:
        name = topics.topic_name(topic_id)
        if name is not None:
            numbers = sorted(of)
            named.append(ConsumerGroupDescribeTopicPartitions(topic_id=topic_id, topic_name=name, partitions=numbers))
            if pace.is_due(TOPIC_US + PARTITION_US * len(numbers)):
                yield
    return ConsumerGroupDescribeAssignment(topic_partitions=named)
