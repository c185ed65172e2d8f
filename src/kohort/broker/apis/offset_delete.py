"""OffsetDelete (47), version 0: delete a group's committed offsets of the listed partitions. KIP-496."""

from __future__ import annotations

from kohort.broker import authorization as auth
from kohort.broker.api import PARTITIONS, AnswerBound, BrokerApi, Cost, NameKind, Parts
from kohort.broker.group_requests import group_refusal, group_request
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Steps
from kohort.wire.messages import offsets as wire

guard_topics = auth.TopicsRule(
    Operation.READ,
    wire.OffsetDeleteResponse,
    lambda p: wire.OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=auth.TOPIC_DENIED),
    lambda topic, made: wire.OffsetDeleteResponseTopic(name=topic.name, partitions=made),
)


def guard_offset_delete(rights: auth.Rights) -> auth.GuardResult | Steps[auth.GuardResult]:
    if not rights.may(Operation.DELETE, ResourceType.GROUP, rights.request.message.group_id):
        return auth.GuardResult(group_refusal(rights, auth.GROUP_DENIED))
    return guard_topics(rights)


OFFSET_DELETE = BrokerApi(
    wire.OffsetDeleteRequest,
    group_request,
    guard_offset_delete,
    Cost(
        AnswerBound.REQUEST,
        parts=Parts(PARTITIONS, PARTITIONS, 300, writes=True),
    ),
    names={"group_id": NameKind.GROUP, "topics.name": NameKind.TOPIC},
)
