"""Three nodes over one storage: leaders, replicas, elections, stopped nodes."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.cluster import DescribeClusterRequest
from kohort.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.producer_ids import DescribeProducersRequest, DescribeProducersTopic
from kohort.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import fetch_request, produce_request, values_of
from support.machines.cluster_stage import ClusterStage


@pytest.fixture
def stage():
    return ClusterStage()


def create(stage, topic, partitions=1, replicas=-1, assignments=()):
    by_hand = [CreatableReplicaAssignment(partition_index=i, broker_ids=list(a)) for i, a in enumerate(assignments)]
    request_topic = CreatableTopic(
        name=topic,
        num_partitions=-1 if by_hand else partitions,
        replication_factor=-1 if by_hand else replicas,
        assignments=by_hand,
    )
    return stage.peer().ask(CreateTopicsRequest(topics=[request_topic]), 7).topics[0]


def describe(stage, topic):
    answer = stage.peer().ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    return answer.topics[0].partitions


def batch(*values):
    return build_batch([NewRecord(None, value, (), 5) for value in values])


def test_leaders_of_partitions_rotate_over_the_nodes(stage):
    create(stage, "orders", partitions=6, replicas=3)

    answers = [stage.peer(n).ask(MetadataRequest(topics=None), 12) for n in (1, 2, 3)]

    leaders = [p.leader_id for p in answers[0].topics[0].partitions]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
    assert leaders[:3] == leaders[3:]
    assert answers[1] == answers[2] == answers[0]
    assert [(b.node_id, b.port) for b in answers[0].brokers] == [(1, 9091), (2, 9092), (3, 9093)]
    assert answers[0].controller_id == 1
    for partition in answers[0].topics[0].partitions:
        assert partition.replica_nodes[0] == partition.leader_id
        assert sorted(partition.isr_nodes) == [1, 2, 3]


def test_replication_factor_is_limited_by_the_live_nodes(stage):
    assert create(stage, "a", replicas=4).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert create(stage, "b", replicas=2).replication_factor == 2
    assert create(stage, "c", assignments=[[3, 1], [2, 3]]).error_code == 0
    assert [p.leader_id for p in describe(stage, "c")] == [3, 2]
    assert create(stage, "d", assignments=[[3, 9]]).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert create(stage, "e", assignments=[[3], [1, 2]]).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    request_topic = CreatePartitionsTopic(
        name="c", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[1, 2])]
    )
    assert stage.peer().ask(CreatePartitionsRequest(topics=[request_topic]), 3).results[0].error_code == 0
    assert [p.replica_nodes for p in describe(stage, "c")] == [[3, 1], [2, 3], [1, 2]]


def test_error_response_of_a_follower_names_the_leader(stage):
    create(stage, "orders", assignments=[[2]])
    stranger, topic_id = stage.peer(1), stage.cluster.topics.get("orders").topic_id

    produced = stranger.ask(produce_request("orders", batch(b"v")), 10)
    fetched = stranger.ask(fetch_request("orders", topic_id=topic_id), 16)

    refused = produced.responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (2, 0)
    assert [(n.node_id, n.host, n.port) for n in produced.node_endpoints] == [(2, "127.0.0.1", 9092)]
    data = fetched.responses[0].partitions[0]
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 0)
    assert [(n.node_id, n.port) for n in fetched.node_endpoints] == [(2, 9092)]
    assert stranger.ask(produce_request("orders", batch(b"v")), 9).responses[0].partition_responses[0].error_code == 6
    listed = stranger.ask(
        ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(timestamp=-1)])]), 6
    )
    assert listed.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    epochs = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="orders", partitions=[OffsetForLeaderPartition(leader_epoch=0)])]
    )
    assert stranger.ask(epochs, 4).topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_each_replica_describes_the_producers_of_a_partition(stage):
    create(stage, "orders", assignments=[[2, 3]])
    record = NewRecord(None, b"v", (), 5)
    produced = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0)
    assert stage.peer(2).produce("orders", batch=produced).error_code == 0

    request = DescribeProducersRequest(topics=[DescribeProducersTopic(name="orders", partition_indexes=[0])])
    results = {node: stage.peer(node).ask(request, 0).topics[0].partitions[0] for node in (1, 2, 3)}

    assert results[1].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [producer.producer_id for producer in results[2].active_producers] == [7]
    assert results[3] == results[2]


@pytest.mark.parametrize(
    ("topic", "option"),
    [
        ("__consumer_offsets", "offsets.topic.replication.factor"),
        ("__transaction_state", "transaction.state.log.replication.factor"),
    ],
)
@pytest.mark.parametrize(("factor", "replicas"), [(1, 1), (2, 2), (9, 3), (None, 3)])
def test_internal_topics_have_the_configured_replicas(topic, option, factor, replicas):
    stage = ClusterStage(**({} if factor is None else {option: factor}))

    assert {len(partition.replica_nodes) for partition in describe(stage, topic)} == {replicas}


def test_new_leader_continues_the_log_in_a_later_epoch(stage):
    create(stage, "orders", assignments=[[1, 2]])
    assert stage.peer(1).produce("orders", b"one").base_offset == 0

    stage.move("orders", 0, 2)

    assert stage.peer(1).produce("orders", b"lost").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert stage.peer(2).produce("orders", b"two").base_offset == 1
    read = stage.peer(2).fetch("orders", 0).responses[0].partitions[0]
    assert values_of(b"".join(map(bytes, [read.records]))) == [b"one", b"two"]
    assert stage.cluster.topics.log("orders", 0).epochs.entries == [(0, 0), (1, 1)]
    assert describe(stage, "orders")[0].leader_epoch == 1


def test_waiting_fetch_gets_not_leader_when_its_partition_moves(stage):
    create(stage, "orders", assignments=[[1, 2]])
    reader = stage.peer(1)
    reader.send(fetch_request("orders", 0, max_wait_ms=60_000), 12)
    assert reader.take() is None

    stage.move("orders", 0, 2)

    data = reader.take().responses[0].partitions[0]
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data.current_leader.leader_id == 2


def test_stopped_leader_is_replaced_and_out_of_sync_until_it_is_back(stage):
    create(stage, "orders", assignments=[[3, 1]])
    create(stage, "alone", assignments=[[3]])
    stage.peer(3).produce("orders", b"one")
    there = stage.peer(3)

    stage.stop_node(3)

    assert there.closed == "the node was stopped"
    (orders,), (alone,) = describe(stage, "orders"), describe(stage, "alone")
    assert (orders.leader_id, orders.isr_nodes, orders.offline_replicas) == (1, [1], [3])
    assert (alone.error_code, alone.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert alone.offline_replicas == [3]
    assert stage.peer(1).produce("orders", b"two").base_offset == 1
    answer = stage.peer().ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
    assert [(b.broker_id, b.is_fenced) for b in answer.brokers] == [(1, False), (2, False), (3, True)]
    assert len(stage.peer().ask(DescribeClusterRequest(), 2).brokers) == 2

    stage.start_node(3)

    assert [p.leader_id for p in describe(stage, "alone")] == [3]
    assert describe(stage, "orders")[0].leader_id == 1
    assert stage.elect("orders", 0) == 0
    assert describe(stage, "orders")[0].leader_id == 3
    assert stage.elect("orders", 0) == ErrorCode.ELECTION_NOT_NEEDED
    assert stage.peer(3).produce("orders", b"three").base_offset == 2


def test_last_live_node_cannot_be_stopped(stage):
    stage.stop_node(1)
    stage.stop_node(3)

    assert stage.alter_stopped(2, 2) == ErrorCode.INVALID_CONFIG
    assert stage.alter_stopped(2, 7) == ErrorCode.INVALID_CONFIG

    resource = DescribeConfigsResource(resource_type=4, resource_name="", configuration_keys=None)
    (setting,) = stage.peer(2).ask(DescribeConfigsRequest(resources=[resource]), 4).results[0].configs
    assert (setting.name, setting.value, setting.read_only) == ("kohort.stopped.nodes", "1,3", False)
    stage.start_node(3)
    assert sorted(stage.nodes) == [2, 3]


def test_unneeded_and_impossible_leader_elections_are_rejected(stage):
    create(stage, "orders", assignments=[[3]])
    create(stage, "pair", assignments=[[3, 2]])
    stage.stop_node(3)

    assert stage.elect("pair", 0) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert stage.elect("orders", 0, 1) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert stage.elect("pair", 0, 1) == ErrorCode.ELECTION_NOT_NEEDED
    assert stage.elect("nope", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_placements_and_leader_epochs_survive_a_restart(stage):
    create(stage, "orders", assignments=[[1, 2], [3, 2]])
    stage.peer(1).produce("orders", b"one")
    stage.move("orders", 0, 2)

    for cleanly in (True, False):
        stage.restart(cleanly=cleanly)

        assert [p.leader_id for p in describe(stage, "orders")] == [2, 3]
        assert [p.replica_nodes for p in describe(stage, "orders")] == [[2, 1], [3, 2]]
        assert describe(stage, "orders")[0].leader_epoch >= 1

    stage.restart(1)
    assert [p.leader_id for p in describe(stage, "orders")] == [1, 1]


def test_deleted_topic_is_unknown_on_each_node(stage):
    create(stage, "orders", assignments=[[2]])
    reader = stage.peer(2)
    reader.send(fetch_request("orders", 0, max_wait_ms=60_000), 12)

    stage.peer(1).ask(DeleteTopicsRequest(topic_names=["orders"]), 5)

    assert reader.take().responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
