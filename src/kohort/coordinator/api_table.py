"""Every API of groups, in one table: what is checked, who decides, how it is refused.

To serve another one: a module with its ``decide_*`` and ``refuse_*``, and an entry here. The broker serves what stands
here (broker/group_requests.py), the coordinator asks nothing else (runtime.py).
"""

from __future__ import annotations

from typing import Final

from kohort.coordinator.classic.heartbeat import refuse_heartbeat
from kohort.coordinator.classic.join import check_join_request
from kohort.coordinator.classic.leave import refuse_leave
from kohort.coordinator.classic.round import refuse_join, refuse_sync
from kohort.coordinator.classic.sync import check_sync_request
from kohort.coordinator.consumer.heartbeat import explain_refusal, refuse_consumer_heartbeat
from kohort.coordinator.consumer.subscription import check_consumer_heartbeat
from kohort.coordinator.group_api import GroupApi, SeveralGroupsApi, check_group_id
from kohort.coordinator.memory_budget import added_by_join, added_by_sync
from kohort.coordinator.migration.classic_members import (
    decide_heartbeat_of_either,
    decide_join_of_either,
    decide_leave_of_either,
    decide_sync_of_either,
)
from kohort.coordinator.migration.upgrade import decide_heartbeat_or_upgrade
from kohort.coordinator.offsets.commit import (
    decide_commit,
    decide_commit_in_transaction,
    refuse_commit,
    withdraw_commit,
)
from kohort.coordinator.offsets.delete import decide_offset_delete, refuse_offset_delete
from kohort.coordinator.offsets.fetch import refuse_offset_fetch
from kohort.coordinator.outcome import Reply
from kohort.coordinator.several_groups import (
    answer_delete_groups,
    answer_describe_consumer_groups,
    answer_describe_groups,
    answer_list_groups,
    answer_offset_fetch,
    refuse_delete_groups,
    refuse_describe_consumer_groups,
    refuse_describe_groups,
    refuse_list_groups,
)
from kohort.errors import ErrorCode
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_classic import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kohort.wire.messages.transactions import TxnOffsetCommitRequest
from kohort.wire.schema import Message

GROUP_APIS: Final[dict[type[Message], GroupApi | SeveralGroupsApi]] = {
    JoinGroupRequest: GroupApi(decide_join_of_either, refuse_join, check=check_join_request, added_bytes=added_by_join),
    SyncGroupRequest: GroupApi(decide_sync_of_either, refuse_sync, check=check_sync_request, added_bytes=added_by_sync),
    HeartbeatRequest: GroupApi(decide_heartbeat_of_either, refuse_heartbeat, check=check_group_id),
    LeaveGroupRequest: GroupApi(decide_leave_of_either, refuse_leave, check=check_group_id),
    # A commit takes any group id, even an empty one.
    OffsetCommitRequest: GroupApi(decide_commit, refuse_commit, withdraw=withdraw_commit),
    TxnOffsetCommitRequest: GroupApi(
        decide_commit_in_transaction, refuse_commit, check=check_group_id, withdraw=withdraw_commit
    ),
    OffsetDeleteRequest: GroupApi(decide_offset_delete, refuse_offset_delete, check=check_group_id),
    ConsumerGroupHeartbeatRequest: GroupApi(
        decide_heartbeat_or_upgrade, refuse_consumer_heartbeat, check=check_consumer_heartbeat, explain=explain_refusal
    ),
    OffsetFetchRequest: SeveralGroupsApi(answer_offset_fetch, refuse_offset_fetch, read_only=True),
    DescribeGroupsRequest: SeveralGroupsApi(answer_describe_groups, refuse_describe_groups, read_only=True),
    ConsumerGroupDescribeRequest: SeveralGroupsApi(
        answer_describe_consumer_groups, refuse_describe_consumer_groups, read_only=True
    ),
    ListGroupsRequest: SeveralGroupsApi(answer_list_groups, refuse_list_groups, read_only=True),
    DeleteGroupsRequest: SeveralGroupsApi(answer_delete_groups, refuse_delete_groups),
}


def withdraw(reply: Reply, code: ErrorCode) -> Reply:
    """Return what becomes of ``reply`` when the records behind it could not be written."""
    api = GROUP_APIS[type(reply.asked.message)]
    if isinstance(api, GroupApi) and api.withdraw is not None:
        return api.withdraw(reply, code)
    return api.refuse(reply.asked, code)
