"""Invariant checks of the coordinator. Each test inserts a bug that the checks must detect."""

from dataclasses import replace

import pytest

from kohort.coordinator import replay, runtime
from kohort.coordinator.api_table import GROUP_APIS
from kohort.coordinator.classic import heartbeat, rebalance, sync
from kohort.coordinator.outcome import CancelTimer, TimerKey
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_classic import JoinGroupRequest
from kohort_lab.sim.checks.group_invariants import InvariantBroken, check_all, check_persisted, check_replay
from support.consumer_protocol import assignment
from support.machines.coordinator_stage import GROUP, CoordinatorStage


def a_generation_is_assigned(stage):
    (a, b), generation = stage.stable(2)
    stage.join(a)
    stage.join(b)
    stage.sync(b, generation + 1)
    stage.sync(a, generation + 1, {a: assignment(("t", 0))})


def a_generation_cannot_be_written(stage):
    (a, b), generation = stage.stable(2)
    stage.join(a)
    stage.join(b)
    stage.refuse_with = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    stage.sync(b, generation + 1)
    stage.sync(a, generation + 1, {a: assignment(("t", 0))})


def a_member_is_silent(stage):
    stage.stable(1)
    stage.advance(100_000)


def test_invariant_checks_pass_for_scenarios_without_bug():
    for story in (a_generation_is_assigned, a_generation_cannot_be_written, a_member_is_silent):
        story(CoordinatorStage())


def test_invariant_check_fails_for_an_assignment_that_contradicts_the_record(stage):
    stage.stable(2)
    groups = stage.coordinator.groups_in_partition_of(GROUP)
    assert groups is not None
    group = groups.by_id[GROUP]
    check_persisted(group)
    first = next(iter(group.round.members.values()))
    persisted, first.assignment = first.assignment, b"another"

    with pytest.raises(InvariantBroken, match="members or assignments differ from the record"):
        check_persisted(group)
    first.assignment = persisted


def test_invariant_check_fails_for_a_stable_group_without_record(stage):
    stage.stable(1)
    group = stage.coordinator.groups_in_partition_of(GROUP).by_id[GROUP]
    written, group.persisted = group.persisted, None

    with pytest.raises(InvariantBroken, match="its generation is not persisted"):
        check_persisted(group)
    group.persisted = written


def test_invariant_check_fails_for_a_member_without_session_timer(stage):
    (a, b), _ = stage.stable(2)
    assert stage.answer(stage.join(a)) is None
    stage.coordinator.timers.cancel((stage.coordinator.partition_of(GROUP), TimerKey("session", GROUP, b)))

    with pytest.raises(InvariantBroken, match=f"{b} has no session timer"):
        check_all(stage.coordinator, stage.now)


def without_timers(kind):
    def arm(self, shard, outcome):
        kept = [t for t in outcome.timers if isinstance(t, CancelTimer) or t.key.kind != kind]
        outcome.timers[:] = kept
        original(self, shard, outcome)

    original = runtime.Coordinator._arm
    return arm


@pytest.mark.parametrize("kind", ["session", "round", "sync", "pending"])
def test_invariant_check_fails_for_a_waiting_request_without_timer(monkeypatch, kind):
    monkeypatch.setattr(runtime.Coordinator, "_arm", without_timers(kind))

    with pytest.raises(InvariantBroken, match="timer"):
        a_generation_is_assigned(CoordinatorStage())


def test_invariant_check_fails_for_a_successful_response_after_a_failed_append(monkeypatch):
    monkeypatch.setattr(runtime, "withdraw", lambda reply, _code: reply)

    with pytest.raises(InvariantBroken, match="not persisted"):
        a_generation_cannot_be_written(CoordinatorStage())


def test_invariant_check_fails_for_a_generation_kept_after_a_failed_append(monkeypatch):
    monkeypatch.setattr(runtime, "drop_round", lambda *_: runtime.Outcome())

    with pytest.raises(InvariantBroken, match="the group's record has generation"):
        a_generation_cannot_be_written(CoordinatorStage())


def test_invariant_check_fails_if_an_answered_sync_does_not_renew_the_session(monkeypatch):
    monkeypatch.setattr(sync, "keep_session", lambda *_: None)
    stage = CoordinatorStage()
    (a, b), generation = stage.stable(2)
    stage.join(a)
    stage.join(b)
    stage.sync(b, generation + 1)
    for _ in range(2):
        stage.advance(6000)
        stage.heartbeat(a, generation + 1)

    with pytest.raises(InvariantBroken, match="no session timer"):
        stage.sync(a, generation + 1, {})


def test_invariant_check_fails_for_a_member_that_is_lost_by_replay(monkeypatch):
    original = replay.replay_group

    def forgetful(groups, record, now_ms):
        original(groups, record, now_ms)
        if record.value is not None:
            groups.by_id[record.group_id].persisted.members[1:] = []

    monkeypatch.setattr(replay, "replay_group", forgetful)

    with pytest.raises(InvariantBroken, match=r"not persisted|from the record"):
        a_generation_is_assigned(CoordinatorStage())


def test_invariant_check_fails_for_a_wrong_join_group_counter_after_a_member_removal(monkeypatch):
    original = heartbeat.remove_member

    def miscounting(group, *args, **kwargs):
        group.round.awaiting_join += 1
        return original(group, *args, **kwargs)

    monkeypatch.setattr(heartbeat, "remove_member", miscounting)

    with pytest.raises(InvariantBroken, match="the counter of waiting JoinGroups is wrong"):
        a_member_is_silent(CoordinatorStage())


def test_invariant_check_fails_for_an_assignment_kept_in_the_next_generation(monkeypatch):
    monkeypatch.setattr(rebalance, "_drop_assignments", lambda *_: None)
    stage = CoordinatorStage()
    (a, b), generation = stage.stable(2)
    stage.join(a)
    stage.join(b)
    stage.sync(b, generation + 1)

    with pytest.raises(InvariantBroken, match="a SyncGroup waits"):
        stage.join(a, protocols=(("range", b"other"),))


def test_invariant_check_fails_if_a_decision_changes_the_persisted_state(monkeypatch):
    api = GROUP_APIS[JoinGroupRequest]

    def meddling(groups, request, ctx):
        group = groups.by_id.get(request.message.group_id)
        if group is not None and group.persisted is not None:
            group.persisted = type(group.persisted)(generation=9, protocol=None, leader=None)
        return api.decide(groups, request, ctx)

    monkeypatch.setitem(GROUP_APIS, JoinGroupRequest, replace(api, decide=meddling))

    with pytest.raises(InvariantBroken):
        a_generation_is_assigned(CoordinatorStage())


def test_invariant_check_fails_for_a_log_that_contradicts_the_persisted_state():
    stage = CoordinatorStage()
    stage.stable(1)
    groups = stage.coordinator._shards.by_partition[stage.coordinator.partition_of(GROUP)].groups

    with pytest.raises(InvariantBroken, match="replaying the log"):
        check_replay(groups, [])


def test_invariant_check_fails_for_a_due_timer_that_did_not_fire():
    stage = CoordinatorStage()
    stage.stable(1)

    with pytest.raises(InvariantBroken, match="did not fire until"):
        check_all(stage.coordinator, stage.now + 100_000)
