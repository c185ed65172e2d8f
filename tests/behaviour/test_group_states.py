"""Every group request in every state of a group."""

from typing import Any

import pytest

from kohort.errors import ErrorCode
from support.consumer_protocol import subscription
from support.raw.broker_under_test import settle

REBALANCING, UNKNOWN, STALE = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
)


class Scene:
    def __init__(self, broker) -> None:
        self.broker = broker
        self.group = broker.group()
        self.topic = broker.topic()
        self.ann, self.ben = (broker.member(self.group, self.topic) for _ in range(2))

    def stable(self) -> None:
        self.broker.stable(self.ann, self.ben)

    def preparing(self) -> None:
        self.stable()
        self.broker.start_rebalance(self.ann)

    def completing(self) -> None:
        self.stable()
        self.broker.start_rebalance(self.ann, self.ben)
        self.ann.joined()
        self.ben.joined()

    def empty(self) -> None:
        self.stable()
        self.ben.leave()
        self.ann.leave()

    def dead(self) -> None:
        self.empty()
        self.broker.delete_group(self.group)


STATES = {
    "Stable": Scene.stable,
    "PreparingRebalance": Scene.preparing,
    "CompletingRebalance": Scene.completing,
    "Empty": Scene.empty,
    "Dead": Scene.dead,
}


@pytest.fixture(params=STATES)
def scene(request, broker):
    scene: Any = Scene(broker)
    STATES[request.param](scene)
    scene.state = request.param
    assert broker.state(scene.group) == request.param
    return scene


def test_heartbeat_in_each_group_state(scene):
    ben = scene.ben
    is_member = scene.state not in ("Empty", "Dead")

    assert ben.heartbeat() == {"PreparingRebalance": REBALANCING}.get(scene.state, 0 if is_member else UNKNOWN)
    assert ben.heartbeat(generation_id=77) == (STALE if is_member else UNKNOWN)
    assert ben.heartbeat(member_id="stranger") == UNKNOWN


def test_sync_group_in_each_group_state(scene):
    ben = scene.ben
    is_member = scene.state not in ("Empty", "Dead")

    assert ben.sync(generation_id=77).error_code == (STALE if is_member else UNKNOWN)
    assert ben.sync(member_id="stranger").error_code == UNKNOWN
    if scene.state == "CompletingRebalance":
        ben.start_sync()  # waits for the leader
        scene.ann.sync({ben.member_id: b"ben's"})
        assert ben.wire.take().assignment == b"ben's"
    else:
        expected = {"Stable": 0, "PreparingRebalance": REBALANCING}
        assert ben.sync().error_code == expected.get(scene.state, UNKNOWN)


def test_offset_commit_by_a_member_in_each_group_state(scene):
    ben, topic = scene.ben, scene.topic
    expected = {"Stable": 0, "PreparingRebalance": 0, "CompletingRebalance": REBALANCING, "Empty": UNKNOWN}

    # a missing group has no generation: the error of version 9 and later
    assert ben.commit(topic, {0: 1}) == [expected.get(scene.state, ErrorCode.GROUP_ID_NOT_FOUND)]
    assert ben.commit(topic, {0: 1}, version=8) == [expected.get(scene.state, STALE)]
    if scene.state not in ("Empty", "Dead"):
        assert ben.commit(topic, {0: 1}, generation_id_or_member_epoch=77) == [STALE]
        assert ben.commit(topic, {0: 1}, member_id="stranger") == [UNKNOWN]


def test_offset_commit_from_outside_in_each_group_state(scene):
    allowed = scene.state in ("Empty", "Dead")

    assert scene.broker.commit(scene.group, scene.topic, {0: 5}) == [0 if allowed else UNKNOWN]

    assert scene.broker.committed(scene.group, scene.topic, [0]) == [5 if allowed else -1]


def test_join_group_of_a_known_member_in_each_group_state(scene):
    ben, is_member = scene.ben, scene.state not in ("Empty", "Dead")

    assert ben.refused_join(protocol_type="connect") == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_member else UNKNOWN
    )
    assert ben.refused_join(member_id="stranger") == UNKNOWN
    if not is_member:
        assert ben.refused_join() == UNKNOWN
    elif scene.state == "PreparingRebalance":
        ben.start_join()
        assert scene.ann.joined().generation_id == ben.joined().generation_id == 3
    else:
        answer = ben.rejoin()  # unchanged metadata returns the current generation
        assert (answer.members, answer.leader) == ([], scene.ann.member_id)


def test_follower_with_changed_metadata_starts_a_rebalance(scene):
    scene.ben.protocols = [("range", subscription("something else"))]
    if scene.state in ("Empty", "Dead"):
        assert scene.ben.refused_join() == UNKNOWN
        return

    scene.ben.start_join()
    if scene.state != "PreparingRebalance":
        scene.broker.await_state(scene.group, "PreparingRebalance")
        scene.ann.start_join()

    generation = 4 if scene.state == "CompletingRebalance" else 3
    assert scene.ann.joined().generation_id == scene.ben.joined().generation_id == generation
    settle(scene.ann, scene.ben)


def test_leave_group_in_each_group_state(scene):
    is_member = scene.state not in ("Empty", "Dead")

    (answer,) = scene.ben.leave().members

    assert answer.error_code == (0 if is_member else UNKNOWN)
    if scene.state == "PreparingRebalance":
        assert scene.ann.joined().generation_id == 3  # the round waited for ben
    elif is_member:
        assert scene.ann.heartbeat() == REBALANCING


def test_delete_group_in_each_group_state(scene):
    expected = {"Empty": 0, "Dead": ErrorCode.GROUP_ID_NOT_FOUND}

    assert scene.broker.delete_group(scene.group) == [expected.get(scene.state, ErrorCode.NON_EMPTY_GROUP)]


def test_describe_group_in_each_group_state(scene):
    group = scene.broker.describe(scene.group)

    stable, there = scene.state == "Stable", scene.state != "Dead"
    assert (group.error_code, group.group_state) == (0, scene.state)
    assert group.protocol_type == ("consumer" if there else "")
    assert group.protocol_data == ("range" if stable else "")
    members = [] if scene.state in ("Empty", "Dead") else [scene.ann, scene.ben]
    assert {m.member_id for m in group.members} == {m.member_id for m in members}
    for described in group.members:
        assert described.client_id == "raw"
        assert described.client_host == "/127.0.0.1"
        assert bool(described.member_metadata) == stable
        assert described.member_assignment == described.member_id.encode()  # what it was last given


def test_describe_group_version_6_distinguishes_missing_and_empty_groups(scene):
    code = ErrorCode.GROUP_ID_NOT_FOUND if scene.state == "Dead" else 0

    assert scene.broker.describe(scene.group, version=6).error_code == code


def test_list_groups_in_each_group_state(scene):
    broker, state = scene.broker, scene.state
    there = {scene.group} if state != "Dead" else set()

    assert set(broker.listed()) == there
    assert set(broker.listed(states=[f" {state.upper()} "])) == there
    assert set(broker.listed(states=["Stable" if state == "Empty" else "Empty"])) == set()
    assert set(broker.listed(types=["Classic"])) == there
    assert set(broker.listed(types=["consumer"])) == set()
    assert {(g.group_state, g.protocol_type, g.group_type) for g in broker.listed().values()} == {
        (state, "consumer", "classic") for _ in there
    }


def test_list_groups_before_filters(scene):
    listed = scene.broker.listed(version=3)

    assert set(listed) == ({scene.group} if scene.state != "Dead" else set())
