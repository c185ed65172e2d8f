"""DeleteGroups (42), versions 0-3: delete empty groups and their offsets. KIP-229."""

from __future__ import annotations

from kohort.broker.api import AnswerBound, BrokerApi, Cost, NameKind, Parts, identity
from kohort.broker.authorization import GROUP_DENIED, Denials, GuardResult, Rights, serve_allowed
from kohort.broker.group_requests import group_request
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Steps
from kohort.wire.messages.group_admin import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def guard_delete_groups(rights: Rights) -> Steps[GuardResult]:
    message: DeleteGroupsRequest = rights.request.message
    allowed, denied = yield from rights.authorized(Operation.DELETE, ResourceType.GROUP, message.groups_names)
    refused = [DeletableGroupResult(group_id=group_id, error_code=GROUP_DENIED) for group_id in dict.fromkeys(denied)]
    return serve_allowed(rights, allowed, Denials("groups_names", "results", refused), DeleteGroupsResponse)


DELETE_GROUPS = BrokerApi(
    DeleteGroupsRequest,
    group_request,
    guard_delete_groups,
    Cost(
        AnswerBound.REQUEST,
        once=("groups_names", identity),
        parts=Parts(("groups_names",), ("results",), 50, writes=True),
    ),
    names={"groups_names": NameKind.GROUP},
)
