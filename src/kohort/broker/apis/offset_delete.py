"""OffsetDelete (47), version 0: committed offsets of a group, by partition. KIP-496. The decision is in
``kohort.coordinator``."""

from __future__ import annotations

from kohort.broker.api import PARTITIONS, TOPICS, AnswerBound, BrokerApi, Cost, Noun, Parts
from kohort.broker.authorization import (
    GROUP_DENIED,
    TOPIC_DENIED,
    Checking,
    Denials,
    Guarded,
    refused_by_topic,
    without,
)
from kohort.broker.group_requests import group_refusal, group_request
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Steps
from kohort.wire.messages import offsets as wire


def guard_offset_delete(checking: Checking) -> Steps[Guarded]:
    """DELETE on the group, READ on each topic."""
    message: wire.OffsetDeleteRequest = checking.request.message
    if not checking.may(Operation.DELETE, ResourceType.GROUP, message.group_id):
        return Guarded(group_refusal(checking, GROUP_DENIED))
    allowed, denied = yield from checking.authorized(
        Operation.READ, ResourceType.TOPIC, message.topics, lambda topic: topic.name
    )
    refused = yield from refused_by_topic(
        denied,
        lambda topic: topic.partitions,
        lambda p: wire.OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=TOPIC_DENIED),
        lambda topic, made: wire.OffsetDeleteResponseTopic(name=topic.name, partitions=made),
    )
    return without(checking, allowed, Denials("topics", "topics", refused), wire.OffsetDeleteResponse)


OFFSET_DELETE = BrokerApi(
    wire.OffsetDeleteRequest,
    group_request,
    guard_offset_delete,
    Cost(
        AnswerBound.REQUEST, {"group_id": Noun.GROUP, **TOPICS}, parts=Parts(PARTITIONS, PARTITIONS, 300, writes=True)
    ),
)
