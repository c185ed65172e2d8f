"""Heartbeats of a consumer group member, and its rebalance metrics."""

from __future__ import annotations

import pytest

from kohort.client.group.consumer_heartbeat import heartbeat_shape
from kohort.client.group.member_states import ConsumerMemberState
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatResponse
from kohort_lab.machines.scripted import HANG_UP
from support.machines.consumer_stage import User
from support.machines.scripted_coordinator import INTERVAL_MS, Heartbeat, ScriptedCoordinator, assignment_of

E = ErrorCode
S = ConsumerMemberState
SLOW = {"retry_backoff_ms": 10_000, "retry_backoff_max_ms": 10_000}


@pytest.fixture
def stage() -> ScriptedCoordinator:
    return ScriptedCoordinator()


def interval(stage: ScriptedCoordinator, interval_ms: int) -> None:
    def beat(request: Heartbeat, _version: int) -> ConsumerGroupHeartbeatResponse:
        answer = stage.on_beat(request)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        answer.heartbeat_interval_ms = interval_ms
        return answer

    stage.one.on(Heartbeat, beat)


@pytest.mark.parametrize(("interval_ms", "beats"), [(1, 11), (1_000, 6), (20_000, 1)])
def test_new_heartbeat_interval_starts_at_heartbeat_whose_response_contains_it(
    stage: ScriptedCoordinator, interval_ms: int, beats: int
):
    stage.joined()
    interval(stage, interval_ms)
    before = len(stage.beats)
    stage.loop.run_until(lambda: len(stage.beats) > before)

    stage.loop.run(10 if interval_ms == 1 else 5_000)

    assert len(stage.beats) - before == beats


def test_heartbeat_response_without_interval_keeps_last_interval(stage: ScriptedCoordinator):
    stage.joined()
    interval(stage, 0)
    before = len(stage.beats)

    stage.loop.run(4 * INTERVAL_MS)

    assert len(stage.beats) - before == 4


def test_default_heartbeat_interval_is_five_seconds(stage: ScriptedCoordinator):
    interval(stage, 0)
    stage.joined()
    before = len(stage.beats)

    stage.loop.run(20_000)

    assert len(stage.beats) - before == 4


@pytest.mark.parametrize("answer", [E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR, HANG_UP])
def test_failed_heartbeat_is_repeated_after_back_off(stage: ScriptedCoordinator, answer: object):
    stage.joined(**SLOW)
    stage.then(Heartbeat, answer)
    before = len(stage.beats)
    stage.loop.run_until(lambda: len(stage.beats) > before)

    stage.loop.run(7_900)
    assert len(stage.beats) == before + 1

    stage.loop.run(4_200)
    assert len(stage.beats) == before + 2


def test_denied_heartbeat_is_repeated_at_heartbeat_interval(stage: ScriptedCoordinator):
    user = stage.joined(retry_backoff_ms=10, retry_backoff_max_ms=10)
    stage.then(Heartbeat, *[E.TOPIC_AUTHORIZATION_FAILED] * 100)
    before = len(stage.beats)

    stage.loop.run(3 * INTERVAL_MS)

    assert len(stage.beats) - before == 3
    with pytest.raises(ApiError, match="TOPIC_AUTHORIZATION_FAILED"):
        user.poll()
    user.poll()


@pytest.mark.parametrize("is_member", [False, True])
def test_denied_heartbeat_waits_for_back_off(stage: ScriptedCoordinator, is_member: bool):
    user = stage.joined(**SLOW) if is_member else stage.member(**SLOW)
    stage.then(Heartbeat, E.TOPIC_AUTHORIZATION_FAILED)
    before = len(stage.beats)
    if not is_member:
        user.poll()
    stage.loop.run_until(lambda: len(stage.beats) > before)

    stage.loop.run(7_900)
    assert len(stage.beats) == before + 1

    stage.loop.run(4_200)
    assert len(stage.beats) == before + 2


def test_successful_heartbeat_resets_back_off(stage: ScriptedCoordinator):
    stage.joined(retry_backoff_ms=100, retry_backoff_max_ms=100_000)
    stage.then(Heartbeat, *[E.COORDINATOR_LOAD_IN_PROGRESS] * 6)
    stage.polls(30_000)
    before = len(stage.beats)
    stage.then(Heartbeat, E.COORDINATOR_LOAD_IN_PROGRESS)
    stage.loop.run_until(lambda: len(stage.beats) == before + 1)

    stage.loop.run_until(lambda: len(stage.beats) == before + 2, 200)


def test_start_and_end_of_heartbeat_outage_are_logged(stage: ScriptedCoordinator):
    stage.then(Heartbeat, *[E.COORDINATOR_LOAD_IN_PROGRESS] * 20)
    user = stage.joined()

    first, last = [note.text for note in user.notes_besides_resets()]

    assert first.startswith("a heartbeat to group 'g': COORDINATOR_LOAD_IN_PROGRESS; retrying for 1 s")
    assert last.startswith("heartbeats to group 'g' succeed again, after ")


def test_consumer_group_member_without_coordinator_leaves_at_once(stage: ScriptedCoordinator):
    user = stage.joined()
    promise = user.leave()
    user.machine.group.lookup.mark_unknown()

    stage.loop.settle()

    assert promise.done
    assert stage.goodbyes == []


@pytest.mark.parametrize("answer", [E.UNKNOWN_MEMBER_ID, HANG_UP])
def test_consumer_group_member_leaves_after_any_response_to_its_last_heartbeat(
    stage: ScriptedCoordinator, answer: object
):
    user = stage.joined()
    stage.then(Heartbeat, answer)

    assert stage.settled(user.leave(), 1_000) is None
    assert not user.machine.failures


def test_poll_just_before_max_poll_interval_keeps_membership(stage: ScriptedCoordinator):
    user = stage.joined(max_poll_interval_ms=8_000)

    stage.loop.run(7_999)
    user.poll()
    stage.loop.run(7_999)
    assert stage.goodbyes == []

    stage.loop.run(1)
    assert len(stage.goodbyes) == 1


def test_poll_may_last_longer_than_max_poll_interval(stage: ScriptedCoordinator):
    user = stage.joined(max_poll_interval_ms=8_000)
    stage.loop.run(4_000)

    user.machine.enter_poll(stage.now_ms)
    stage.loop.run(20_000)

    assert stage.goodbyes == []


def test_heartbeat_of_version_0_omits_cleared_pattern():
    expected = Heartbeat(group_id="g", member_id="m", member_epoch=3, subscribed_topic_names=["t"])
    cleared = Heartbeat(
        group_id="g", member_id="m", member_epoch=3, subscribed_topic_names=["t"], subscribed_topic_regex=""
    )

    assert heartbeat_shape(cleared, 0) == expected
    assert heartbeat_shape(cleared, 1) is cleared
    assert heartbeat_shape(expected, 0) is expected


def test_heartbeat_back_off_ends_when_fatal_error_is_raised(stage: ScriptedCoordinator):
    user = stage.joined(**SLOW)
    stage.then(Heartbeat, E.COORDINATOR_LOAD_IN_PROGRESS, E.GROUP_AUTHORIZATION_FAILED)
    stage.loop.run_until(lambda: bool(user.machine.failures))
    before = len(stage.beats)
    with pytest.raises(ApiError):
        user.poll()

    user.poll()
    stage.loop.settle()

    assert len(stage.beats) == before + 1


def test_heartbeat_back_off_restarts_after_fatal_error(stage: ScriptedCoordinator):
    user = stage.member(retry_backoff_ms=100, retry_backoff_max_ms=100_000)
    stage.then(Heartbeat, *[E.COORDINATOR_LOAD_IN_PROGRESS] * 6, E.GROUP_AUTHORIZATION_FAILED)
    user.poll()
    stage.loop.run_until(lambda: bool(user.machine.failures))
    with pytest.raises(ApiError):
        user.poll()
    stage.then(Heartbeat, E.COORDINATOR_LOAD_IN_PROGRESS)
    before = len(stage.beats)
    user.poll()
    stage.loop.run_until(lambda: len(stage.beats) == before + 1)

    stage.loop.run_until(lambda: len(stage.beats) == before + 2, 200)


# Rebalance metrics


def counted(user: User, now_ms: int) -> tuple[int, int, bool]:
    rebalances = user.machine.metrics.rebalances
    latency, failed = rebalances.latency.summary(now_ms), rebalances.failed.summary(now_ms)
    return latency.total_count, failed.total_count, rebalances.began_ms is not None


def test_rebalance_with_lost_membership_counts_as_failed(stage: ScriptedCoordinator):
    stage.hidden = {"u"}
    stage.assign("u-0")
    user = stage.member(["t", "u"])
    stage.until(lambda: user.membership.state is S.RECONCILING)
    assert counted(user, stage.now_ms) == (0, 0, True)
    stage.then(Heartbeat, E.FENCED_MEMBER_EPOCH)
    stage.until(lambda: len([r for r in stage.beats if r.member_epoch == 0]) == 2)
    assert counted(user, stage.now_ms) == (0, 1, True)

    stage.hidden = set()
    stage.until(lambda: user.owned == "u-0")

    assert counted(user, stage.now_ms) == (1, 1, False)


def test_fencing_outside_of_rebalance_counts_no_failed_rebalance(stage: ScriptedCoordinator):
    user = stage.joined()
    stage.then(Heartbeat, E.FENCED_MEMBER_EPOCH)

    stage.until(lambda: user.membership.state is S.JOINING)

    assert counted(user, stage.now_ms) == (1, 0, False)


def test_empty_assignment_completes_rebalance(stage: ScriptedCoordinator):
    every = {"heartbeat_interval_ms": INTERVAL_MS}
    answers = [
        ConsumerGroupHeartbeatResponse(member_epoch=1, assignment=assignment_of("u-0"), **every),
        ConsumerGroupHeartbeatResponse(error_code=E.FENCED_MEMBER_EPOCH),
        ConsumerGroupHeartbeatResponse(member_epoch=2, **every),
    ]
    stage.hidden = {"u"}
    stage.one.on(Heartbeat, lambda _request, _version: answers.pop(0))
    user = stage.member(["t", "u"])

    stage.until(lambda: not answers)
    stage.until(lambda: user.membership.state is S.STABLE)

    assert counted(user, stage.now_ms) == (1, 1, False)
    assert user.machine.is_stable


def test_leave_during_rebalance_counts_no_completed_rebalance(stage: ScriptedCoordinator):
    stage.hidden = {"u"}
    stage.assign("u-0")
    user = stage.member(["t", "u"])
    stage.until(lambda: user.membership.state is S.RECONCILING)
    user.machine.prepare_leave()
    before = len(stage.beats)

    stage.loop.run_until(lambda: len(stage.beats) > before)
    stage.loop.settle()

    assert user.membership.state is S.PREPARE_LEAVING
    assert counted(user, stage.now_ms) == (0, 0, True)
