"""DescribeGroups (15), versions 0-6, and ConsumerGroupDescribe (69), versions 0-1. KIP-430, KIP-848."""

from __future__ import annotations

from typing import Any, Final

from kohort.broker.api import TOO_LARGE, AnswerBound, BrokerApi, Cost, NameKind, Parts, identity
from kohort.broker.authorization import GROUP_DENIED, TOPIC_DENIED, Denials, GuardResult, Rights, serve_allowed
from kohort.broker.group_requests import group_request
from kohort.broker.request import Request
from kohort.broker.state import BrokerState
from kohort.coordinator.several_groups import FIRST_WITH_GROUP_ID_NOT_FOUND
from kohort.security.acls import NOT_REQUESTED, Operation, ResourceType
from kohort.steps import Pace, Steps, each
from kohort.wire.messages import group_consumer as wire
from kohort.wire.messages.group_admin import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.schema import Message

ITEM_US: Final = 1.5
OPERATIONS_US: Final = 10
TOPICS_DENIED: Final = "The group has described topic(s) that the client is not authorized to describe."
MEMBERS_IN_A_UNIT: Final = 4
BYTES_IN_A_UNIT: Final = 4_096
WEIGHED_MEMBERS: Final = 2_500
"""Maximum members of a group whose metadata sizes count as work; a larger group is always a request part of its own."""
OWNED_IN_A_UNIT: Final = 50
UNITS_OF_A_CONSUMER_MEMBER: Final = 2


def guard_describe_groups(rights: Rights) -> Steps[GuardResult]:
    """Require DESCRIBE on each group; add the authorized operations to the response if requested (KIP-430)."""
    message: DescribeGroupsRequest = rights.request.message
    allowed, denied = yield from rights.authorized(Operation.DESCRIBE, ResourceType.GROUP, message.groups)
    refused = yield from each(
        denied, lambda group_id: DescribedGroup(error_code=GROUP_DENIED, group_id=group_id), ITEM_US
    )
    if not message.include_authorized_operations:
        return serve_allowed(rights, allowed, Denials("groups", "groups", refused), DescribeGroupsResponse)
    if not allowed:
        return GuardResult(DescribeGroupsResponse(groups=refused))
    rights.replace_fields(groups=allowed)

    def amend(answer: DescribeGroupsResponse) -> Steps[Message]:
        pace = Pace()
        for group in answer.groups:
            if group.authorized_operations != NOT_REQUESTED:
                operations = rights.operations_of(ResourceType.GROUP, group.group_id)
                setattr(group, "authorized_operations", operations)  # noqa: B010 - frozen for the type checker alone
            if pace.is_due(OPERATIONS_US):
                yield
        answer.groups.extend(refused)
        return answer

    return GuardResult(amend=amend)


def guard_describe_consumer_groups(rights: Rights) -> Steps[GuardResult]:
    """Require DESCRIBE on each group and on each topic that is assigned to members of the group.

    If the client requests the authorized operations, they are added to the response (KIP-430).
    """
    message: wire.ConsumerGroupDescribeRequest = rights.request.message
    allowed, denied = yield from rights.authorized(Operation.DESCRIBE, ResourceType.GROUP, message.group_ids)
    refused = yield from each(
        denied, lambda group_id: wire.ConsumerGroupDescribeGroup(error_code=GROUP_DENIED, group_id=group_id), ITEM_US
    )
    if not allowed:
        return GuardResult(wire.ConsumerGroupDescribeResponse(groups=refused))
    rights.replace_fields(group_ids=allowed)

    def amend(answer: wire.ConsumerGroupDescribeResponse) -> Steps[Message]:
        pace = Pace()
        told = list(refused)
        known: dict[str, bool] = {}
        for group in answer.groups:
            told.append((yield from _shown(rights, group, known)))
            if pace.is_due(OPERATIONS_US):
                yield
        return wire.ConsumerGroupDescribeResponse(groups=told)

    return GuardResult(amend=amend)


def _shown(
    rights: Rights, group: wire.ConsumerGroupDescribeGroup, known: dict[str, bool]
) -> Steps[wire.ConsumerGroupDescribeGroup]:
    pace = Pace()
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                name = topic.topic_name
                if name not in known:
                    known[name] = rights.may(Operation.DESCRIBE, ResourceType.TOPIC, name, quietly=True)
                if not known[name]:
                    return wire.ConsumerGroupDescribeGroup(
                        error_code=TOPIC_DENIED, error_message=TOPICS_DENIED, group_id=group.group_id
                    )
            if pace.is_due(ITEM_US):
                yield
    if group.authorized_operations != NOT_REQUESTED:
        operations = rights.operations_of(ResourceType.GROUP, group.group_id)
        setattr(group, "authorized_operations", operations)  # noqa: B010 - frozen for the type checker alone
    return group


def refuse_groups(request: Request, message: str) -> DescribeGroupsResponse:
    original: DescribeGroupsRequest = request.message
    told = message if request.version >= FIRST_WITH_GROUP_ID_NOT_FOUND else None
    return DescribeGroupsResponse(
        groups=[DescribedGroup(error_code=TOO_LARGE, error_message=told, group_id=name) for name in original.groups]
    )


def refuse_consumer_groups(request: Request, message: str) -> wire.ConsumerGroupDescribeResponse:
    original: wire.ConsumerGroupDescribeRequest = request.message
    return wire.ConsumerGroupDescribeResponse(
        groups=[
            wire.ConsumerGroupDescribeGroup(error_code=TOO_LARGE, error_message=message, group_id=name)
            for name in original.group_ids
        ]
    )


def members_of_group(state: BrokerState, chain: tuple[Any, ...]) -> int:
    (group_id,) = chain
    groups = state.coordinator.groups_in_partition_of(group_id)
    group = None if groups is None else groups.by_id.get(group_id)
    if group is None:
        return 0
    members = group.round.members
    if len(members) > WEIGHED_MEMBERS:
        return len(members) // MEMBERS_IN_A_UNIT
    size = sum(len(m.assignment) + sum(len(metadata) for _, metadata in m.protocols) for m in members.values())
    return len(members) // MEMBERS_IN_A_UNIT + size // BYTES_IN_A_UNIT


def members_of_consumer_group(state: BrokerState, chain: tuple[Any, ...]) -> int:
    (group_id,) = chain
    groups = state.coordinator.groups_in_partition_of(group_id)
    group = None if groups is None else groups.consumer.get(group_id)
    if group is None:
        return 0
    units = UNITS_OF_A_CONSUMER_MEMBER * len(group.members) + len(group.owners) // OWNED_IN_A_UNIT
    if len(group.members) > WEIGHED_MEMBERS:
        return units
    names = sum(len(member.metadata.subscribed_topic_names) for member in group.members.values())
    return units + names // OWNED_IN_A_UNIT


DESCRIBE_GROUPS = BrokerApi(
    DescribeGroupsRequest,
    group_request,
    guard_describe_groups,
    Cost(
        AnswerBound.UNREAD,
        once=("groups", identity),
        parts=Parts(("groups",), ("groups",), 500, extra_units=members_of_group, refuse=refuse_groups),
    ),
    names={"groups": NameKind.GROUP},
)
CONSUMER_GROUP_DESCRIBE = BrokerApi(
    wire.ConsumerGroupDescribeRequest,
    group_request,
    guard_describe_consumer_groups,
    Cost(
        AnswerBound.UNREAD,
        once=("group_ids", identity),
        parts=Parts(
            ("group_ids",), ("groups",), 500, extra_units=members_of_consumer_group, refuse=refuse_consumer_groups
        ),
    ),
    names={"group_ids": NameKind.GROUP},
)
