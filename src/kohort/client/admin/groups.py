"""Admin operations on groups and their committed offsets; each request goes to the group's coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from kohort.client.admin.coordinators import BatchedCall, CoordinatorCall, ask_coordinator, ask_coordinators
from kohort.client.admin.model import GroupDescription, GroupListing, MemberDescription
from kohort.client.admin.operations import Operation, Results, is_transient, results_of
from kohort.client.admin.topics import ask_every_broker
from kohort.client.group.offset_messages import commit_partition
from kohort.client.requests.metadata import Metadata
from kohort.errors import ErrorCode, ProtocolError, UnsupportedVersion, UsageError
from kohort.model import NO_EPOCH, OffsetAndMetadata, TopicPartition, by_topic
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, parse_assignment, parse_subscribed_topics
from kohort.wire.messages import group_admin, group_consumer
from kohort.wire.messages import offsets as wire
from kohort.wire.messages.group_classic import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.schema import Message

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
MEMBER_TYPES: Final = MappingProxyType({0: CLASSIC, 1: CONSUMER})
"""Member types by their number in ConsumerGroupDescribe; version 0 (before Kafka 4.0) returns -1 instead."""


def described_classic_group(group: group_admin.DescribedGroup, node_id: int) -> GroupDescription:
    members = tuple(_classic_member(member, group.protocol_type) for member in group.members)
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_type, group.protocol_data, node_id, members, CLASSIC
    )


def _classic_member(member: group_admin.DescribedGroupMember, protocol_type: str) -> MemberDescription:
    """Describe a member of a classic group; decode subscription and assignment only of Kafka's consumer protocol."""
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


BATCHED_FROM: Final = 3
REASON: Final = "member was removed by an admin"
"""Reason in LeaveGroup, as sent by Kafka's admin client: coordinators recognize a removal by an admin by it."""
MAX_REASON: Final = 255


def remove_group_members(
    metadata: Metadata, group: str, members: Sequence[str], instance_ids: Sequence[str], reason: str
) -> Operation[Results[str, None]]:
    """Remove members from a group by member id, and static members by instance id.

    Raises UsageError if both lists are empty, or if one id is in both lists.
    """
    if twice := sorted(set(members) & set(instance_ids)):
        raise UsageError(f"{twice[0]!r} is both a member id and an instance id: give it in one of the two lists")
    if not members and not instance_ids:
        raise UsageError("no member to remove: give member ids or instance ids")
    full_reason = (f"{REASON}: {reason}" if reason else REASON)[:MAX_REASON]
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

    call = CoordinatorCall(lambda g: LeaveGroupRequest(group_id=g, members=leaving), read, _shaped)
    return ask_coordinator(metadata, group, call)


def _shaped(request: Message, version: int) -> Message:
    """Rewrite LeaveGroup for versions below 3, which remove only one member, by member id.

    Raises UnsupportedVersion for several members, or for an instance id.
    """
    assert isinstance(request, LeaveGroupRequest)
    if version >= BATCHED_FROM:
        return request
    first, *others = request.members
    if others or first.group_instance_id is not None:
        raise UnsupportedVersion("this broker removes one member at a time, by its member id (Kafka before 2.4)")
    return LeaveGroupRequest(group_id=request.group_id, member_id=first.member_id)


BY_NAME: Final = 9
BATCHED_GROUPS_FROM: Final = 8
DEAD: Final = "Dead"
MAX_DESCRIBED: Final = 200
"""Maximum number of groups per describe request; the response has 1 KiB or more per member."""
MAX_FETCHED: Final = 500
OffsetsOfGroup = Results[TopicPartition, OffsetAndMetadata | None]


def list_groups(metadata: Metadata, *, states: Sequence[str], types: Sequence[str]) -> Operation[list[GroupListing]]:
    listed = yield from list_groups_by_broker(metadata, states=states, types=types)
    listed.check()
    return sorted((group for groups in listed.values() for group in groups), key=lambda listing: listing.group_id)


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
        listed = answers[node_id].groups
        found.add(
            node_id, [GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type, node_id) for g in listed]
        )
    return found


def describe_groups(metadata: Metadata, groups: Iterable[str]) -> Operation[Results[str, GroupDescription]]:
    """Return groups with their members. Missing groups fail with GROUP_ID_NOT_FOUND.

    Each group is requested as a consumer group (KIP-848) first, then as a classic one, as in Java's client.
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

    def split(
        answer: group_consumer.ConsumerGroupDescribeResponse,
    ) -> dict[str, group_consumer.ConsumerGroupDescribeResponse]:
        return {g.group_id: group_consumer.ConsumerGroupDescribeResponse(groups=[g]) for g in answer.groups}

    def split_classic(answer: group_admin.DescribeGroupsResponse) -> dict[str, group_admin.DescribeGroupsResponse]:
        return {g.group_id: group_admin.DescribeGroupsResponse(groups=[g]) for g in answer.groups}

    many = BatchedCall(
        lambda names: group_consumer.ConsumerGroupDescribeRequest(group_ids=list(names)), split, MAX_DESCRIBED
    )
    many_classic = BatchedCall(
        lambda names: group_admin.DescribeGroupsRequest(groups=list(names)), split_classic, MAX_DESCRIBED
    )
    classic = CoordinatorCall(
        lambda g: group_admin.DescribeGroupsRequest(groups=[g]), read_classic, batched=many_classic
    )
    call = CoordinatorCall(
        lambda g: group_consumer.ConsumerGroupDescribeRequest(group_ids=[g]), read, batched=many, fallback=classic
    )
    return ask_coordinators(metadata, groups, call)


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
    """Return a group's committed offset of each partition; None for a partition without a committed offset.

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

    def request(group_id: str) -> wire.OffsetFetchRequest:
        return many([group_id])

    def many(groups: Sequence[str]) -> wire.OffsetFetchRequest:
        return wire.OffsetFetchRequest(groups=[wire.OffsetFetchRequestGroup(group_id=g, topics=topics) for g in groups])

    def split(answer: wire.OffsetFetchResponse) -> dict[str, wire.OffsetFetchResponse]:
        return {g.group_id: wire.OffsetFetchResponse(groups=[g]) for g in answer.groups}

    def read(answer: wire.OffsetFetchResponse, _group: str, _node_id: int) -> tuple[int, str | None, Any]:
        return answer.groups[0].error_code if answer.groups else answer.error_code, None, _committed(answer)

    return CoordinatorCall(request, read, _one_group, BY_NAME, batched=BatchedCall(many, split, MAX_FETCHED))


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
        results = results_of(
            (TopicPartition(topic.name, p.partition_index), None, p.error_code, None)
            for topic in answer.topics
            for p in topic.partitions
        )
        return _common_code(p.error_code for t in answer.topics for p in t.partitions), None, results

    call = CoordinatorCall(lambda g: wire.OffsetCommitRequest(group_id=g, topics=topics), read, max_version=BY_NAME)
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
        results = results_of(
            (TopicPartition(topic.name, p.partition_index), None, p.error_code, None)
            for topic in answer.topics
            for p in topic.partitions
        )
        return answer.error_code, None, results

    call = CoordinatorCall(lambda g: wire.OffsetDeleteRequest(group_id=g, topics=topics), read)
    return ask_coordinator(metadata, group, call)


def _one_group(request: Message, version: int) -> Message:
    """Rewrite OffsetFetch for versions below 8, which take one group (KIP-709); several raise UnsupportedVersion."""
    assert isinstance(request, wire.OffsetFetchRequest)
    if version >= BATCHED_GROUPS_FROM:
        return request
    if len(request.groups) > 1:
        raise UnsupportedVersion(
            f"OffsetFetch version {version} takes one group per request; several groups need version 8 (Kafka 3.0)"
        )
    group = request.groups[0]
    topics = None
    if group.topics is not None:
        topics = [
            wire.OffsetFetchRequestTopic(name=t.name, partition_indexes=t.partition_indexes) for t in group.topics
        ]
    return wire.OffsetFetchRequest(group_id=group.group_id, topics=topics)


def _committed(answer: wire.OffsetFetchResponse) -> OffsetsOfGroup:
    results: OffsetsOfGroup = Results()
    topics: Iterable[Any] = answer.groups[0].topics if answer.groups else answer.topics
    for topic in topics:
        for p in topic.partitions:
            epoch = max(p.committed_leader_epoch, NO_EPOCH)
            offset = OffsetAndMetadata(p.committed_offset, p.metadata or "", epoch) if p.committed_offset >= 0 else None
            results.add_or_refuse(TopicPartition(topic.name, p.partition_index), offset, p.error_code)
    return results


def _common_code(codes: Iterable[int]) -> int:
    distinct = set(codes)
    code = distinct.pop() if len(distinct) == 1 else 0
    return code if is_transient(code) else 0
