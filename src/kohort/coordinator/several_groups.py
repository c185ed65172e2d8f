"""Requests that are not about one group: OffsetFetch, the describing of groups, ListGroups, DeleteGroups, over all
shards.

Kafka's broker asks its coordinator group by group; so does this. A group that is not coordinated here, or is still
being read, has its error in its own place of the answer, where the answer has one.
"""

from __future__ import annotations

from typing import Final

from kohort.coordinator.consumer.describing import describe_consumer_group, refused_consumer_group
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.context import Context
from kohort.coordinator.describe import (
    CLASSIC,
    CONSUMER,
    STATES,
    decide_delete_group,
    describe_group,
    filter_of,
    list_groups,
    refused_description,
)
from kohort.coordinator.offsets.fetch import answer_fetch
from kohort.coordinator.offsets.state import NO_OFFSETS, GroupOffsets
from kohort.coordinator.offsets.who_may import check_fetch
from kohort.coordinator.outcome import GroupRequest, Reply
from kohort.coordinator.shards import Shards
from kohort.errors import ApiError, ErrorCode
from kohort.security.acls import ALL_OPERATIONS, NOT_ASKED, ResourceType
from kohort.steps import Pace, Steps
from kohort.wire.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kohort.wire.messages.group_consumer import (
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)

DELETE_US: Final = 100


def answer_offset_fetch(shards: Shards, request: GroupRequest, ctx: Context) -> Steps[Reply]:
    """Answer an OffsetFetch with the committed offsets of each group."""

    def offsets_of(group_id: str, member_id: str | None, epoch: int) -> GroupOffsets:
        groups = shards.of_group(group_id).groups
        check_fetch(groups, group_id, member_id, epoch)
        return groups.offsets.get(group_id, NO_OFFSETS)

    return answer_fetch(request, offsets_of, ctx.topics)


def answer_describe_groups(shards: Shards, request: GroupRequest, _ctx: Context) -> Steps[Reply]:
    """Answer a DescribeGroups; a group that cannot be described has its error."""
    message = request.message
    assert isinstance(message, DescribeGroupsRequest)
    described, pace = [], Pace()
    version, operations = request.api_version, message.include_authorized_operations
    for group_id in message.groups:
        try:
            groups = shards.of_group(group_id).groups
            described.append((yield from describe_group(groups, group_id, version, pace, operations=operations)))
        except ApiError as error:
            described.append(refused_description(group_id, error, version))
    return Reply(request, DescribeGroupsResponse(groups=described))


def answer_describe_consumer_groups(shards: Shards, request: GroupRequest, ctx: Context) -> Steps[Reply]:
    """Answer a ConsumerGroupDescribe; groups that cannot be described have their errors, and come first."""
    message = request.message
    assert isinstance(message, ConsumerGroupDescribeRequest)
    operations = ALL_OPERATIONS[ResourceType.GROUP] if message.include_authorized_operations else NOT_ASKED
    refused, described, pace = [], [], Pace()
    for group_id in message.group_ids:
        try:
            group = _consumer_group(shards, group_id)
        except ApiError as error:
            refused.append(refused_consumer_group(group_id, error))
        else:
            described.append((yield from describe_consumer_group(group, ctx, operations, pace)))
    return Reply(request, ConsumerGroupDescribeResponse(groups=refused + described))


def _consumer_group(shards: Shards, group_id: str) -> ModernGroup:
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    groups = shards.of_group(group_id).groups
    group = groups.consumer.get(group_id)
    if group is None:
        what = "is not a consumer group" if group_id in groups.by_id else "not found"
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
    return group


def refuse_describe_consumer_groups(asked: GroupRequest, code: ErrorCode) -> Reply:
    """Answer a ConsumerGroupDescribe with ``code`` for every group."""
    message = asked.message
    assert isinstance(message, ConsumerGroupDescribeRequest)
    groups = [ConsumerGroupDescribeGroup(group_id=group_id, error_code=code) for group_id in message.group_ids]
    return Reply(asked, ConsumerGroupDescribeResponse(groups=groups))


def refuse_describe_groups(asked: GroupRequest, code: ErrorCode) -> Reply:
    """Answer a DescribeGroups with ``code`` for every group."""
    message = asked.message
    assert isinstance(message, DescribeGroupsRequest)
    groups = [DescribedGroup(group_id=group_id, error_code=code) for group_id in message.groups]
    return Reply(asked, DescribeGroupsResponse(groups=groups))


def answer_list_groups(shards: Shards, request: GroupRequest, _ctx: Context) -> Steps[Reply]:
    """Answer a ListGroups; it is refused while the groups of some partition are still being read."""
    message = request.message
    assert isinstance(message, ListGroupsRequest)
    if shards.is_loading:
        return refuse_list_groups(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    listed, pace = [], Pace()
    states = yield from filter_of(message.states_filter, STATES, pace, blanks=True)
    types = yield from filter_of(message.types_filter, (CLASSIC, CONSUMER), pace)
    for shard in [*shards.active()]:
        listed += yield from list_groups(shard.groups, states, types, pace)
    return Reply(request, ListGroupsResponse(groups=listed))


def refuse_list_groups(asked: GroupRequest, code: ErrorCode) -> Reply:
    """Answer a ListGroups with ``code``."""
    return Reply(asked, ListGroupsResponse(error_code=code))


def answer_delete_groups(shards: Shards, request: GroupRequest, ctx: Context) -> Steps[Reply]:
    """Answer a DeleteGroups: each group is a write of its own, and has a result of its own."""
    message = request.message
    assert isinstance(message, DeleteGroupsRequest)
    results, pace = [], Pace()
    for group_id in dict.fromkeys(message.groups_names):
        code = _delete_group(shards, group_id, request, ctx)
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        if pace.is_due(DELETE_US):
            yield
    return Reply(request, DeleteGroupsResponse(results=results))


def _delete_group(shards: Shards, group_id: str, request: GroupRequest, ctx: Context) -> ErrorCode:
    """Delete a group, and return how it went; a delete that fails leaves the group as it was."""
    try:
        shard = shards.of_group(group_id)
        outcome = decide_delete_group(shard.groups, group_id, request, ctx)
    except ApiError as error:
        return error.code
    acknowledged = Reply(request, DeleteGroupsResponse())
    outcome.replies.append(acknowledged)
    (reply,) = shards.carry_out(shard, group_id, outcome, ctx)
    if reply is acknowledged:
        return ErrorCode.NONE
    assert isinstance(reply.message, DeleteGroupsResponse)
    return ErrorCode(reply.message.results[0].error_code)


def refuse_delete_groups(asked: GroupRequest, code: ErrorCode) -> Reply:
    """Answer a DeleteGroups with ``code`` for every group."""
    message = asked.message
    assert isinstance(message, DeleteGroupsRequest)
    names = dict.fromkeys(message.groups_names)
    results = [DeletableGroupResult(group_id=group_id, error_code=code) for group_id in names]
    return Reply(asked, DeleteGroupsResponse(results=results))
