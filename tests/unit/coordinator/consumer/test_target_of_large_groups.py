"""Target assignment of a large group. The coordinator computes and persists it in several steps."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.coordinator.consumer.target import WRITTEN_AT_ONCE
from kohort.coordinator.journal import TargetComputed
from kohort.coordinator.outcome import GroupRequest
from kohort.errors import ErrorCode, StorageError, UsageError
from kohort.steps import shortest_steps
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest
from support.calls import calls_of
from support.machines.coordinator_stage import GROUP, CoordinatorStage
from support.machines.written_groups import T, epochs, member, write

NEWEST = {"group_consumer_assignment_interval_ms": 0}


def group_of(stage):
    return stage.coordinator.groups_in_partition_of(GROUP).consumer[GROUP]


def join_request(member_id: str, **fields) -> GroupRequest:
    message = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
        **fields,
    )
    return GroupRequest(message, 1, "app", "/127.0.0.1", member_id)


def large_group(members: int, partitions: int) -> CoordinatorStage:
    stage = CoordinatorStage(group_consumer_max_size=members + 1)
    stage.topics.make("t", partitions)
    write(stage, epochs(6, 5), *(member(f"m{number:05}", 5) for number in range(members)))
    stage.coordinator.check = None
    stage.check = lambda: None
    return stage


def steps_of(stage):
    coordinator = stage.coordinator
    while group_of(stage).volatile.pending_target is not None:
        stage.clock.advance(max(0, coordinator.wake_at_ms - stage.now))
        before = stage.appended
        calls = calls_of(lambda: coordinator.tick(stage.now))
        yield calls, stage.appended - before


def test_join_to_a_small_consumer_group_returns_partitions_at_once():
    stage = CoordinatorStage(**NEWEST)

    answer = stage.come("m1")

    assert stage.assignment_in(answer) == [("t", number) for number in range(4)]
    assert group_of(stage).volatile.pending_target is None


@pytest.mark.heavy
@pytest.mark.parametrize("assignor", sorted(SERVER_ASSIGNORS))
def test_target_assignment_of_2000_members_is_computed_in_steps_of_limited_cost(assignor):
    stage = large_group(2_000, 2_000)

    joined = calls_of(lambda: stage.coordinator.handle(join_request("new", server_assignor=assignor), stage.now))
    calls, records = zip(*steps_of(stage), strict=True)

    group = group_of(stage)
    assert group.target_epoch == group.epoch == 7
    assert max(joined, *calls) < 40_000 < sum(calls) / 5
    assert max(records) <= WRITTEN_AT_ONCE
    assert sorted(p for target in group.targets.values() for p in target.get(T, ())) == list(range(2_000))
    assert [entry.assignor for entry in stage.coordinator.take_journal() if isinstance(entry, TargetComputed)] == [
        assignor
    ]


def test_member_of_a_large_group_receives_its_partitions_with_a_later_heartbeat():
    stage = large_group(999, 2_000)

    joined: Any = stage.coordinator.handle(join_request("new"), stage.now)[0].message
    list(steps_of(stage))
    later = stage.beat("new", joined.member_epoch)

    assert (joined.member_epoch, stage.assignment_in(joined)) == (5, [])
    assert later.member_epoch == 7
    assert len(stage.assignment_in(later)) == 2


def played(stage: CoordinatorStage) -> list[object]:
    stage.topics.make("u", 5)
    answers: list[object] = []
    epochs_of = {}
    for member_id, topics in (("m1", "t"), ("m2", "t"), ("m3", "tu"), ("m4", "u"), ("m2", "u"), ("m1", "tu")):
        if member_id in epochs_of:
            stage.beat(member_id, -1)
        epochs_of[member_id] = stage.come(member_id, *topics).member_epoch
        for _ in range(4):
            stage.advance(1_000)
            for beating in list(epochs_of):
                owned = [(stage.topics.topic_name(topic), p) for topic, p, _ in owned_partitions(stage, beating)]
                answer = stage.beat(beating, epochs_of[beating], owned)
                epochs_of[beating] = answer.member_epoch
        answers += [(one, owned_partitions(stage, one)) for one in sorted(epochs_of)]
    return answers


def owned_partitions(stage, member_id):
    assigned = group_of(stage).members[member_id].current.assigned
    return sorted((topic, p, 0) for topic, of in assigned.items() for p in of)


@pytest.mark.parametrize("assignor", sorted(SERVER_ASSIGNORS))
def test_target_assignment_computed_in_steps_equals_target_assignment_computed_at_once(assignor):
    at_once = played(CoordinatorStage(group_consumer_assignors=[assignor], **NEWEST))

    with shortest_steps():
        in_steps = played(CoordinatorStage(group_consumer_assignors=[assignor], **NEWEST))

    assert in_steps == at_once


@pytest.fixture
def midway():
    stage = CoordinatorStage(**NEWEST)
    stage.come("m1")
    stage.come("s1", instance_id="i")
    with shortest_steps():
        stage.coordinator.handle(join_request("m3"), stage.now)
        for _ in range(4):
            stage.clock.advance(1)
            stage.coordinator.tick(stage.now)
        assert group_of(stage).volatile.pending_target.steps is not None
        yield stage


def test_member_that_leaves_during_the_target_computation_gets_no_target(midway):
    midway.beat("m1", -1)
    midway.advance(1_000)

    group = group_of(midway)
    assert sorted(group.targets) == ["m3", "s1"]
    assert (group.epoch, group.target_epoch) == (5, 4)


def test_static_member_replaced_during_the_target_computation_gets_its_target_under_its_new_id(midway):
    midway.beat("s1", -2, instance_id="i")
    midway.come("s2", instance_id="i")
    midway.advance(1_000)

    group = group_of(midway)
    assert sorted(group.targets) == ["m1", "m3", "s2"]
    assert sorted(p for target in group.targets.values() for p in target[T]) == [0, 1, 2, 3]


def test_target_computation_ends_when_the_last_member_leaves(midway):
    for member_id in ("m1", "m3"):
        midway.beat(member_id, -1)
    midway.beat("s1", -1, instance_id="i")
    midway.advance(1_000)

    assert group_of(midway).volatile.pending_target is None
    assert midway.coordinator.timers_of(GROUP) == []


def test_target_computation_restarts_with_the_next_heartbeat_after_a_broker_restart(midway):
    midway.restart()
    midway.beat("m1", 2)
    midway.advance(1_000)

    assert group_of(midway).target_epoch == group_of(midway).epoch == 4


def test_failed_append_of_a_target_assignment_is_repeated_after_half_a_second(midway):
    midway.refuse_with = StorageError("disk is full")
    midway.advance(400)
    assert group_of(midway).target_epoch == 3

    midway.refuse_with = None
    midway.advance(500)

    assert group_of(midway).target_epoch == 4
    assert group_of(midway).volatile.pending_target is None


def test_failed_append_of_a_join_discards_the_pending_target_assignment():
    stage = CoordinatorStage(**NEWEST)
    stage.come("m1")
    stage.refuse_with = StorageError("disk is full")

    with shortest_steps():
        answer = stage.come("m2")
        stage.advance(10)

    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert group_of(stage).volatile.pending_target is None


def test_error_of_the_assignor_is_in_the_response_to_the_next_heartbeat(midway, monkeypatch):
    class Failing:
        name = "uniform"

        def steps(self, _members, _partition_counts, _pace):
            raise UsageError("no such topic")

    monkeypatch.setitem(SERVER_ASSIGNORS, "uniform", Failing())
    midway.advance(1_000)

    answer = midway.beat("m1", 2)

    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert answer.error_message == "Failed to compute a new target assignment for epoch 4: no such topic"
    assert group_of(midway).target_epoch == 3
