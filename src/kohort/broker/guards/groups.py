"""The APIs of groups: READ to be a member and to commit, DESCRIBE to look, DELETE to delete; and the topics of offsets.

A right to the topics that members subscribe to is asked for where they fetch, as in Kafka.
"""

from __future__ import annotations

from typing import Any, Final

from kohort.broker.guards.guard import (
    PASSED,
    Checking,
    Denials,
    Guard,
    Guarded,
    kept,
    refused_by_topic,
    without,
)
from kohort.coordinator.api_table import GROUP_APIS
from kohort.coordinator.outcome import GroupRequest
from kohort.errors import ErrorCode
from kohort.security.acls import NOT_ASKED, Operation, ResourceType
from kohort.steps import Pace, SpreadDict, Steps, each
from kohort.wire.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsResponse,
)
from kohort.wire.messages.group_classic import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kohort.wire.schema import Message

DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
FIRST_JOIN_WITHOUT_PROTOCOL: Final = 7
FIRST_SYNC_WITH_PROTOCOLS: Final = 5
FIRST_COMMIT_WITH_TOPIC_IDS: Final = 10
FIRST_FETCH_OF_GROUPS: Final = 8
FIRST_FETCH_WITH_TOPIC_IDS: Final = 10
LOOK_US: Final = 1.5
OPERATIONS_US: Final = 10


def refusal(checking: Checking, code: ErrorCode) -> Message:
    """Return the answer of a group's API that refuses a request as a whole."""
    request = checking.request
    asked = GroupRequest(request.message, request.version, request.client_id, request.client_host, request.reply_to)
    return GROUP_APIS[type(request.message)].refuse(asked, code).message


def guard_group(operation: Operation) -> Guard:
    """Return the guard of an API about one group, whose answer has one error."""

    def guard(checking: Checking) -> Guarded:
        if checking.may(operation, ResourceType.GROUP, checking.request.message.group_id):
            return PASSED
        return Guarded(refusal(checking, DENIED))

    return guard


guard_member = guard_group(Operation.READ)


def guard_join(checking: Checking) -> Guarded:
    """READ on the group. Who is refused is told no member id."""
    message: JoinGroupRequest = checking.request.message
    if checking.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return PASSED
    name = None if checking.request.version >= FIRST_JOIN_WITHOUT_PROTOCOL else ""
    return Guarded(JoinGroupResponse(error_code=DENIED, protocol_name=name))


def guard_sync(checking: Checking) -> Guarded | Steps[Guarded]:
    """READ on the group; first of all a request must name its protocol."""
    message: SyncGroupRequest = checking.request.message
    if checking.request.version >= FIRST_SYNC_WITH_PROTOCOLS and None in (message.protocol_type, message.protocol_name):
        return PASSED
    return guard_member(checking)


def guard_consumer_heartbeat(checking: Checking) -> Steps[Guarded]:
    """READ on the group, DESCRIBE on each topic that is named: one that is denied refuses the request as a whole. What
    an expression matches is looked at where it is resolved."""
    message: ConsumerGroupHeartbeatRequest = checking.request.message
    if not checking.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return Guarded(refusal(checking, DENIED))
    _, denied = yield from checking.sifted(
        Operation.DESCRIBE, ResourceType.TOPIC, message.subscribed_topic_names or [], lambda name: name
    )
    return Guarded(refusal(checking, TOPIC_DENIED)) if denied else PASSED


def guard_commit(checking: Checking) -> Steps[Guarded]:
    """READ on the group and on each topic."""
    message: OffsetCommitRequest = checking.request.message
    if not checking.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return Guarded(OffsetCommitResponse(topics=(yield from _not_committed(message.topics, DENIED))))
    by_id = checking.request.version >= FIRST_COMMIT_WITH_TOPIC_IDS
    allowed, denied = yield from checking.sifted(
        Operation.READ,
        ResourceType.TOPIC,
        message.topics,
        (lambda topic: checking.topic_name(topic.topic_id)) if by_id else (lambda topic: topic.name),
    )
    refused = yield from _not_committed(denied, TOPIC_DENIED)
    return without(checking, allowed, Denials("topics", "topics", refused), OffsetCommitResponse)


def _not_committed(topics: list[OffsetCommitRequestTopic], code: ErrorCode) -> Steps[list[OffsetCommitResponseTopic]]:
    return refused_by_topic(
        topics,
        lambda topic: topic.partitions,
        lambda p: OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code),
        lambda topic, made: OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=made),
    )


def guard_offset_delete(checking: Checking) -> Steps[Guarded]:
    """DELETE on the group, READ on each topic."""
    message: OffsetDeleteRequest = checking.request.message
    if not checking.may(Operation.DELETE, ResourceType.GROUP, message.group_id):
        return Guarded(refusal(checking, DENIED))
    allowed, denied = yield from checking.sifted(
        Operation.READ, ResourceType.TOPIC, message.topics, lambda topic: topic.name
    )
    refused = yield from refused_by_topic(
        denied,
        lambda topic: topic.partitions,
        lambda p: OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=TOPIC_DENIED),
        lambda topic, made: OffsetDeleteResponseTopic(name=topic.name, partitions=made),
    )
    return without(checking, allowed, Denials("topics", "topics", refused), OffsetDeleteResponse)


# ---------------------------------------------------------------- OffsetFetch


def guard_offset_fetch(checking: Checking) -> Steps[Guarded]:
    """DESCRIBE on each group and topic; where all offsets of a group are asked for, others are left out."""
    if checking.request.version < FIRST_FETCH_OF_GROUPS:
        return (yield from _guard_fetch_of_one(checking))
    message: OffsetFetchRequest = checking.request.message
    groups, refused_groups = yield from checking.sifted(
        Operation.DESCRIBE, ResourceType.GROUP, message.groups, lambda group: group.group_id
    )
    pace = Pace()
    left: list[OffsetFetchRequestGroup] = []
    added: list[list[OffsetFetchResponseTopics] | None] = []
    """For each group that is left what is added to its answer; None where all topics are asked for."""
    for group in groups:
        if group.topics is None:
            left.append(group)
            added.append(None)
            continue
        one, refused = yield from _sifted_topics(checking, group)
        left.append(one)
        added.append(refused)
        if pace.is_due(LOOK_US):
            yield
    told = yield from each(
        refused_groups, lambda group: OffsetFetchResponseGroup(group_id=group.group_id, error_code=DENIED), LOOK_US
    )
    if not left:
        return Guarded(OffsetFetchResponse(groups=told))
    checking.keep(groups=left)

    def amend(answer: OffsetFetchResponse) -> Steps[Message]:
        for group, refused in zip(answer.groups, added, strict=False):
            if refused is None:
                yield from _leave_out(checking, group.topics)
            elif not group.error_code:
                group.topics.extend(refused)
            if pace.is_due(LOOK_US):
                yield
        answer.groups.extend(told)
        return answer

    return Guarded(amend=amend)


def _sifted_topics(
    checking: Checking, group: OffsetFetchRequestGroup
) -> Steps[tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]]:
    by_id = checking.request.version >= FIRST_FETCH_WITH_TOPIC_IDS
    allowed, denied = yield from checking.sifted(
        Operation.DESCRIBE,
        ResourceType.TOPIC,
        group.topics or [],
        (lambda topic: checking.topic_name(topic.topic_id)) if by_id else (lambda topic: topic.name),
    )
    refused = yield from refused_by_topic(
        denied,
        lambda topic: topic.partition_indexes,
        lambda p: OffsetFetchResponsePartitions(
            partition_index=p, committed_offset=-1, metadata="", error_code=TOPIC_DENIED
        ),
        lambda topic, made: OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=made),
    )
    if not denied:
        return group, refused
    one = OffsetFetchRequestGroup(
        group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=allowed
    )
    return one, refused


def _guard_fetch_of_one(checking: Checking) -> Steps[Guarded]:
    message: OffsetFetchRequest = checking.request.message
    if not checking.may(Operation.DESCRIBE, ResourceType.GROUP, message.group_id):
        return Guarded(refusal(checking, DENIED))
    if message.topics is None:

        def leave_out(answer: OffsetFetchResponse) -> Steps[Message]:
            yield from _leave_out(checking, answer.topics)
            return answer

        return Guarded(amend=leave_out)
    allowed, denied = yield from checking.sifted(
        Operation.DESCRIBE, ResourceType.TOPIC, message.topics, lambda topic: topic.name
    )
    if not denied:
        return PASSED
    refused = yield from refused_by_topic(
        denied,
        lambda topic: topic.partition_indexes,
        lambda p: OffsetFetchResponsePartition(
            partition_index=p, committed_offset=-1, metadata="", error_code=TOPIC_DENIED
        ),
        lambda topic, made: OffsetFetchResponseTopic(name=topic.name, partitions=made),
    )
    checking.keep(topics=allowed)

    def amend(answer: OffsetFetchResponse) -> Message:
        if not answer.error_code:
            answer.topics.extend(refused)
        return answer

    return Guarded(amend=amend)


def _leave_out(checking: Checking, topics: list[Any]) -> Steps[None]:
    """Take away the topics that the caller may not know of."""
    topics[:] = yield from kept(
        topics, lambda topic: checking.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quietly=True)
    )


# ---------------------------------------------------------------- administration


def guard_describe_groups(checking: Checking) -> Steps[Guarded]:
    """DESCRIBE on each group; what may be done to those is told as it is asked for (KIP-430)."""
    message: DescribeGroupsRequest = checking.request.message
    allowed, denied = yield from checking.sifted(
        Operation.DESCRIBE, ResourceType.GROUP, message.groups, lambda group_id: group_id
    )
    refused = yield from each(denied, lambda group_id: DescribedGroup(error_code=DENIED, group_id=group_id), LOOK_US)
    if not message.include_authorized_operations:
        return without(checking, allowed, Denials("groups", "groups", refused), DescribeGroupsResponse)
    if not allowed:
        return Guarded(DescribeGroupsResponse(groups=refused))
    checking.keep(groups=allowed)

    def amend(answer: DescribeGroupsResponse) -> Steps[Message]:
        pace = Pace()
        for group in answer.groups:
            if group.authorized_operations != NOT_ASKED:
                operations = checking.operations_of(ResourceType.GROUP, group.group_id)
                setattr(group, "authorized_operations", operations)  # noqa: B010 - frozen for the type checker alone
            if pace.is_due(OPERATIONS_US):
                yield
        answer.groups.extend(refused)
        return answer

    return Guarded(amend=amend)


def guard_delete_groups(checking: Checking) -> Steps[Guarded]:
    """DELETE on each group."""
    message: DeleteGroupsRequest = checking.request.message
    allowed, denied = yield from checking.sifted(
        Operation.DELETE, ResourceType.GROUP, message.groups_names, lambda group_id: group_id
    )
    pace = Pace()
    seen: SpreadDict[str, None] = SpreadDict()
    refused = []
    for group_id in denied:
        if seen.add(group_id, None):
            refused.append(DeletableGroupResult(group_id=group_id, error_code=DENIED))
        if pace.is_due(LOOK_US):
            yield
    yield from seen.let_go(pace)
    return without(checking, allowed, Denials("groups_names", "results", refused), DeleteGroupsResponse)


def guard_list_groups(checking: Checking) -> Guarded:
    """DESCRIBE on the cluster, or on each group: others are left out."""
    if checking.may_on_cluster(Operation.DESCRIBE, quietly=True):
        return PASSED

    def amend(answer: ListGroupsResponse) -> Steps[Message]:
        answer.groups[:] = yield from kept(
            answer.groups,
            lambda group: checking.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, quietly=True),
        )
        return answer

    return Guarded(amend=amend)
