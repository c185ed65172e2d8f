"""Reassignments: done at once where the new nodes are up, pending where not, cancelled at will, and never stuck."""

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
from support.machines.cluster_stage import ClusterHouse


@pytest.fixture
def town():
    town = ClusterHouse()
    by_hand = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
    asked = CreatableTopic(name="orders", num_partitions=-1, replication_factor=-1, assignments=by_hand)
    assert town.peer().ask(CreateTopicsRequest(topics=[asked]), 7).topics[0].error_code == 0
    return town


def placed(town):
    return town.cluster.placement(town.cluster.topics.get("orders"), 0)


def pending(town, topics=None):
    answer = town.peer().ask(ListPartitionReassignmentsRequest(topics=topics), 0)
    return [
        (t.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for t in answer.topics
        for p in t.partitions
    ]


def test_nodes_that_are_up_take_over_at_once(town):
    assert town.reassign("orders", 0, [3, 2]) == 0

    assert (placed(town).replicas, placed(town).leader) == ([3, 2], 3)
    assert pending(town) == []
    assert town.peer(3).produce("orders", b"v").base_offset == 0


def test_the_leader_stays_where_it_may(town):
    assert town.reassign("orders", 0, [3, 1]) == 0

    assert placed(town).leader == 1
    assert town.elect("orders", 0) == 0
    assert placed(town).leader == 3


def test_a_dead_old_replica_does_not_hold_up_its_reassignment(town):
    town.stop_node(1)
    town.stop_node(2)

    assert town.reassign("orders", 0, [3]) == 0

    assert (placed(town).replicas, placed(town).leader) == ([3], 3)
    assert pending(town) == []


def test_a_dead_new_replica_is_waited_for_and_the_log_serves_on(town):
    town.stop_node(3)

    assert town.reassign("orders", 0, [3]) == 0

    assert pending(town) == [("orders", 0, [3, 1, 2], [3], [1, 2])]
    assert town.peer(1).produce("orders", b"v").base_offset == 0
    one = [ListPartitionReassignmentsTopic(name="orders", partition_indexes=[0])]
    none = [ListPartitionReassignmentsTopic(name="orders", partition_indexes=[1])]
    assert (len(pending(town, one)), len(pending(town, none))) == (1, 0)
    town.start_node(3)
    assert pending(town) == []
    assert (placed(town).replicas, placed(town).leader) == ([3], 3)


def test_a_pending_one_is_cancelled_even_while_every_old_replica_is_dead(town):
    assert town.reassign("orders", 0, [1]) == 0
    town.stop_node(3)
    assert town.reassign("orders", 0, [3]) == 0
    town.stop_node(1)
    assert (placed(town).leader, len(pending(town))) == (-1, 1)

    assert town.reassign("orders", 0, None) == 0

    assert (placed(town).replicas, pending(town)) == ([1], [])
    assert town.reassign("orders", 0, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert town.reassign("orders", 0, [2]) == 0
    assert placed(town).leader == 2


def test_a_partition_is_not_left_to_dead_nodes_while_an_old_one_can_serve(town):
    town.stop_node(2)

    assert town.reassign("orders", 0, [2]) == 0

    assert (placed(town).leader, pending(town)) == (1, [("orders", 0, [2, 1], [], [1])])
    assert town.peer(1).produce("orders", b"v").base_offset == 0
    town.start_node(2)
    assert (placed(town).leader, pending(town)) == (2, [])


def test_a_pending_one_is_replaced_by_the_next(town):
    town.stop_node(3)
    assert town.reassign("orders", 0, [3, 1]) == 0

    assert town.reassign("orders", 0, [2]) == 0

    assert (placed(town).replicas, placed(town).adding, placed(town).leader) == ([2], [], 2)


def test_what_makes_no_sense_is_refused(town):
    bad = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert [town.reassign("orders", 0, to) for to in ([], [1, 1], [9])] == [bad] * 3
    assert town.reassign("orders", 5, [1]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert town.reassign("nope", 0, [1]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = ReassignableTopic(name="orders", partitions=[ReassignablePartition(partition_index=0, replicas=[1])])
    request = AlterPartitionReassignmentsRequest(topics=[asked], allow_replication_factor_change=False)
    answer = town.peer().ask(request, 1)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert placed(town).replicas == [1, 2]


def test_pending_reassignments_outlive_the_process(town):
    town.stop_node(3)
    town.reassign("orders", 0, [3])

    town.restart()

    assert (placed(town).replicas, placed(town).leader) == ([3], 3)


def test_all_preferred_leaders_are_elected_at_once(town):
    town.stop_node(1)
    town.start_node(1)
    assert placed(town).leader == 2

    answer = town.peer().ask(ElectLeadersRequest(election_type=0, topic_partitions=None), 2)

    assert [(t.topic, [p.error_code for p in t.partition_result]) for t in answer.replica_election_results] == [
        ("orders", [0])
    ]
    assert placed(town).leader == 1
