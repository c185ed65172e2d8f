"""Requests about any number of groups: OffsetFetch, DescribeGroups, ListGroups, DeleteGroups.

If another broker coordinates a group, the response has an error in the entry of this group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.rebalance import cancel_timers
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.consumer.fencing import group_tombstones
from kohort.coordinator.consumer.group import ConsumerGroupState, ModernGroup, check_consumer_group
from kohort.coordinator.consumer.group_epoch import preferred_assignor
from kohort.coordinator.consumer.reconcile import CurrentAssignment
from kohort.coordinator.consumer.sessions import timers_of
from kohort.coordinator.context import Context
from kohort.coordinator.journal import ClientIdentity, GroupDeleted
from kohort.coordinator.offsets.committing import check_fetch
from kohort.coordinator.offsets.fetch import answer_fetch
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import NO_OFFSETS, GroupOffsets
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply, TopicsView
from kohort.coordinator.records import GroupWritten, OffsetCommitted
from kohort.coordinator.shard import Shards
from kohort.errors import ApiError, ErrorCode
from kohort.security.acls import ALL_OPERATIONS, NOT_REQUESTED, ResourceType
from kohort.steps import Pace, Steps
from kohort.wire.consumer_protocol import PROTOCOL_TYPE
from kohort.wire.messages import group_admin as admin
from kohort.wire.messages.group_consumer import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeTopicPartitions,
)

FIRST_WITH_GROUP_ID_NOT_FOUND = 6
CLASSIC = "classic"
CONSUMER = "consumer"
MEMBER_US: Final = 1.6
LISTED_US: Final = 3.0
FILTER_US: Final = 0.4
STATES: Final = [state.value for kind in (GroupState, ConsumerGroupState) for state in kind]
SETTLED_US: Final = 0.15
"""Cost in microseconds per member to compute the state of a consumer group."""
OF_CLASSIC_PROTOCOL: Final = 0
OF_CONSUMER_PROTOCOL: Final = 1
MODERN_MEMBER_US: Final = 6
TOPIC_US: Final = 2
PARTITION_US: Final = 0.1
DELETE_US: Final = 100


def describe_group(
    groups: Groups, group_id: str, version: int, pace: Pace, *, operations: bool = False
) -> Steps[admin.DescribedGroup]:
    """Describe a classic group. ``operations``: include the ACL operations that the client may perform on the group."""
    allowed = ALL_OPERATIONS[ResourceType.GROUP] if operations else NOT_REQUESTED
    group = groups.by_id.get(group_id)
    if group is None:
        missing = version >= FIRST_WITH_GROUP_ID_NOT_FOUND
        is_consumer = group_id in groups.consumer
        problem = f"Group {group_id} is not a classic group." if is_consumer else f"Group {group_id} not found."
        return admin.DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
            error_message=problem if missing else None,
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            authorized_operations=NOT_REQUESTED if missing else allowed,
        )
    rebalance = group.round
    stable = rebalance.state is GroupState.STABLE
    described = admin.DescribedGroup(
        group_id=group_id,
        group_state=rebalance.state.value,
        protocol_type=rebalance.protocol_type,
        protocol_data=(rebalance.protocol_name or "") if stable else "",
        authorized_operations=allowed,
    )
    name = rebalance.protocol_name
    taken = [  # copy all members now: the group may change while the response is built in steps
        (m, m.metadata_of(name) if stable else b"", m.assignment) for m in rebalance.members.values()
    ]
    for member, metadata, assignment in taken:
        entry = admin.DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=metadata,
            member_assignment=assignment,
        )
        described.members.append(entry)
        if pace.is_due(MEMBER_US):
            yield
    return described


def filter_of(
    names: Sequence[str], known: Iterable[str], pace: Pace, *, blanks: bool = False
) -> Steps[frozenset[str] | None]:
    """Return the known states or types in a ListGroups filter, in lower case; None if the request has no filter.

    ``blanks``: strip blanks from the names.
    """
    if not names:
        return None
    all_known = {name.lower() for name in known}
    found = set()
    for name in names:
        lower = (name.strip() if blanks else name).lower()
        if lower in all_known:
            found.add(lower)
        if pace.is_due(FILTER_US):
            yield
    return frozenset(found)


def list_groups(
    groups: Groups, states: frozenset[str] | None, types: frozenset[str] | None, pace: Pace
) -> Steps[list[admin.ListedGroup]]:
    listed, cost_us = [], LISTED_US
    found: list[ClassicGroup | ModernGroup] = [*groups.by_id.values(), *groups.consumer.values()]
    for group in found:
        if isinstance(group, ClassicGroup):
            kind, protocol_type, cost_us = CLASSIC, group.round.protocol_type, LISTED_US
        else:
            kind, protocol_type, cost_us = CONSUMER, PROTOCOL_TYPE, LISTED_US + SETTLED_US * len(group.members)
        state = group.state.value
        if (types is None or kind in types) and (states is None or state.lower() in states):
            group_id = group.group_id
            entry = admin.ListedGroup(
                group_id=group_id, protocol_type=protocol_type, group_state=state, group_type=kind
            )
            listed.append(entry)
        if pace.is_due(cost_us):
            yield
    return listed


def decide_delete_group(groups: Groups, group_id: str, request: GroupRequest, ctx: Context) -> Outcome:
    """Return the tombstones of a group and of its offsets. Raises ApiError if the group is missing or has members."""
    offsets = groups.offsets.get(group_id)
    out = Outcome()
    for topic, partition in offsets.deletable() if offsets is not None else ():
        out.records.append(OffsetCommitted(group_id, topic, partition, None))
    consumer, group = groups.consumer.get(group_id), groups.by_id.get(group_id)
    if consumer is not None:
        _end_consumer(consumer, out)
    elif group is not None:
        _end_classic(group, out)
    else:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    by = ClientIdentity("", request.client_id, request.client_host)
    out.journal.append(GroupDeleted(at_ms=ctx.now_ms, group=group_id, why="deleted", by=by))
    return out


def _end_classic(group: ClassicGroup, out: Outcome) -> None:
    if group.state is not GroupState.EMPTY:
        raise ApiError(
            ErrorCode.NON_EMPTY_GROUP,
            f"group {group.group_id!r} is {group.state.value}: only an empty group can be deleted",
        )
    out.records.append(GroupWritten(group.group_id, None))
    cancel_timers(group, out)
    group.round.pending_join.clear()


def _end_consumer(group: ModernGroup, out: Outcome) -> None:
    if group.members:
        raise ApiError(
            ErrorCode.NON_EMPTY_GROUP,
            f"group {group.group_id!r} is {group.state.value}: only an empty group can be deleted",
        )
    out.records += group_tombstones(group)
    out.timers += map(CancelTimer, timers_of(group))
    out.round_changed = False


def describe_consumer_group(
    group: ModernGroup, ctx: Context, operations: int, pace: Pace
) -> Steps[ConsumerGroupDescribeGroup]:
    """Describe a consumer group.

    ``operations``: bit field of ACL operations that the client may perform on the group.
    """
    described = ConsumerGroupDescribeGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group, ctx),
        authorized_operations=operations,
    )
    taken = [  # copy all members now: the group may change while the response is built in steps
        (m.member_id, m.metadata, m.current, group.target(m.member_id)) for m in group.members.values()
    ]
    for member_id, metadata, current, target in taken:
        entry = ConsumerGroupDescribeMember(
            member_id=member_id,
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            member_epoch=current.epoch,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            subscribed_topic_names=metadata.subscribed_topic_names,
            subscribed_topic_regex=metadata.subscribed_topic_regex or "",
            assignment=(yield from _assignment(_current(current), ctx.topics, pace)),
            target_assignment=(yield from _assignment(target.items(), ctx.topics, pace)),
            member_type=OF_CONSUMER_PROTOCOL if metadata.classic_member_metadata is None else OF_CLASSIC_PROTOCOL,
        )
        described.members.append(entry)
        if pace.is_due(MODERN_MEMBER_US):
            yield
    return described


def _current(current: CurrentAssignment) -> Iterator[tuple[bytes, list[int]]]:
    for topic_id, assigned in current.assigned.items():
        yield topic_id, [*assigned, *current.pending.get(topic_id, ())]
    for topic_id, pending in current.pending.items():
        if topic_id not in current.assigned:
            yield topic_id, list(pending)


def _assignment(
    partitions: Iterable[tuple[bytes, Iterable[int]]], topics: TopicsView, pace: Pace
) -> Steps[ConsumerGroupDescribeAssignment]:
    named = []
    for topic_id, of in partitions:
        name = topics.topic_name(topic_id)
        if name is not None:
            numbers = sorted(of)
            named.append(ConsumerGroupDescribeTopicPartitions(topic_id=topic_id, topic_name=name, partitions=numbers))
            if pace.is_due(TOPIC_US + PARTITION_US * len(numbers)):
                yield
    return ConsumerGroupDescribeAssignment(topic_partitions=named)


def answer_offset_fetch(shards: Shards, request: GroupRequest, ctx: Context) -> Steps[Reply]:
    def offsets_of(group_id: str, member_id: str | None, epoch: int) -> GroupOffsets:
        groups = shards.of_group(group_id).groups
        check_fetch(groups, group_id, member_id, epoch)
        return groups.offsets.get(group_id, NO_OFFSETS)

    return answer_fetch(request, offsets_of, ctx.topics)


def answer_describe_groups(shards: Shards, request: GroupRequest, _ctx: Context) -> Steps[Reply]:
    message = request.message_as(admin.DescribeGroupsRequest)
    described, pace = [], Pace()
    version, operations = request.api_version, message.include_authorized_operations
    for group_id in message.groups:
        try:
            groups = shards.of_group(group_id).groups
            described.append((yield from describe_group(groups, group_id, version, pace, operations=operations)))
        except ApiError as error:
            problem = str(error) if version >= FIRST_WITH_GROUP_ID_NOT_FOUND else None
            described.append(admin.DescribedGroup(error_code=error.code, error_message=problem, group_id=group_id))
    return Reply(request, admin.DescribeGroupsResponse(groups=described))


def answer_describe_consumer_groups(shards: Shards, request: GroupRequest, ctx: Context) -> Steps[Reply]:
    """Answer a ConsumerGroupDescribe. In the response, groups with errors come first."""
    message = request.message_as(ConsumerGroupDescribeRequest)
    operations = ALL_OPERATIONS[ResourceType.GROUP] if message.include_authorized_operations else NOT_REQUESTED
    refused, described, pace = [], [], Pace()
    for group_id in message.group_ids:
        try:
            group = _consumer_group(shards, group_id)
        except ApiError as error:
            problem = error.message or None
            refused.append(ConsumerGroupDescribeGroup(error_code=error.code, error_message=problem, group_id=group_id))
        else:
            described.append((yield from describe_consumer_group(group, ctx, operations, pace)))
    return Reply(request, ConsumerGroupDescribeResponse(groups=refused + described))


def _consumer_group(shards: Shards, group_id: str) -> ModernGroup:
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    return check_consumer_group(shards.of_group(group_id).groups, group_id)


def refuse_describe_consumer_groups(request: GroupRequest, code: ErrorCode) -> Reply:
    message = request.message_as(ConsumerGroupDescribeRequest)
    groups = [ConsumerGroupDescribeGroup(group_id=group_id, error_code=code) for group_id in message.group_ids]
    return Reply(request, ConsumerGroupDescribeResponse(groups=groups))


def refuse_describe_groups(request: GroupRequest, code: ErrorCode) -> Reply:
    message = request.message_as(admin.DescribeGroupsRequest)
    groups = [admin.DescribedGroup(group_id=group_id, error_code=code) for group_id in message.groups]
    return Reply(request, admin.DescribeGroupsResponse(groups=groups))


def answer_list_groups(shards: Shards, request: GroupRequest, _ctx: Context) -> Steps[Reply]:
    """Answer a ListGroups. Refuse it while any ``__consumer_offsets`` partition is being loaded."""
    message = request.message_as(admin.ListGroupsRequest)
    if shards.is_loading:
        return refuse_list_groups(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    listed, pace = [], Pace()
    states = yield from filter_of(message.states_filter, STATES, pace, blanks=True)
    types = yield from filter_of(message.types_filter, (CLASSIC, CONSUMER), pace)
    for shard in [*shards.active()]:
        listed += yield from list_groups(shard.groups, states, types, pace)
    return Reply(request, admin.ListGroupsResponse(groups=listed))


def refuse_list_groups(request: GroupRequest, code: ErrorCode) -> Reply:
    return Reply(request, admin.ListGroupsResponse(error_code=code))


def answer_delete_groups(shards: Shards, request: GroupRequest, ctx: Context) -> Steps[Reply]:
    """Answer a DeleteGroups. Each group is deleted by an append of its own."""
    message = request.message_as(admin.DeleteGroupsRequest)
    results, pace = [], Pace()
    for group_id in dict.fromkeys(message.groups_names):
        code = _delete_group(shards, group_id, request, ctx)
        results.append(admin.DeletableGroupResult(group_id=group_id, error_code=code))
        if pace.is_due(DELETE_US):
            yield
    return Reply(request, admin.DeleteGroupsResponse(results=results))


def _delete_group(shards: Shards, group_id: str, request: GroupRequest, ctx: Context) -> ErrorCode:
    try:
        shard = shards.of_group(group_id)
        outcome = decide_delete_group(shard.groups, group_id, request, ctx)
    except ApiError as error:
        return error.code
    acknowledged = Reply(request, admin.DeleteGroupsResponse())
    outcome.replies.append(acknowledged)
    (reply,) = shards.carry_out(shard, group_id, outcome, ctx)
    if reply is acknowledged:
        return ErrorCode.NONE
    assert isinstance(reply.message, admin.DeleteGroupsResponse)
    return ErrorCode(reply.message.results[0].error_code)


def refuse_delete_groups(request: GroupRequest, code: ErrorCode) -> Reply:
    message = request.message_as(admin.DeleteGroupsRequest)
    unique = dict.fromkeys(message.groups_names)
    results = [admin.DeletableGroupResult(group_id=group_id, error_code=code) for group_id in unique]
    return Reply(request, admin.DeleteGroupsResponse(results=results))
