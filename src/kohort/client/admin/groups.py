"""Admin operations on groups and their committed offsets. Each request goes to the coordinator of the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from kohort.client.admin.coordinators import BatchedCall, CoordinatorCall, ask_coordinator, ask_coordinators
from kohort.client.admin.model import GroupDescription, GroupListing, MemberDescription
from kohort.client.admin.operations import Operation, Results, is_transient, results_of
from kohort.client.admin.topics import ask_every_broker
from kohort.client.group.member_messages import REASON_MAX, leave_shape
from kohort.client.group.offset_messages import (
    BY_NAME_COMMIT,
    BY_NAME_FETCH,
    commit_partition,
    fetched_offsets,
    shape_fetch,
)
from kohort.client.requests.metadata import Metadata
from kohort.errors import ErrorCode, ProtocolError, UsageError
from kohort.model import OffsetAndMetadata, TopicPartition, by_topic
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, parse_assignment, parse_subscribed_topics
from kohort.wire.messages import group_admin, group_consumer
from kohort.wire.messages import offsets as wire
from kohort.wire.messages.group_classic import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
MEMBER_TYPES: Final = MappingProxyType({0: CLASSIC, 1: CONSUMER})
"""Member types by their number in a ConsumerGroupDescribe response. Brokers before Kafka 4.0 return -1."""


def described_classic_group(group: group_admin.DescribedGroup, node_id: int) -> GroupDescription:
    members = tuple(_classic_member(member, group.protocol_type) for member in group.members)
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_type, group.protocol_data, node_id, members, CLASSIC
    )


def _classic_member(member: group_admin.DescribedGroupMember, protocol_type: str) -> MemberDescription:
    """Describe a member of a classic group.

    Subscription and assignment are decoded only if the group's protocol type is ``consumer``.
    """
    topics: tuple[str, ...] = ()
    assignment: tuple[TopicPartition, ...] = ()
    if protocol_type == PROTOCOL_TYPE:
        try:
            topics = tuple(parse_subscribed_topics(member.member_metadata)) if member.member_metadata else ()
            assignment = tuple(parse_assignment(member.member_assignment).partitions)
        except ProtocolError:
            pass
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        topics,
        assignment,
        member.member_metadata,
        member.member_assignment,
        CLASSIC,
    )


def described_consumer_group(group: group_consumer.ConsumerGroupDescribeGroup, node_id: int) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        node_id,
        tuple(_consumer_member(member) for member in group.members),
        CONSUMER,
        group.group_epoch,
        group.assignment_epoch,
    )


def _consumer_member(member: group_consumer.ConsumerGroupDescribeMember) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        tuple(member.subscribed_topic_names),
        _partitions(member.assignment),
        b"",
        b"",
        MEMBER_TYPES.get(member.member_type, ""),
        member.member_epoch,
        _partitions(member.target_assignment),
        member.subscribed_topic_regex or None,
        member.rack_id,
    )


def _partitions(assignment: group_consumer.ConsumerGroupDescribeAssignment) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(t.topic_name, number) for t in assignment.topic_partitions for number in t.partitions)


REASON: Final = "member was removed by an admin"
"""Start of the reason in an admin client's LeaveGroup request, as in Kafka. Coordinators log the reason."""


def remove_group_members(
    metadata: Metadata, group: str, members: Sequence[str], instance_ids: Sequence[str], reason: str
) -> Operation[Results[str, None]]:
    """Remove dynamic members from a group by member id, and static members by instance id.

    Raises UsageError if both lists are empty, or if an id is in both lists.
    """
    if twice := sorted(set(members) & set(instance_ids)):
        raise UsageError(f"{twice[0]!r} is both a member id and an instance id: give it in one of the two lists")
    if not members and not instance_ids:
        raise UsageError("no member to remove: give member ids or instance ids")
    full_reason = (f"{REASON}: {reason}" if reason else REASON)[:REASON_MAX]
    leaving = [MemberIdentity(member_id=name, reason=full_reason) for name in dict.fromkeys(members)]
    leaving += [
        MemberIdentity(member_id="", group_instance_id=name, reason=full_reason) for name in dict.fromkeys(instance_ids)
    ]

    def read(answer: LeaveGroupResponse, _group: str, _node_id: int) -> tuple[int, str | None, Any]:
        results: Results[str, None] = Results()
        if not answer.members and not answer.error_code:
            results.add(members[0], None)
        for left in answer.members:
            results.add_or_refuse(left.group_instance_id or left.member_id, None, left.error_code)
        return answer.error_code, None, results

    call = CoordinatorCall(lambda g: LeaveGroupRequest(group_id=g, members=leaving), read, leave_shape)
    return ask_coordinator(metadata, group, call)


DEAD: Final = "Dead"
MAX_DESCRIBED: Final = 200
"""Maximum number of groups in one describe request. It limits the size of the response."""
MAX_FETCHED: Final = 500
OffsetsOfGroup = Results[TopicPartition, OffsetAndMetadata | None]


def list_groups(metadata: Metadata, *, states: Sequence[str], types: Sequence[str]) -> Operation[list[GroupListing]]:
    listed = yield from list_groups_by_broker(metadata, states=states, types=types)
    groups = [group for groups in listed.check().values() for group in groups]
    return sorted(groups, key=lambda listing: listing.group_id)


def list_groups_by_broker(
    metadata: Metadata, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> Operation[Results[int, list[GroupListing]]]:
    request = group_admin.ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    answers = yield from ask_every_broker(metadata, request)
    found: Results[int, list[GroupListing]] = Results()
    for node_id in answers:
        if node_id in answers.errors:
            found.refuse(node_id, answers.errors[node_id])
            continue
        groups = answers[node_id].groups
        listed = [GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type, node_id) for g in groups]
        found.add(node_id, listed)
    return found


def describe_groups(metadata: Metadata, groups: Iterable[str]) -> Operation[Results[str, GroupDescription]]:
    """Describe groups with their members. A missing group fails with GROUP_ID_NOT_FOUND.

    As in Java's client, each group is described as a consumer group (KIP-848) first, then as a classic group.
    """

    def read(
        answer: group_consumer.ConsumerGroupDescribeResponse, group: str, node_id: int
    ) -> tuple[int, str | None, Any]:
        described = next(g for g in answer.groups if g.group_id == group)
        code = described.error_code
        return code, described.error_message, None if code else described_consumer_group(described, node_id)

    def read_classic(
        answer: group_admin.DescribeGroupsResponse, group: str, node_id: int
    ) -> tuple[int, str | None, Any]:
        described = next(g for g in answer.groups if g.group_id == group)
        code = described.error_code
        if not code and described.group_state == DEAD:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        return code, described.error_message, None if code else described_classic_group(described, node_id)

    many = BatchedCall(lambda names: group_consumer.ConsumerGroupDescribeRequest(group_ids=list(names)), MAX_DESCRIBED)
    many_classic = BatchedCall(lambda names: group_admin.DescribeGroupsRequest(groups=list(names)), MAX_DESCRIBED)
    classic = CoordinatorCall(many_classic.one, read_classic, batched=many_classic)
    return ask_coordinators(metadata, groups, CoordinatorCall(many.one, read, batched=many, fallback=classic))


def delete_groups(metadata: Metadata, groups: Iterable[str]) -> Operation[Results[str, None]]:

    def read(answer: group_admin.DeleteGroupsResponse, group: str, _node_id: int) -> tuple[int, str | None, Any]:
        result = next(r for r in answer.results if r.group_id == group)
        return result.error_code, result.error_message, None

    return ask_coordinators(
        metadata, groups, CoordinatorCall(lambda g: group_admin.DeleteGroupsRequest(groups_names=[g]), read)
    )


def list_group_offsets(
    metadata: Metadata, group: str, partitions: Iterable[TopicPartition] | None
) -> Operation[OffsetsOfGroup]:
    """Return a group's committed offset of each partition; None if the group has committed no offset there.

    ``partitions``: partitions to query; None: all partitions with a committed offset.
    """
    topics = None
    if partitions is not None:
        topics = [
            wire.OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    return ask_coordinator(metadata, group, _fetch_call(topics))


def list_offsets_of_groups(metadata: Metadata, groups: Iterable[str]) -> Operation[Results[str, OffsetsOfGroup]]:
    return ask_coordinators(metadata, groups, _fetch_call(None))


def _fetch_call(topics: list[wire.OffsetFetchRequestTopics] | None) -> CoordinatorCall:

    def request(groups: Sequence[str]) -> wire.OffsetFetchRequest:
        return wire.OffsetFetchRequest(groups=[wire.OffsetFetchRequestGroup(group_id=g, topics=topics) for g in groups])

    def read(answer: wire.OffsetFetchResponse, _group: str, _node_id: int) -> tuple[int, str | None, Any]:
        code, found = fetched_offsets(request([]), answer)
        return code, None, results_of((tp, offset.committed, offset.code, None) for tp, offset in found.items())

    many = BatchedCall(request, MAX_FETCHED)
    return CoordinatorCall(many.one, read, shape_fetch, BY_NAME_FETCH, batched=many)


def alter_group_offsets(
    metadata: Metadata, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> Operation[Results[TopicPartition, None]]:
    topics = [
        wire.OffsetCommitRequestTopic(
            name=topic, partitions=[commit_partition(n, offsets[TopicPartition(topic, n)]) for n in numbers]
        )
        for topic, numbers in by_topic(offsets).items()
    ]

    def read(answer: wire.OffsetCommitResponse, _group: str, _node_id: int) -> tuple[int, str | None, Any]:
        code = _common_code(p.error_code for t in answer.topics for p in t.partitions)
        return code, None, _results(answer.topics)

    def request(group_id: str) -> wire.OffsetCommitRequest:
        return wire.OffsetCommitRequest(group_id=group_id, topics=topics)

    call = CoordinatorCall(request, read, max_version=BY_NAME_COMMIT)
    return ask_coordinator(metadata, group, call)


def delete_group_offsets(
    metadata: Metadata, group: str, partitions: Iterable[TopicPartition]
) -> Operation[Results[TopicPartition, None]]:
    topics = [
        wire.OffsetDeleteRequestTopic(
            name=topic, partitions=[wire.OffsetDeleteRequestPartition(partition_index=n) for n in numbers]
        )
        for topic, numbers in by_topic(partitions).items()
    ]

    def read(answer: wire.OffsetDeleteResponse, _group: str, _node_id: int) -> tuple[int, str | None, Any]:
        return answer.error_code, None, _results(answer.topics)

    call = CoordinatorCall(lambda g: wire.OffsetDeleteRequest(group_id=g, topics=topics), read)
    return ask_coordinator(metadata, group, call)


def _results(topics: Sequence[Any]) -> Results[TopicPartition, None]:
    """Return the result of each partition in an OffsetCommit or OffsetDelete response."""
    return results_of(
        (TopicPartition(topic.name, p.partition_index), None, p.error_code, None)
        for topic in topics
        for p in topic.partitions
    )


def _common_code(codes: Iterable[int]) -> int:
    distinct = set(codes)
    code = distinct.pop() if len(distinct) == 1 else 0
    return code if is_transient(code) else 0
