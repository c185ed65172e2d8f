"""ConsumerGroupHeartbeat (68), ConsumerGroupDescribe (69): consumer groups (KIP-848).

ConsumerGroupHeartbeat 0: the broker generates the id of a new member. 1: subscription patterns; a member generates its
id (KIP-1082).
ConsumerGroupDescribe 1: protocol of each member.
"""

from __future__ import annotations

from typing import Final

from kohort.wire.schema import Message, array, boolean, int8, int16, int32, string, struct, uuid

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
LEAVING_FOR_A_WHILE_EPOCH: Final = -2
"""Member epoch of a static member that leaves temporarily."""


class ConsumerGroupHeartbeatRequestTopicPartitions(Message):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32())


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+"):
    """Null and -1 mean: unchanged since the previous heartbeat."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string(), nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = array(
        ConsumerGroupHeartbeatRequestTopicPartitions, nullable="0+", default=None
    )


class ConsumerGroupHeartbeatResponseTopicPartitions(Message):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32())


class ConsumerGroupHeartbeatResponseAssignment(Message):
    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = array(
        ConsumerGroupHeartbeatResponseTopicPartitions
    )


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    """A null assignment means: unchanged."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = struct(
        ConsumerGroupHeartbeatResponseAssignment, nullable="0+", default=None
    )


class ConsumerGroupDescribeRequest(Message, api_key=69, versions="0-1", flexible="0+"):
    group_ids: list[str] = array(string())
    include_authorized_operations: bool = boolean()


class ConsumerGroupDescribeTopicPartitions(Message):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32())


class ConsumerGroupDescribeAssignment(Message):
    topic_partitions: list[ConsumerGroupDescribeTopicPartitions] = array(ConsumerGroupDescribeTopicPartitions)


class ConsumerGroupDescribeMember(Message):
    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string())
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: ConsumerGroupDescribeAssignment = struct(ConsumerGroupDescribeAssignment)
    target_assignment: ConsumerGroupDescribeAssignment = struct(ConsumerGroupDescribeAssignment)
    member_type: int = int8("1+", default=-1, ignorable=True)


class ConsumerGroupDescribeGroup(Message):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[ConsumerGroupDescribeMember] = array(ConsumerGroupDescribeMember)
    authorized_operations: int = int32(default=-2147483648)


class ConsumerGroupDescribeResponse(Message, api_key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    groups: list[ConsumerGroupDescribeGroup] = array(ConsumerGroupDescribeGroup)
