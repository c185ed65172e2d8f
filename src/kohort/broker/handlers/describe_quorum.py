"""DescribeQuorum (55), versions 0-2: who decides on the cluster's metadata. KIP-595, KIP-836, KIP-853.

Deviation: the controller is a node of this process and its metadata are in files, not in a log. It is shown as what it
is to a client: the only voter of a quorum, with nothing to replicate (offsets are 0), which the other nodes observe.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.request import AnswerInSteps, Request
from kohort.broker.state import BrokerState
from kohort.errors import ErrorCode
from kohort.steps import Pace
from kohort.wire.messages.cluster import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    QuorumPartition,
    QuorumPartitionResult,
    QuorumReplicaState,
    QuorumTopic,
    QuorumTopicResult,
)

METADATA: Final = "__cluster_metadata"
FIRST_VERSION_WITH_NODES: Final = 2
UNKNOWN_US: Final = 2


def describe_quorum(state: BrokerState, request: Request) -> AnswerInSteps:
    message: DescribeQuorumRequest = request.message
    known = [QuorumTopic(topic_name=METADATA, partitions=[QuorumPartition(partition_index=0)])]
    if message.topics != known:
        pace = Pace()
        unknown = []
        for topic in message.topics:
            partitions = []
            for partition in topic.partitions:
                partitions.append(_unknown(partition.partition_index))
                if pace.is_due(UNKNOWN_US):
                    yield
            unknown.append(QuorumTopicResult(topic_name=topic.topic_name, partitions=partitions))
        return DescribeQuorumResponse(error_message=None, topics=unknown)
    controller = state.cluster.nodes[state.cluster.controller_id]
    here = controller.at.get(request.caller.listener)
    listeners = [QuorumListener(name=request.caller.listener, host=here.host, port=here.port)] if here else []
    with_nodes = request.version >= FIRST_VERSION_WITH_NODES
    wall_ms = state.cluster.wall.at(request.now_ms)
    return DescribeQuorumResponse(
        error_message=None,
        topics=[QuorumTopicResult(topic_name=METADATA, partitions=[_quorum(state, wall_ms)])],
        nodes=[QuorumNode(node_id=controller.node_id, listeners=listeners)] if with_nodes else [],
    )


def _quorum(state: BrokerState, wall_ms: int) -> QuorumPartitionResult:
    cluster = state.cluster
    return QuorumPartitionResult(
        error_message=None,
        leader_id=cluster.controller_id,
        current_voters=[_caught_up(cluster.controller_id, wall_ms)],
        observers=[_caught_up(node, wall_ms) for node in sorted(cluster.live - {cluster.controller_id})],
    )


def _caught_up(node_id: int, wall_ms: int) -> QuorumReplicaState:
    """Return every node of the process as caught up: it sees a change as it is made."""
    return QuorumReplicaState(replica_id=node_id, last_fetch_timestamp=wall_ms, last_caught_up_timestamp=wall_ms)


def _unknown(index: int) -> QuorumPartitionResult:
    return QuorumPartitionResult(
        partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=None
    )
