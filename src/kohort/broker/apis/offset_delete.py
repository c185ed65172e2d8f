"""OffsetDelete (47), version 0: delete committed offsets of a group, by partition. KIP-496."""

from __future__ import annotations

from kohort.broker.api import PARTITIONS, AnswerBound, BrokerApi, Cost, Parts
from kohort.broker.authorization import (
    GROUP_DENIED,
    TOPIC_DENIED,
    Denials,
    GuardResult,
    Rights,
    refused_by_topic,
    serve_allowed,
)
from kohort.broker.group_requests import group_refusal, group_request
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Steps
from kohort.wire.messages import offsets as wire


def guard_offset_delete(rights: Rights) -> Steps[GuardResult]:
    message: wire.OffsetDeleteRequest = rights.request.message
    if not rights.may(Operation.DELETE, ResourceType.GROUP, message.group_id):
        return GuardResult(group_refusal(rights, GROUP_DENIED))
    allowed, denied = yield from rights.authorized(Operation.READ, ResourceType.TOPIC, message.topics)
    refused = yield from refused_by_topic(
        denied,
        lambda topic: topic.partitions,
        lambda p: wire.OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=TOPIC_DENIED),
        lambda topic, made: wire.OffsetDeleteResponseTopic(name=topic.name, partitions=made),
    )
    return serve_allowed(rights, allowed, Denials("topics", "topics", refused), wire.OffsetDeleteResponse)


OFFSET_DELETE = BrokerApi(
    wire.OffsetDeleteRequest,
    group_request,
    guard_offset_delete,
    Cost(
        AnswerBound.REQUEST,
        parts=Parts(PARTITIONS, PARTITIONS, 300, writes=True),
    ),
)
