"""The APIs of consumer groups (KIP-848), whose assignments name topics: these are told to nobody who may not know."""

from __future__ import annotations

from typing import Final

from kohort.broker.guards.groups import DENIED, LOOK_US, OPERATIONS_US, TOPIC_DENIED
from kohort.broker.guards.guard import Checking, Guarded
from kohort.security.acls import NOT_ASKED, Operation, ResourceType
from kohort.steps import Pace, Steps, each
from kohort.wire.messages.group_consumer import (
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kohort.wire.schema import Message

TOPICS_DENIED: Final = "The group has described topic(s) that the client is not authorized to describe."


def guard_describe_consumer_groups(checking: Checking) -> Steps[Guarded]:
    """DESCRIBE on each group, and on each topic that its members have or are to have; what may be done to a group is
    told as it is asked for (KIP-430)."""
    message: ConsumerGroupDescribeRequest = checking.request.message
    allowed, denied = yield from checking.sifted(
        Operation.DESCRIBE, ResourceType.GROUP, message.group_ids, lambda group_id: group_id
    )
    refused = yield from each(
        denied, lambda group_id: ConsumerGroupDescribeGroup(error_code=DENIED, group_id=group_id), LOOK_US
    )
    if not allowed:
        return Guarded(ConsumerGroupDescribeResponse(groups=refused))
    checking.keep(group_ids=allowed)

    def amend(answer: ConsumerGroupDescribeResponse) -> Steps[Message]:
        pace = Pace()
        told = list(refused)
        known: dict[str, bool] = {}
        for group in answer.groups:
            told.append((yield from _shown(checking, group, known)))
            if pace.is_due(OPERATIONS_US):
                yield
        return ConsumerGroupDescribeResponse(groups=told)

    return Guarded(amend=amend)


def _shown(
    checking: Checking, group: ConsumerGroupDescribeGroup, known: dict[str, bool]
) -> Steps[ConsumerGroupDescribeGroup]:
    """Return what is told of a group: all, or nothing where it has a topic that the caller may not describe."""
    pace = Pace()
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                name = topic.topic_name
                if name not in known:
                    known[name] = checking.may(Operation.DESCRIBE, ResourceType.TOPIC, name, quietly=True)
                if not known[name]:
                    return ConsumerGroupDescribeGroup(
                        error_code=TOPIC_DENIED, error_message=TOPICS_DENIED, group_id=group.group_id
                    )
            if pace.is_due(LOOK_US):
                yield
    if group.authorized_operations != NOT_ASKED:
        operations = checking.operations_of(ResourceType.GROUP, group.group_id)
        setattr(group, "authorized_operations", operations)  # noqa: B010 - frozen for the type checker alone
    return group
