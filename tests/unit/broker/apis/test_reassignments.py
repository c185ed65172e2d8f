"""Reassignments of partitions, pending and completed, and elections of leaders."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopic,
    ReassignablePartition,
    ReassignableTopic,
)
from kohort.wire.messages.topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from support.machines.cluster_stage import ClusterStage


@pytest.fixture
def stage():
    stage = ClusterStage()
    by_hand = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
    request_topic = CreatableTopic(name="orders", num_partitions=-1, replication_factor=-1, assignments=by_hand)
    assert stage.peer().ask(CreateTopicsRequest(topics=[request_topic]), 7).topics[0].error_code == 0
    return stage


def placed(stage):
    return stage.cluster.placement(stage.cluster.topics.get("orders"), 0)


def pending(stage, topics=None):
    answer = stage.peer().ask(ListPartitionReassignmentsRequest(topics=topics), 0)
    return [
        (t.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for t in answer.topics
        for p in t.partitions
    ]


def test_reassignment_to_live_nodes_completes_at_once(stage):
    assert stage.reassign("orders", 0, [3, 2]) == 0

    assert (placed(stage).replicas, placed(stage).leader) == ([3, 2], 3)
    assert pending(stage) == []
    assert stage.peer(3).produce("orders", b"v").base_offset == 0


def test_leader_does_not_change_if_it_remains_a_replica(stage):
    assert stage.reassign("orders", 0, [3, 1]) == 0

    assert placed(stage).leader == 1
    assert stage.elect("orders", 0) == 0
    assert placed(stage).leader == 3


def test_dead_removed_replica_does_not_delay_the_reassignment(stage):
    stage.stop_node(1)
    stage.stop_node(2)

    assert stage.reassign("orders", 0, [3]) == 0

    assert (placed(stage).replicas, placed(stage).leader) == ([3], 3)
    assert pending(stage) == []


def test_reassignment_waits_for_a_dead_added_replica(stage):
    stage.stop_node(3)

    assert stage.reassign("orders", 0, [3]) == 0

    assert pending(stage) == [("orders", 0, [3, 1, 2], [3], [1, 2])]
    assert stage.peer(1).produce("orders", b"v").base_offset == 0
    one = [ListPartitionReassignmentsTopic(name="orders", partition_indexes=[0])]
    none = [ListPartitionReassignmentsTopic(name="orders", partition_indexes=[1])]
    assert (len(pending(stage, one)), len(pending(stage, none))) == (1, 0)
    stage.start_node(3)
    assert pending(stage) == []
    assert (placed(stage).replicas, placed(stage).leader) == ([3], 3)


def test_pending_reassignment_can_be_cancelled_while_old_replicas_are_dead(stage):
    assert stage.reassign("orders", 0, [1]) == 0
    stage.stop_node(3)
    assert stage.reassign("orders", 0, [3]) == 0
    stage.stop_node(1)
    assert (placed(stage).leader, len(pending(stage))) == (-1, 1)

    assert stage.reassign("orders", 0, None) == 0

    assert (placed(stage).replicas, pending(stage)) == ([1], [])
    assert stage.reassign("orders", 0, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert stage.reassign("orders", 0, [2]) == 0
    assert placed(stage).leader == 2


def test_reassignment_stays_pending_while_only_a_removed_replica_is_up(stage):
    stage.stop_node(2)

    assert stage.reassign("orders", 0, [2]) == 0

    assert (placed(stage).leader, pending(stage)) == (1, [("orders", 0, [2, 1], [], [1])])
    assert stage.peer(1).produce("orders", b"v").base_offset == 0
    stage.start_node(2)
    assert (placed(stage).leader, pending(stage)) == (2, [])


def test_new_reassignment_replaces_a_pending_one(stage):
    stage.stop_node(3)
    assert stage.reassign("orders", 0, [3, 1]) == 0

    assert stage.reassign("orders", 0, [2]) == 0

    assert (placed(stage).replicas, placed(stage).adding, placed(stage).leader) == ([2], [], 2)


def test_invalid_reassignment_is_rejected(stage):
    bad = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert [stage.reassign("orders", 0, to) for to in ([], [1, 1], [9])] == [bad] * 3
    assert stage.reassign("orders", 5, [1]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert stage.reassign("nope", 0, [1]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    request_topic = ReassignableTopic(
        name="orders", partitions=[ReassignablePartition(partition_index=0, replicas=[1])]
    )
    request = AlterPartitionReassignmentsRequest(topics=[request_topic], allow_replication_factor_change=False)
    answer = stage.peer().ask(request, 1)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert placed(stage).replicas == [1, 2]


def test_pending_reassignment_survives_a_restart(stage):
    stage.stop_node(3)
    stage.reassign("orders", 0, [3])

    stage.restart()

    assert (placed(stage).replicas, placed(stage).leader) == ([3], 3)


def test_preferred_leaders_of_all_partitions_are_elected(stage):
    stage.stop_node(1)
    stage.start_node(1)
    assert placed(stage).leader == 2

    answer = stage.peer().ask(ElectLeadersRequest(election_type=0, topic_partitions=None), 2)

    assert [(t.topic, [p.error_code for p in t.partition_result]) for t in answer.replica_election_results] == [
        ("orders", [0])
    ]
    assert placed(stage).leader == 1
