"""DescribeCluster (60): brokers, controller and cluster id, for admin clients.

- 1: type of the endpoints: brokers (1) or controllers (2) (KIP-919).
- 2: fenced brokers can be included.
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, boolean, int8, int16, int32, int64, string, uint16, uuid


class DescribeClusterRequest(Message, api_key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterBroker(Message):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


class DescribeClusterResponse(Message, api_key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)


class QuorumPartition(Message):
    partition_index: int = int32()


class QuorumTopic(Message):
    topic_name: str = string()
    partitions: list[QuorumPartition] = array(QuorumPartition)


class DescribeQuorumRequest(Message, api_key=55, versions="0-2", flexible="0+"):
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
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    topics: list[QuorumTopicResult] = array(QuorumTopicResult)
    nodes: list[QuorumNode] = array(QuorumNode, "2+")
