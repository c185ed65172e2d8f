"""ListGroups (16), versions 0-5, with filters by group state (KIP-518) and group type (KIP-848)."""

from __future__ import annotations

from kohort.broker.api import AnswerBound, BrokerApi, Cost
from kohort.broker.authorization import PASSED, GuardResult, Rights, filter_visible
from kohort.broker.group_requests import group_request
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Steps
from kohort.wire.messages.group_admin import ListGroupsRequest, ListGroupsResponse
from kohort.wire.schema import Message


def guard_list_groups(rights: Rights) -> GuardResult:
    if rights.may_on_cluster(Operation.DESCRIBE, quietly=True):
        return PASSED

    def amend(answer: ListGroupsResponse) -> Steps[Message]:
        answer.groups[:] = yield from filter_visible(
            answer.groups,
            lambda group: rights.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, quietly=True),
        )
        return answer

    return GuardResult(amend=amend)


LIST_GROUPS = BrokerApi(ListGroupsRequest, group_request, guard_list_groups, Cost(AnswerBound.STATE))
