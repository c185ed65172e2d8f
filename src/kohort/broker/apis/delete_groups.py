"""DeleteGroups (42), versions 0-3: empty groups, with their offsets. KIP-229. The decision is in
``kohort.coordinator``."""

from __future__ import annotations

from kohort.broker.api import AnswerBound, BrokerApi, Cost, Noun, Parts, itself
from kohort.broker.authorization import GROUP_DENIED, Checking, Denials, Guarded, without
from kohort.broker.group_requests import group_request
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Steps
from kohort.wire.messages.group_admin import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def guard_delete_groups(checking: Checking) -> Steps[Guarded]:
    """DELETE on each group."""
    message: DeleteGroupsRequest = checking.request.message
    allowed, denied = yield from checking.authorized(
        Operation.DELETE, ResourceType.GROUP, message.groups_names, lambda group_id: group_id
    )
    refused = [DeletableGroupResult(group_id=group_id, error_code=GROUP_DENIED) for group_id in dict.fromkeys(denied)]
    return without(checking, allowed, Denials("groups_names", "results", refused), DeleteGroupsResponse)


DELETE_GROUPS = BrokerApi(
    DeleteGroupsRequest,
    group_request,
    guard_delete_groups,
    Cost(
        AnswerBound.REQUEST,
        {"groups_names": Noun.GROUP},
        once=("groups_names", itself),
        parts=Parts(("groups_names",), ("results",), 50, writes=True),
    ),
)
