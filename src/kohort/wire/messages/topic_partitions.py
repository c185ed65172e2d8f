"""DescribeTopicPartitions (75): topics in pages, with the replicas that are eligible to lead. KIP-966."""

from __future__ import annotations

from kohort.wire.schema import Message, array, boolean, int16, int32, string, struct, uuid


class DescribedTopicName(Message):
    name: str = string()


class TopicPartitionsCursor(Message):
    """Where a page begins."""

    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(Message, api_key=75, versions="0", flexible="0+"):
    """DescribeTopicPartitions: what a client asks; no topics mean all of them."""

    topics: list[DescribedTopicName] = array(DescribedTopicName)
    response_partition_limit: int = int32(default=2000)
    cursor: TopicPartitionsCursor | None = struct(TopicPartitionsCursor, nullable="0+", default=None)


class DescribedTopicPartition(Message):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32())
    isr_nodes: list[int] = array(int32())
    eligible_leader_replicas: list[int] | None = array(int32(), nullable="0+", default=None)
    last_known_elr: list[int] | None = array(int32(), nullable="0+", default=None)
    offline_replicas: list[int] = array(int32(), ignorable=True)


class DescribedTopicPartitions(Message):
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid(ignorable=True)
    is_internal: bool = boolean(ignorable=True)
    partitions: list[DescribedTopicPartition] = array(DescribedTopicPartition)
    topic_authorized_operations: int = int32(default=-2147483648)


class DescribeTopicPartitionsResponse(Message, api_key=75, versions="0", flexible="0+"):
    """DescribeTopicPartitions: what a broker answers; ``next_cursor`` where there is more."""

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[DescribedTopicPartitions] = array(DescribedTopicPartitions)
    next_cursor: TopicPartitionsCursor | None = struct(TopicPartitionsCursor, nullable="0+", default=None)
