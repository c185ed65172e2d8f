"""DescribeCluster (60), versions 0-2. KIP-700, KIP-919 (endpoint types), KIP-1073 (fenced: stopped)."""

from __future__ import annotations

from typing import Final

from kohort.broker.authorization import operations_of_cluster
from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode
from kohort.security.acls import NOT_ASKED
from kohort.wire.messages.cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

BROKERS: Final = 1
CONTROLLERS: Final = 2


def describe_cluster(state: BrokerState, request: Request) -> Answer:
    message: DescribeClusterRequest = request.message
    if message.endpoint_type == CONTROLLERS:
        raise ApiError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker's listener, not a controller's")
    if message.endpoint_type != BROKERS:
        raise ApiError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {message.endpoint_type}")
    cluster = state.cluster
    shown = cluster.nodes if message.include_fenced_brokers else cluster.live
    return DescribeClusterResponse(
        error_message=None,
        cluster_id=state.topics.cluster_id,
        controller_id=cluster.controller_id,
        brokers=[
            DescribeClusterBroker(
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
            operations_of_cluster(state, request) if message.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
