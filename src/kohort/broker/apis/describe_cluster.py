"""DescribeCluster (60), versions 0-2. KIP-700, KIP-919 (endpoint types), KIP-1073 (stopped nodes are fenced brokers).
DescribeQuorum (55), versions 0-2. KIP-595, KIP-836, KIP-853.

Deviation from Kafka: the controller is one of the nodes and stores its metadata in files, not in a log. DescribeQuorum
shows it as the only voter, the other nodes as observers, and all offsets as 0.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost, NameKind
from kohort.broker.authorization import Rights, guard_cluster, refused_by_topic, unguarded
from kohort.broker.request import Answer, AnswerInSteps, Request
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode
from kohort.security.acls import NOT_REQUESTED, Operation
from kohort.wire.messages import cluster as wire

BROKERS: Final = 1
CONTROLLERS: Final = 2
METADATA: Final = "__cluster_metadata"
FIRST_VERSION_WITH_NODES: Final = 2


def describe_cluster(state: BrokerState, request: Request) -> Answer:
    message: wire.DescribeClusterRequest = request.message
    if message.endpoint_type == CONTROLLERS:
        raise ApiError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "a broker listener has no controller endpoints")
    if message.endpoint_type != BROKERS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"endpoint type {message.endpoint_type} is not supported, expected 1 (brokers)",
        )
    cluster = state.cluster
    shown = cluster.nodes if message.include_fenced_brokers else cluster.live
    return wire.DescribeClusterResponse(
        error_message=None,
        cluster_id=state.topics.cluster_id,
        controller_id=cluster.controller_id,
        brokers=[
            wire.DescribeClusterBroker(
                broker_id=node.node_id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=node.node_id not in cluster.live,
            )
            for node_id in sorted(shown)
            if (node := cluster.nodes[node_id].at.get(request.caller.listener)) is not None
        ],
        cluster_authorized_operations=(
            Rights(state, request).operations_of_cluster()
            if message.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )


def describe_quorum(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.DescribeQuorumRequest = request.message
    known = [wire.QuorumTopic(topic_name=METADATA, partitions=[wire.QuorumPartition(partition_index=0)])]
    if message.topics != known:
        unknown = yield from refused_by_topic(
            message.topics,
            lambda topic: topic.partitions,
            lambda partition: wire.QuorumPartitionResult(
                partition_index=partition.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message=None,
            ),
            lambda topic, made: wire.QuorumTopicResult(topic_name=topic.topic_name, partitions=made),
        )
        return wire.DescribeQuorumResponse(error_message=None, topics=unknown)
    cluster = state.cluster
    controller = cluster.nodes[cluster.controller_id]
    here = controller.at.get(request.caller.listener)
    listeners = [wire.QuorumListener(name=request.caller.listener, host=here.host, port=here.port)] if here else []
    with_nodes = request.version >= FIRST_VERSION_WITH_NODES
    wall_ms = cluster.wall.at(request.now_ms)
    quorum = wire.QuorumPartitionResult(
        error_message=None,
        leader_id=controller.node_id,
        current_voters=[_caught_up(controller.node_id, wall_ms)],
        observers=[_caught_up(node, wall_ms) for node in sorted(cluster.live - {controller.node_id})],
    )
    return wire.DescribeQuorumResponse(
        error_message=None,
        topics=[wire.QuorumTopicResult(topic_name=METADATA, partitions=[quorum])],
        nodes=[wire.QuorumNode(node_id=controller.node_id, listeners=listeners)] if with_nodes else [],
    )


def _caught_up(node_id: int, wall_ms: int) -> wire.QuorumReplicaState:
    """Describe a node for DescribeQuorum: always caught up, as all nodes share the metadata."""
    return wire.QuorumReplicaState(replica_id=node_id, last_fetch_timestamp=wall_ms, last_caught_up_timestamp=wall_ms)


DESCRIBE_CLUSTER = BrokerApi(
    wire.DescribeClusterRequest,
    describe_cluster,
    unguarded,  # the handler omits the authorized operations for clients without DESCRIBE on the cluster
    Cost(AnswerBound.FIXED, one_step="the nodes of one process"),
)
DESCRIBE_QUORUM = BrokerApi(
    wire.DescribeQuorumRequest,
    describe_quorum,
    guard_cluster(
        Operation.DESCRIBE,
        lambda _message, code, text: wire.DescribeQuorumResponse(error_code=code, error_message=text),
    ),
    Cost(AnswerBound.REQUEST),
    names={"topics.topic_name": NameKind.TOPIC},
)
