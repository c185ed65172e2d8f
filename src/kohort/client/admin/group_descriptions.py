"""What brokers tell of a group, as values: of classic groups by DescribeGroups, of those of KIP-848 by
ConsumerGroupDescribe."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from kohort.client.admin.model import GroupDescription, MemberDescription
from kohort.errors import ProtocolError
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, parse_assignment, parse_subscribed_topics
from kohort.wire.messages.group_admin import DescribedGroup, DescribedGroupMember
from kohort.wire.messages.group_consumer import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
)

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
MEMBER_TYPES: Final = MappingProxyType({0: CLASSIC, 1: CONSUMER})
"""What ConsumerGroupDescribe calls members; version 0, of Kafka before 4.0, does not tell (-1)."""


def described_classic_group(group: DescribedGroup, node_id: int) -> GroupDescription:
    """Return a group as DescribeGroups tells of it."""
    members = tuple(_classic_member(member, group.protocol_type) for member in group.members)
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_type, group.protocol_data, node_id, members, CLASSIC
    )


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> MemberDescription:
    """Return a member; what it wants and owns is read only where the blobs are those of consumers, and readable."""
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


def described_consumer_group(group: ConsumerGroupDescribeGroup, node_id: int) -> GroupDescription:
    """Return a group as ConsumerGroupDescribe tells of it."""
    return GroupDescription(
        group.group_id,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        node_id,
        tuple(_modern_member(member) for member in group.members),
        CONSUMER,
        group.group_epoch,
        group.assignment_epoch,
    )


def _modern_member(member: ConsumerGroupDescribeMember) -> MemberDescription:
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


def _partitions(assignment: ConsumerGroupDescribeAssignment) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(t.topic_name, number) for t in assignment.topic_partitions for number in t.partitions)
