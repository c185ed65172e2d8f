"""OffsetCommit (8), versions 2-10. Requests contain topic names, from version 10 on topic ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kohort.broker import authorization as auth
from kohort.broker.api import PARTITIONS, AnswerBound, BrokerApi, Cost, NameKind, Parts
from kohort.broker.group_requests import group_request
from kohort.errors import ErrorCode
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Steps
from kohort.wire.messages import offsets as wire
from kohort.wire.schema import Message

FIRST_VERSION_WITH_TOPIC_IDS: Final = 10
Refuse = Callable[[list[Any], ErrorCode], Steps[list[Any]]]
"""``refuse(topics, code)``: build response entries with the error code for each partition of the topics."""


def guard_commit(rights: auth.Rights) -> Steps[auth.GuardResult]:
    message: wire.OffsetCommitRequest = rights.request.message
    if not rights.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return auth.GuardResult(
            wire.OffsetCommitResponse(topics=(yield from _not_committed(message.topics, auth.GROUP_DENIED)))
        )
    by_id = rights.request.version >= FIRST_VERSION_WITH_TOPIC_IDS
    return (yield from guard_committed_topics(rights, _not_committed, wire.OffsetCommitResponse, by_id=by_id))


def guard_committed_topics(
    rights: auth.Rights, not_committed: Refuse, response: type[Message], *, by_id: bool
) -> Steps[auth.GuardResult]:
    allowed, denied = yield from rights.authorized(
        Operation.READ, ResourceType.TOPIC, rights.request.message.topics, by_id=by_id
    )
    refused = yield from not_committed(denied, auth.TOPIC_DENIED)
    return auth.serve_allowed(rights, allowed, auth.Denials("topics", "topics", refused), response)


def _not_committed(
    topics: list[wire.OffsetCommitRequestTopic], code: ErrorCode
) -> Steps[list[wire.OffsetCommitResponseTopic]]:
    return auth.refused_by_topic(
        topics,
        lambda topic: topic.partitions,
        lambda p: wire.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code),
        lambda topic, made: wire.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=made),
    )


OFFSET_COMMIT = BrokerApi(
    wire.OffsetCommitRequest,
    group_request,
    guard_commit,
    Cost(
        AnswerBound.REQUEST,
        parts=Parts(PARTITIONS, PARTITIONS, 300, writes=True),
    ),
    names={"group_id": NameKind.GROUP, "topics.name": NameKind.TOPIC, "topics.topic_id": NameKind.TOPIC_ID},
)
