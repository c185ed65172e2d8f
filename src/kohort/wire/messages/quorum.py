"""DescribeQuorum (55): who votes on the cluster's metadata, and how far each voter has come. KIP-595.

- 1: when each replica fetched last, and when it had caught up (KIP-836).
- 2: directory ids, messages, and where the voters listen (KIP-853).
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, int16, int32, int64, string, uint16, uuid


class QuorumPartition(Message):
    partition_index: int = int32()


class QuorumTopic(Message):
    topic_name: str = string()
    partitions: list[QuorumPartition] = array(QuorumPartition)


class DescribeQuorumRequest(Message, api_key=55, versions="0-2", flexible="0+"):
    """DescribeQuorum: what a client asks."""

    topics: list[QuorumTopic] = array(QuorumTopic)


class QuorumReplicaState(Message):
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)


class QuorumPartitionResult(Message):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[QuorumReplicaState] = array(QuorumReplicaState)
    observers: list[QuorumReplicaState] = array(QuorumReplicaState)


class QuorumTopicResult(Message):
    topic_name: str = string()
    partitions: list[QuorumPartitionResult] = array(QuorumPartitionResult)


class QuorumListener(Message):
    name: str = string("2+")
    host: str = string("2+")
    port: int = uint16("2+")


class QuorumNode(Message):
    node_id: int = int32("2+")
    listeners: list[QuorumListener] = array(QuorumListener, "2+")


class DescribeQuorumResponse(Message, api_key=55, versions="0-2", flexible="0+"):
    """DescribeQuorum: what a broker answers."""

    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    topics: list[QuorumTopicResult] = array(QuorumTopicResult)
    nodes: list[QuorumNode] = array(QuorumNode, "2+")
