"""Transactions over several nodes."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.produce import ProduceRequest
from kohort.wire.messages.transactions import ListTransactionsRequest, TxnOffsetCommitRequest
from support.machines.cluster_stage import ClusterStage
from support.raw.transactional import Transactional, committed_offset, committed_values, fetched


class Router:
    """Sends each request to the node that leads its partition or coordinates its group or transactional id."""

    def __init__(self, stage, transactional_id):
        self.stage = stage
        self.transactional_id = transactional_id

    def coordinator(self):
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id])
        return self.stage.peer().ask(request, 4).coordinators[0].node_id

    def ask(self, message, version):
        if isinstance(message, ProduceRequest):
            node = self.stage.leader(message.topic_data[0].name, message.topic_data[0].partition_data[0].index)
        elif isinstance(message, TxnOffsetCommitRequest):
            node = self.stage.coordinator(message.group_id)
        else:
            node = self.coordinator()
        return self.stage.peer(node).ask(message, version)


@pytest.fixture
def stage():
    stage = ClusterStage()
    stage.peer().create("a")
    return stage


@pytest.fixture(params=["before KIP-890", "after KIP-890"])
def producer(stage, request):
    made = Transactional(Router(stage, "t"), new=request.param == "after KIP-890")
    assert made.init() == 0
    return made


def reader(stage):
    return stage.peer(stage.leader("a"))


def other(node_id):
    return node_id % 3 + 1


def test_only_the_coordinator_serves_transaction_requests(stage, producer):
    node = producer.peer.coordinator()
    stranger = Transactional(stage.peer(other(node)))

    assert stranger.init() == ErrorCode.NOT_COORDINATOR

    listed = {n: stage.peer(n).ask(ListTransactionsRequest(), 0).transaction_states for n in stage.nodes}
    assert [n for n, found in listed.items() if found] == [node]


@pytest.mark.parametrize("commit", [True, False])
def test_waiting_fetch_on_the_leader_is_woken_by_the_coordinator_on_another_node(stage, producer, commit):
    stage.move("a", 0, other(producer.peer.coordinator()))
    producer.send("a", b"1")
    waiting = reader(stage)
    request_topic = FetchTopic(topic="a", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
    waiting.send(
        FetchRequest(max_wait_ms=60_000, min_bytes=1, isolation_level=1, session_epoch=-1, topics=[request_topic]), 12
    )
    assert waiting.take() is None

    producer.end(commit=commit)

    assert waiting.take() is not None
    assert committed_values(reader(stage), "a") == [b"1"] * commit


def test_transactional_offsets_of_a_group_on_another_node_are_committed(stage, producer):
    stage.coordinator("g")
    stage.move_coordinator("g", other(producer.peer.coordinator()))
    assert producer.commit_offsets("g", "a", 7) == 0
    asker = stage.peer(stage.coordinator("g"))
    assert committed_offset(asker, "g", "a", stable=True)[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT

    producer.end(commit=True)

    assert committed_offset(asker, "g", "a", stable=True) == (0, 7)


def test_pending_transactional_offsets_move_with_their_group(stage, producer):
    assert producer.commit_offsets("g", "a", 7) == 0

    stage.move_coordinator("g", other(stage.coordinator("g")))

    asker = stage.peer(stage.coordinator("g"))
    assert committed_offset(asker, "g", "a", stable=True)[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    producer.end(commit=True)
    assert committed_offset(asker, "g", "a", stable=True) == (0, 7)


def test_transaction_continues_after_its_coordinator_is_stopped(stage, producer):
    producer.send("a", b"1")
    before = producer.peer.coordinator()

    stage.stop_node(before)

    assert producer.peer.coordinator() != before
    producer.send("a", b"2")
    assert producer.end(commit=True) == 0
    assert committed_values(reader(stage), "a") == [b"1", b"2"]
    stage.restart(cleanly=False)
    assert committed_values(reader(stage), "a") == [b"1", b"2"]


def test_transaction_times_out_on_any_node(stage, producer):
    producer.send("a", b"1")

    stage.advance(producer.timeout_ms + 1)

    assert fetched(reader(stage), "a").last_stable_offset == 2
    assert committed_values(reader(stage), "a") == []
