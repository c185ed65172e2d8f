"""Groups whose coordinator moves to another node."""

import pytest

from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.storage import MemoryStorage
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_admin import ListGroupsRequest
from kohort.wire.messages.topics import DeleteTopicsRequest
from support.machines.cluster_stage import OFFSETS, ClusterStage
from support.raw.group_member import RawMember, committed


@pytest.fixture
def stage():
    stage = ClusterStage()
    stage.peer().create("orders", 2)
    return stage


def other(node_id):
    return node_id % 3 + 1


def stable_pair(stage, group="crew"):
    one, two = stage.member(group, ["orders"]), stage.member(group, ["orders"])
    one.join()
    two.start_join()
    one.start_join()
    one.end_join()
    two.end_join()
    leader, follower = (one, two) if one.leader else (two, one)
    plan = {leader.member_id: {"orders": [0]}, follower.member_id: {"orders": [1]}}
    assert leader.sync(plan).error_code == 0
    assert follower.sync().error_code == 0
    return leader, follower


def test_leader_of_the_offsets_partition_coordinates_the_group(stage):
    group = "crew"
    node = stage.coordinator(group)
    partition = stage.coordinator_partition(group)

    assert node == stage.leader(OFFSETS, partition)
    member = stage.member(group, ["orders"])
    member.wire = stage.peer(other(node))
    answer = member.wire.ask(member.join_request(), 9)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


def test_stable_group_survives_a_coordinator_move_without_rebalance(stage):
    leader, follower = stable_pair(stage)
    assert leader.commit("orders", 0, 41) == 0
    old = stage.coordinator("crew")

    stage.move_coordinator("crew", other(old))

    assert leader.heartbeat() == ErrorCode.NOT_COORDINATOR
    for member in (leader, follower):
        stage.follow(member)
        assert member.heartbeat() == 0
    assert leader.commit("orders", 0, 42) == 0
    assert committed(leader.wire, "crew", "orders", [0, 1]) == {0: 42, 1: -1}
    assert leader.generation == 2
    for _ in range(10):
        stage.advance(3000)
        assert (leader.heartbeat(), follower.heartbeat()) == (0, 0)


def test_waiting_join_group_gets_not_coordinator_when_its_group_moves(stage):
    leader, follower = stable_pair(stage)
    late = stage.member("crew", ["orders"])
    late.start_join()
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    old = stage.coordinator("crew")

    stage.move_coordinator("crew", other(old))

    assert late.wire.take().error_code == ErrorCode.NOT_COORDINATOR
    stage.follow(late)
    late.member_id = ""
    late.start_join()
    for member in (leader, follower):
        stage.follow(member)
        assert member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        member.start_join()
    for member in (leader, follower, late):
        member.end_join()
    assert {leader.generation, follower.generation, late.generation} == {3}


def test_offsets_partition_is_loaded_again_when_it_returns_to_a_node(stage):
    leader, _ = stable_pair(stage)
    old = stage.coordinator("crew")
    partition = stage.coordinator_partition("crew")
    topic = stage.cluster.topics.get(OFFSETS)
    before = stage.cluster.placement(topic, partition)

    stage.cluster.change_all([(topic, partition, type(before)([other(old)]))])
    stage.cluster.change_all([(topic, partition, before)])
    stage.settle()

    assert stage.coordinator("crew") == old
    assert leader.heartbeat() == 0
    assert topic.partitions[partition].leader_epoch == 2


class FullDisk(MemoryStorage):
    """A disk that can append, but cannot replace files while it is full."""

    full = False

    def replace(self, name, content, *, durable=True, private=False):
        if self.full:
            raise StorageError(f"cannot replace {name}: no space left")
        super().replace(name, content, durable=durable, private=private)


@pytest.mark.parametrize("refused", ["kohort-cluster.json", "leader-epoch-checkpoint"])
def test_failed_leader_move_keeps_the_coordinator(refused, monkeypatch):
    stage = ClusterStage(storage=MemoryStorage())
    stage.peer().create("orders", 2)
    leader, _ = stable_pair(stage)
    old = stage.coordinator("crew")
    topic, partition = stage.cluster.topics.get(OFFSETS), stage.coordinator_partition("crew")
    replace = MemoryStorage.replace

    def refuse(storage, name, content, *, durable=True, private=False):
        if name.endswith(refused):
            raise StorageError(f"cannot replace {name}: no space left")
        replace(storage, name, content, durable=durable, private=private)

    monkeypatch.setattr(MemoryStorage, "replace", refuse)
    with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
        stage.cluster.lead(topic, partition, other(old))
    stage.settle()

    assert stage.coordinator("crew") == old
    assert leader.heartbeat() == 0
    assert leader.commit("orders", 0, 43) == 0, "the coordinator uses the new leader epoch"


def test_leader_that_replaces_a_stopped_node_does_not_wait_for_a_full_disk():
    disk = FullDisk()
    stage = ClusterStage(storage=disk)
    stage.peer().create("orders", 2)
    leader, follower = stable_pair(stage)
    stopped = stage.coordinator("crew")

    disk.full = True
    stage.stop_node(stopped)

    assert stage.coordinator("crew") != stopped
    for member in (leader, follower):
        stage.follow(member)
        assert member.heartbeat() == 0
    disk.full = False
    stage.start_node(stopped)
    stage.restart(cleanly=False)
    assert stage.coordinator("crew") != stopped, "the new leader was stored when the disk had room again"


def test_coordinator_on_a_stopped_node_is_replaced(stage):
    leader, follower = stable_pair(stage)
    assert follower.commit("orders", 1, 7) == 0

    stage.stop_node(stage.coordinator("crew"))

    for member in (leader, follower):
        stage.follow(member)
        assert member.heartbeat() == 0
    assert committed(leader.wire, "crew", "orders", [1]) == {1: 7}


def test_members_that_die_during_a_coordinator_move_expire_on_the_next_coordinator(stage):
    stable_pair(stage)

    stage.move_coordinator("crew", other(stage.coordinator("crew")))
    stage.advance(11_000)

    answer = stage.peer(stage.coordinator("crew")).ask(ListGroupsRequest(), 4)
    assert [(g.group_id, g.group_state) for g in answer.groups] == [("crew", "Empty")]


def test_request_to_a_group_without_a_live_coordinator_gets_coordinator_not_available(stage):
    stage.coordinator("crew")
    partition = stage.coordinator_partition("crew")
    assert stage.reassign(OFFSETS, partition, [3]) == 0
    stage.stop_node(3)

    from kohort.wire.messages.find_coordinator import FindCoordinatorRequest

    (found,) = stage.peer().ask(FindCoordinatorRequest(coordinator_keys=["crew"]), 4).coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    stage.start_node(3)
    assert stage.coordinator("crew") == 3


@pytest.mark.heavy
def test_large_offsets_partition_is_loaded_in_steps(stage):
    leader, _ = stable_pair(stage)
    for n in range(2100):
        assert leader.commit("orders", 0, n) == 0
    old = stage.coordinator("crew")
    new, partition = other(old), stage.coordinator_partition("crew")
    topic = stage.cluster.topics.get(OFFSETS)
    waiting = stage.peer(new)
    placed = stage.cluster.placement(topic, partition)

    stage.cluster.change_all([(topic, partition, type(placed)([new]))])
    node = stage.nodes[new]
    member = leader
    member.wire = waiting
    waiting.stage = _Unsettled(node)

    assert member.commit("orders", 0, 5000) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert member.heartbeat() == 0
    assert node.broker.wake_at_ms == 0
    stage.settle()
    waiting.stage = node
    assert committed(waiting, "crew", "orders", [0]) == {0: 2099}
    assert member.commit("orders", 0, 5000) == 0


class _Unsettled:
    """A node that handles an event, but neither the ticks that become due nor messages to other nodes."""

    def __init__(self, node):
        self.node = node

    def give(self, event):
        self.node.handle(event)

    @property
    def now_ms(self):
        return self.node.now_ms


def test_offsets_of_a_deleted_topic_are_removed_on_each_coordinator(stage):
    groups = [f"crew-{n}" for n in range(8)]
    for group in groups:
        member = stage.member(group, ["orders"])
        assert member.commit("orders", 0, 5, generation=-1) == 0
    assert len({stage.coordinator(group) for group in groups}) > 1

    stage.peer(2).ask(DeleteTopicsRequest(topic_names=["orders"]), 5)

    for group in groups:
        assert committed(stage.peer(stage.coordinator(group)), group, "orders", [0]) == {0: -1}


def test_journal_is_written_by_each_node_and_read_from_its_leader(stage):
    from support.machines.broker_stage import fetch_request

    for n in range(6):
        stable_pair(stage, f"crew-{n}")
    reader = stage.peer(stage.leader("__kohort_journal"))
    end = stage.cluster.topics.log("__kohort_journal", 0).log_end_offset
    reader.send(fetch_request("__kohort_journal", end, max_wait_ms=60_000), 12)
    assert reader.take() is None

    away = next(g for g in (f"x{n}" for n in range(50)) if stage.coordinator(g) != stage.leader("__kohort_journal"))
    stage.member(away, ["orders"]).join()

    assert reader.take().responses[0].partitions[0].records


def test_join_group_is_served_right_after_another_node_created_the_offsets_topic(monkeypatch):
    stage = ClusterStage()
    peers = {node_id: stage.peer(node_id) for node_id in stage.nodes}
    monkeypatch.setattr(stage, "settle", lambda: None)

    groups = [f"group-{number}" for number in range(6)]
    found = peers[1].ask(FindCoordinatorRequest(coordinator_keys=groups), 4).coordinators
    codes = {}
    for one in found:
        member = RawMember(peers[one.node_id], one.key, ["orders"])
        codes[one.key] = member.wire.ask(member.join_request(), 9).error_code

    assert {one.node_id for one in found} == {1, 2, 3}
    assert codes == dict.fromkeys(groups, ErrorCode.MEMBER_ID_REQUIRED)
