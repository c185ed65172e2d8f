"""JoinGroup (11) 0-9, SyncGroup (14) 0-5, Heartbeat (12) 0-4, LeaveGroup (13) 0-5 of classic groups;
ConsumerGroupHeartbeat (68) 0-1 of consumer groups (KIP-848). As in Kafka, only Fetch checks READ on subscribed topics.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.api import ONE_NAME, AnswerBound, BrokerApi, Cost, NameKind, Parts
from kohort.broker.authorization import GROUP_DENIED, PASSED, TOPIC_DENIED, GuardResult, Rights
from kohort.broker.group_requests import group_refusal, group_request, guard_member
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Steps
from kohort.wire.messages import group_classic as wire
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest

FIRST_JOIN_WITHOUT_PROTOCOL: Final = 7
FIRST_SYNC_WITH_PROTOCOLS: Final = 5


def guard_join(rights: Rights) -> GuardResult:
    message: wire.JoinGroupRequest = rights.request.message
    if rights.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return PASSED
    name = None if rights.request.version >= FIRST_JOIN_WITHOUT_PROTOCOL else ""
    return GuardResult(wire.JoinGroupResponse(error_code=GROUP_DENIED, protocol_name=name))


def guard_sync(rights: Rights) -> GuardResult | Steps[GuardResult]:
    """Require READ on the group. A SyncGroup without protocol name needs no right: the handler rejects it."""
    message: wire.SyncGroupRequest = rights.request.message
    if rights.request.version >= FIRST_SYNC_WITH_PROTOCOLS and None in (message.protocol_type, message.protocol_name):
        return PASSED
    return guard_member(rights)


def guard_consumer_heartbeat(rights: Rights) -> Steps[GuardResult]:
    """Require READ on the group and DESCRIBE on each topic of the request; reject the whole request otherwise.

    The coordinator checks DESCRIBE on the topics that match a subscription's regular expression.
    """
    message: ConsumerGroupHeartbeatRequest = rights.request.message
    if not rights.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return GuardResult(group_refusal(rights, GROUP_DENIED))
    _, denied = yield from rights.authorized(
        Operation.DESCRIBE, ResourceType.TOPIC, message.subscribed_topic_names or []
    )
    return GuardResult(group_refusal(rights, TOPIC_DENIED)) if denied else PASSED


JOIN_GROUP = BrokerApi(
    wire.JoinGroupRequest,
    group_request,
    guard_join,
    Cost(
        AnswerBound.STATE,
        one_step="10,000 protocols and 16 MiB of metadata at most",
    ),
    names={"group_id": NameKind.GROUP, "protocols.metadata": NameKind.SUBSCRIPTION},
)
SYNC_GROUP = BrokerApi(
    wire.SyncGroupRequest,
    group_request,
    guard_sync,
    Cost(
        AnswerBound.STATE,
        one_step="100,000 assignments and 16 MiB of them at most; evidence is taken from 128 KiB at most",
    ),
    names={"group_id": NameKind.GROUP, "assignments.assignment": NameKind.ASSIGNMENT},
)
HEARTBEAT = BrokerApi(wire.HeartbeatRequest, group_request, guard_member, ONE_NAME, names={"group_id": NameKind.GROUP})
LEAVE_GROUP = BrokerApi(
    wire.LeaveGroupRequest,
    group_request,
    guard_member,
    Cost(AnswerBound.REQUEST, parts=Parts(("members",), ("members",), 200, writes=True)),
    names={"group_id": NameKind.GROUP},
)
CONSUMER_GROUP_HEARTBEAT = BrokerApi(
    ConsumerGroupHeartbeatRequest,
    group_request,
    guard_consumer_heartbeat,
    Cost(
        AnswerBound.STATE,
        one_step="names, expression and owned partitions are bounded by the coordinator",
    ),
    names={
        "group_id": NameKind.GROUP,
        "subscribed_topic_names": NameKind.TOPIC,
        "subscribed_topic_regex": NameKind.PATTERN,
        "topic_partitions.topic_id": NameKind.TOPIC_ID,
    },
)
