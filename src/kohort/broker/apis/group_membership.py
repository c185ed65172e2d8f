"""Membership of groups: JoinGroup (11) 0-9, SyncGroup (14) 0-5, Heartbeat (12) 0-4, LeaveGroup (13) 0-5 of classic
groups; ConsumerGroupHeartbeat (68) 0-1 of consumer groups (KIP-848). The decisions are in ``kohort.coordinator``.

The right to read the topics of a subscription is checked by Fetch, as in Kafka.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kohort.broker.api import ONE_NAME, AnswerBound, BrokerApi, Cost, Noun, Parts
from kohort.broker.authorization import GROUP_DENIED, PASSED, TOPIC_DENIED, Checking, Guarded
from kohort.broker.group_requests import group_refusal, group_request, guard_member
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Steps
from kohort.wire.messages import group_classic as wire
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest

FIRST_JOIN_WITHOUT_PROTOCOL: Final = 7
FIRST_SYNC_WITH_PROTOCOLS: Final = 5


def guard_join(checking: Checking) -> Guarded:
    """READ on the group. Who is refused is told no member id."""
    message: wire.JoinGroupRequest = checking.request.message
    if checking.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return PASSED
    name = None if checking.request.version >= FIRST_JOIN_WITHOUT_PROTOCOL else ""
    return Guarded(wire.JoinGroupResponse(error_code=GROUP_DENIED, protocol_name=name))


def guard_sync(checking: Checking) -> Guarded | Steps[Guarded]:
    """READ on the group; first of all a request must name its protocol."""
    message: wire.SyncGroupRequest = checking.request.message
    if checking.request.version >= FIRST_SYNC_WITH_PROTOCOLS and None in (message.protocol_type, message.protocol_name):
        return PASSED
    return guard_member(checking)


def guard_consumer_heartbeat(checking: Checking) -> Steps[Guarded]:
    """READ on the group, DESCRIBE on each topic that is named: one that is denied refuses the request as a whole. What
    an expression matches is looked at where it is resolved."""
    message: ConsumerGroupHeartbeatRequest = checking.request.message
    if not checking.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return Guarded(group_refusal(checking, GROUP_DENIED))
    _, denied = yield from checking.authorized(
        Operation.DESCRIBE, ResourceType.TOPIC, message.subscribed_topic_names or [], lambda name: name
    )
    return Guarded(group_refusal(checking, TOPIC_DENIED)) if denied else PASSED


JOIN_GROUP = BrokerApi(
    wire.JoinGroupRequest,
    group_request,
    guard_join,
    Cost(
        AnswerBound.HELD,
        {"group_id": Noun.GROUP, "protocols.metadata": Noun.SUBSCRIPTION},
        one_step="10,000 protocols and 16 MiB of metadata at most",
    ),
)
SYNC_GROUP = BrokerApi(
    wire.SyncGroupRequest,
    group_request,
    guard_sync,
    Cost(
        AnswerBound.HELD,
        {"group_id": Noun.GROUP, "assignments.assignment": Noun.ASSIGNMENT},
        one_step="100,000 assignments and 16 MiB of them at most; evidence is taken from 128 KiB at most",
    ),
)
HEARTBEAT = BrokerApi(
    wire.HeartbeatRequest, group_request, guard_member, replace(ONE_NAME, names={"group_id": Noun.GROUP})
)
LEAVE_GROUP = BrokerApi(
    wire.LeaveGroupRequest,
    group_request,
    guard_member,
    Cost(AnswerBound.REQUEST, {"group_id": Noun.GROUP}, parts=Parts(("members",), ("members",), 200, writes=True)),
)
CONSUMER_GROUP_HEARTBEAT = BrokerApi(
    ConsumerGroupHeartbeatRequest,
    group_request,
    guard_consumer_heartbeat,
    Cost(
        AnswerBound.HELD,
        {
            "group_id": Noun.GROUP,
            "subscribed_topic_names": Noun.TOPIC,
            "subscribed_topic_regex": Noun.EXPRESSION,
            "topic_partitions.topic_id": Noun.TOPIC_ID,
        },
        one_step="names, expression and owned partitions are bounded by the coordinator",
    ),
)
