"""DescribeQuorum, ListConfigResources and DescribeCluster."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.cluster import DescribeQuorumRequest, QuorumPartition, QuorumTopic
from kohort.wire.messages.configs import ListConfigResourcesRequest, ListedConfigResource
from support.machines.broker_stage import BrokerStage

GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC = 32, 16, 8, 4, 2


def quorum_of(peer, topic: str = "__cluster_metadata", index: int = 0, version: int = 2):
    quorum_topic = QuorumTopic(topic_name=topic, partitions=[QuorumPartition(partition_index=index)])
    return peer.ask(DescribeQuorumRequest(topics=[quorum_topic]), version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_controller_is_the_only_quorum_voter(peer, version):
    answer = quorum_of(peer, version=version)

    (topic,) = answer.topics
    (partition,) = topic.partitions
    assert (answer.error_code, topic.topic_name, partition.partition_index) == (0, "__cluster_metadata", 0)
    assert (partition.error_code, partition.leader_id, partition.leader_epoch, partition.high_watermark) == (0, 1, 0, 0)
    assert [(v.replica_id, v.log_end_offset) for v in partition.current_voters] == [(1, 0)]
    assert partition.observers == []


def test_quorum_voter_has_address_and_no_lag(stage, peer):
    stage.advance(5000)

    answer = quorum_of(peer)

    (voter,) = answer.topics[0].partitions[0].current_voters
    assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (stage.now_ms, stage.now_ms)
    (node,) = answer.nodes
    assert [(at.name, at.host, at.port) for at in node.listeners] == [("PLAINTEXT", "127.0.0.1", 9092)]


@pytest.mark.parametrize(("topic", "index"), [("a", 0), ("__cluster_metadata", 1)])
def test_describe_quorum_rejects_other_topics_and_partitions(peer, topic, index):
    answer = quorum_of(peer, topic, index)

    (partition,) = answer.topics[0].partitions
    assert (answer.topics[0].topic_name, partition.partition_index) == (topic, index)
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.nodes == []


def resources(peer, *types: int, version: int = 1):
    answer = peer.ask(ListConfigResourcesRequest(resource_types=list(types)), version)
    assert answer.error_code == 0
    return answer.config_resources


def test_list_config_resources_without_types_lists_all_types():
    peer = BrokerStage().connect()
    peer.create("b")
    peer.create("a")

    listed = resources(peer)

    assert listed == [
        ListedConfigResource(resource_name="1", resource_type=BROKER),
        ListedConfigResource(resource_name="a", resource_type=TOPIC),
        ListedConfigResource(resource_name="b", resource_type=TOPIC),
    ]


def test_list_config_resources_lists_only_requested_types(peer):
    peer.create("a")

    assert [r.resource_name for r in resources(peer, TOPIC)] == ["a"]
    assert [r.resource_name for r in resources(peer, BROKER, BROKER)] == ["1"]
    assert resources(peer, GROUP, CLIENT_METRICS, BROKER_LOGGER) == []


def test_list_config_resources_version_0_lists_only_client_metrics(peer):
    peer.create("a")

    assert resources(peer, version=0) == []


def test_list_config_resources_rejects_an_unknown_resource_type(peer):
    answer = peer.ask(ListConfigResourcesRequest(resource_types=[TOPIC, 77]), 1)

    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
