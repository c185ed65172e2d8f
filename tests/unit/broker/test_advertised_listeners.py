"""Nodes without an address on the listener of a client."""

from kohort.errors import ErrorCode
from kohort.wire.messages.cluster import DescribeClusterRequest, DescribeQuorumRequest, QuorumPartition, QuorumTopic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.topics import DescribedTopicName, DescribeTopicPartitionsRequest
from support.machines.broker_stage import BrokerStage

LISTENERS = {
    "listeners": "INNER://127.0.0.1:1,OUTER://127.0.0.1:2",
    "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:PLAINTEXT",
    "advertised.listeners": "OUTER://far:9",
}


def inside(stage: BrokerStage):
    return stage.connect(listener="INNER")


def test_node_without_address_on_the_listener_is_omitted():
    stage = BrokerStage(**LISTENERS)
    quorum = [QuorumTopic(topic_name="__cluster_metadata", partitions=[QuorumPartition(partition_index=0)])]

    for listener, expected in (("INNER", []), ("OUTER", [("far", 9)])):
        peer = stage.connect(listener=listener)
        metadata = peer.ask(MetadataRequest(topics=[]), 12)
        described = peer.ask(DescribeClusterRequest(), 2)
        (controller,) = peer.ask(DescribeQuorumRequest(topics=quorum), 2).nodes
        for nodes in (metadata.brokers, described.brokers, controller.listeners):
            assert [(node.host, node.port) for node in nodes] == expected


def test_partitions_of_an_omitted_node_have_no_leader():
    stage = BrokerStage(**LISTENERS)
    stage.connect(listener="OUTER").create("t")
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])

    def partition_at(version: int):
        partition = inside(stage).ask(request, version).topics[0].partitions[0]
        return partition.error_code, partition.leader_id, partition.offline_replicas

    assert partition_at(12) == (ErrorCode.LISTENER_NOT_FOUND, -1, [1])
    assert partition_at(6)[:2] == (ErrorCode.LISTENER_NOT_FOUND, -1)
    assert partition_at(5)[:2] == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    page = inside(stage).ask(DescribeTopicPartitionsRequest(topics=[DescribedTopicName(name="t")]), 0)
    assert page.topics[0].partitions[0].leader_id == -1
    (partition,) = stage.connect(listener="OUTER").ask(request, 12).topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.offline_replicas) == (0, 1, [])


def test_groups_of_an_omitted_node_have_no_coordinator():
    stage = BrokerStage(**LISTENERS)

    (coordinator,) = inside(stage).ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators

    assert (coordinator.error_code, coordinator.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert coordinator.error_message == "node 1, which coordinates 'g', has no address on listener INNER"
