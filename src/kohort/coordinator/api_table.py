"""Table of the group APIs. Each entry has functions that check, answer and refuse a request of one type.

To serve another API, write a module with its ``decide_*`` and ``refuse_*`` functions, and add an entry to this table.
A request about several groups may read all partitions of ``__consumer_offsets``, but changes one group at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kohort.config import BrokerConfig
from kohort.coordinator import several_groups
from kohort.coordinator.classic.heartbeat import refuse_heartbeat
from kohort.coordinator.classic.join import check_join_request
from kohort.coordinator.classic.leave import refuse_leave
from kohort.coordinator.classic.round import refuse_join, refuse_sync
from kohort.coordinator.classic.sync import check_sync_request
from kohort.coordinator.consumer.heartbeat import explain_refusal, refuse_consumer_heartbeat
from kohort.coordinator.consumer.subscription import check_consumer_heartbeat
from kohort.coordinator.context import Context
from kohort.coordinator.memory_budget import NOTHING, Added, added_by_join, added_by_sync
from kohort.coordinator.migration import classic_members
from kohort.coordinator.migration.upgrade import decide_heartbeat_or_upgrade
from kohort.coordinator.offsets import commit
from kohort.coordinator.offsets.delete import decide_offset_delete, refuse_offset_delete
from kohort.coordinator.offsets.fetch import refuse_offset_fetch
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import GroupRequest, Outcome, Reply
from kohort.coordinator.shard import Shards
from kohort.errors import ApiError, ErrorCode
from kohort.steps import Steps
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_classic import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kohort.wire.messages.transactions import TxnOffsetCommitRequest
from kohort.wire.schema import Message

Check = Callable[[GroupRequest, BrokerConfig], None]
Decide = Callable[[Groups, GroupRequest, Context], Outcome]
Answer = Callable[[Shards, GroupRequest, Context], Steps[Reply]]
Refuse = Callable[[GroupRequest, ErrorCode], Reply]
Explain = Callable[[Reply, str], Reply]
Withdraw = Callable[[Reply, ErrorCode], Reply]
AddedBytes = Callable[[GroupRequest, Groups], Added]


def check_group_id(request: GroupRequest, _config: BrokerConfig) -> None:
    if not request.message.group_id:  # type: ignore[attr-defined]  # every request of one group has it
        raise ApiError(ErrorCode.INVALID_GROUP_ID)


@dataclass(frozen=True, slots=True)
class GroupApi:
    """Table entry of a request type that names one group: functions that check, answer and refuse the request.

    The request names the group in ``message.group_id``.
    """

    decide: Decide
    refuse: Refuse
    check: Check = lambda _request, _config: None
    """Function that rejects an invalid request before the coordinator looks up the group. Raises ApiError."""
    withdraw: Withdraw | None = None
    """Function that builds the response after a failed append of the records; None: ``refuse`` builds it."""
    added_bytes: AddedBytes = lambda _request, _groups: NOTHING
    """Function that returns the maximum bytes that a request adds to the memory of the groups."""
    read_only: bool = False
    """True if the coordinator also answers this request type before ``__consumer_offsets`` exists."""
    explain: Explain | None = None
    """Function that adds the error message to an error response; None: the response has no field for a message."""

    def refused(self, request: GroupRequest, error: ApiError) -> Reply:
        reply = self.refuse(request, error.code)
        return reply if self.explain is None or not error.message else self.explain(reply, error.message)


@dataclass(frozen=True, slots=True)
class SeveralGroupsApi:
    """Table entry of a request type that names any number of groups. The response is computed in steps (ADR 11)."""

    answer: Answer
    refuse: Refuse
    read_only: bool = False


GROUP_APIS: Final[dict[type[Message], GroupApi | SeveralGroupsApi]] = {
    JoinGroupRequest: GroupApi(
        classic_members.decide_join_in_any_group, refuse_join, check=check_join_request, added_bytes=added_by_join
    ),
    SyncGroupRequest: GroupApi(
        classic_members.decide_sync_in_any_group, refuse_sync, check=check_sync_request, added_bytes=added_by_sync
    ),
    HeartbeatRequest: GroupApi(classic_members.decide_heartbeat_in_any_group, refuse_heartbeat, check=check_group_id),
    LeaveGroupRequest: GroupApi(classic_members.decide_leave_in_any_group, refuse_leave, check=check_group_id),
    # OffsetCommit accepts an empty group id.
    OffsetCommitRequest: GroupApi(commit.decide_commit, commit.refuse_commit, withdraw=commit.withdraw_commit),
    TxnOffsetCommitRequest: GroupApi(
        commit.decide_commit_in_transaction, commit.refuse_commit, check=check_group_id, withdraw=commit.withdraw_commit
    ),
    OffsetDeleteRequest: GroupApi(decide_offset_delete, refuse_offset_delete, check=check_group_id),
    ConsumerGroupHeartbeatRequest: GroupApi(
        decide_heartbeat_or_upgrade, refuse_consumer_heartbeat, check=check_consumer_heartbeat, explain=explain_refusal
    ),
    OffsetFetchRequest: SeveralGroupsApi(several_groups.answer_offset_fetch, refuse_offset_fetch, read_only=True),
    DescribeGroupsRequest: SeveralGroupsApi(
        several_groups.answer_describe_groups, several_groups.refuse_describe_groups, read_only=True
    ),
    ConsumerGroupDescribeRequest: SeveralGroupsApi(
        several_groups.answer_describe_consumer_groups, several_groups.refuse_describe_consumer_groups, read_only=True
    ),
    ListGroupsRequest: SeveralGroupsApi(
        several_groups.answer_list_groups, several_groups.refuse_list_groups, read_only=True
    ),
    DeleteGroupsRequest: SeveralGroupsApi(several_groups.answer_delete_groups, several_groups.refuse_delete_groups),
}


def withdraw(reply: Reply, code: ErrorCode) -> Reply:
    api = GROUP_APIS[type(reply.request.message)]
    if isinstance(api, GroupApi) and api.withdraw is not None:
        return api.withdraw(reply, code)
    return api.refuse(reply.request, code)
