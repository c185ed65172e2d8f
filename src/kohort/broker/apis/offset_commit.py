"""OffsetCommit (8), versions 2-10: offsets of a group, by topic id from version 10 on. The decision is in
``kohort.coordinator``."""

from __future__ import annotations

from typing import Final

from kohort.broker.api import PARTITIONS, TOPICS_OR_IDS, AnswerBound, BrokerApi, Cost, Noun, Parts
from kohort.broker.authorization import (
    GROUP_DENIED,
    TOPIC_DENIED,
    Checking,
    Denials,
    Guarded,
    refused_by_topic,
    without,
)
from kohort.broker.group_requests import group_request
from kohort.errors import ErrorCode
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Steps
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FIRST_VERSION_WITH_TOPIC_IDS: Final = 10


def guard_commit(checking: Checking) -> Steps[Guarded]:
    """READ on the group and on each topic."""
    message: OffsetCommitRequest = checking.request.message
    if not checking.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return Guarded(OffsetCommitResponse(topics=(yield from _not_committed(message.topics, GROUP_DENIED))))
    by_id = checking.request.version >= FIRST_VERSION_WITH_TOPIC_IDS
    allowed, denied = yield from checking.authorized(
        Operation.READ,
        ResourceType.TOPIC,
        message.topics,
        (lambda topic: checking.topic_name(topic.topic_id)) if by_id else (lambda topic: topic.name),
    )
    refused = yield from _not_committed(denied, TOPIC_DENIED)
    return without(checking, allowed, Denials("topics", "topics", refused), OffsetCommitResponse)


def _not_committed(topics: list[OffsetCommitRequestTopic], code: ErrorCode) -> Steps[list[OffsetCommitResponseTopic]]:
    return refused_by_topic(
        topics,
        lambda topic: topic.partitions,
        lambda p: OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code),
        lambda topic, made: OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=made),
    )


OFFSET_COMMIT = BrokerApi(
    OffsetCommitRequest,
    group_request,
    guard_commit,
    Cost(
        AnswerBound.REQUEST,
        {"group_id": Noun.GROUP, **TOPICS_OR_IDS},
        parts=Parts(PARTITIONS, PARTITIONS, 300, writes=True),
    ),
)
