"""Timers of a classic group. Each timer is cancelled when its request or session ends."""

from kohort.coordinator.outcome import TimerKey
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_admin import DeleteGroupsRequest
from kohort.wire.messages.group_classic import MemberIdentity
from support.machines.coordinator_stage import GROUP


def waits(stage):
    return set(stage.coordinator.timers_of(GROUP))


def test_leave_group_request_with_pending_member_id_cancels_the_timer_of_that_id(stage):
    pending = stage.answer(stage.join()).member_id
    assert waits(stage) == {TimerKey("pending", GROUP, pending)}

    stage.leave(pending)

    assert waits(stage) == set()


def test_static_member_has_one_session_timer_after_a_rejoin_with_a_new_member_id(stage):
    first = stage.answer(stage.join(instance_id="i")).member_id
    stage.sync(first, 1, {}, instance_id="i")
    assert waits(stage) == {TimerKey("session", GROUP, first)}

    again = stage.answer(stage.join(instance_id="i")).member_id

    assert waits(stage) == {TimerKey("session", GROUP, again)}


def test_new_rebalance_cancels_the_timeout_of_sync_group_requests(stage):
    a = stage.answer(stage.join(version=3)).member_id
    second = stage.join(version=3)
    stage.join(a, version=3)
    b = stage.answer(second).member_id
    stage.sync(a, 2, {})
    sessions = {TimerKey("session", GROUP, a), TimerKey("session", GROUP, b)}
    assert waits(stage) == sessions | {TimerKey("sync", GROUP)}, "member b has sent no SyncGroup"

    stage.join(a)

    assert waits(stage) == sessions | {TimerKey("round", GROUP)}


def test_deletion_of_a_group_removes_its_timers(stage):
    pending = stage.answer(stage.join(session_ms=1_000_000)).member_id
    assert waits(stage) == {TimerKey("pending", GROUP, pending)}

    stage.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)

    assert waits(stage) == set()


def test_unloading_a_partition_removes_the_timers_of_its_groups(stage):
    (a, _), _ = stage.stable(2)
    stage.join()
    stage.join(a)
    assert {key.kind for key in waits(stage)} == {"round", "session", "pending"}

    stage.unload()

    assert waits(stage) == set()


def test_failed_append_of_a_generation_removes_the_timers_of_members_that_were_not_persisted(stage):
    a = stage.answer(stage.join(version=3)).member_id
    stage.refuse_with = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    pending = stage.answer(stage.join()).member_id
    assert TimerKey("pending", GROUP, pending) in waits(stage)

    stage.sync(a, 1, {})

    assert waits(stage) == set()


def test_rejoin_of_the_last_absent_static_member_completes_the_rebalance(stage):
    first = stage.answer(stage.join(instance_id="ia")).member_id
    other = stage.join(instance_id="ib")
    leader = stage.answer(stage.join(first, instance_id="ia"))
    assert stage.answer(other).generation_id == leader.generation_id == 2
    stage.sync(first, 2, {}, instance_id="ia")
    rejoin = stage.join(first, instance_id="ia")
    assert stage.answer(rejoin) is None

    back = stage.join(instance_id="ib")

    assert stage.answer(rejoin).generation_id == stage.answer(back).generation_id == 3
    stage.leave(
        MemberIdentity(member_id="", group_instance_id="ia"), MemberIdentity(member_id="", group_instance_id="ib")
    )
    assert waits(stage) == set()
