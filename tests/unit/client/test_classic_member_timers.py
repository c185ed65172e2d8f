"""Timers of a classic group member between polls, and the member's LeaveGroup request."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.client.group.membership_classic import MemberState
from kohort.errors import ErrorCode
from kohort.wire.consumer_protocol import Subscription, build_subscription
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kohort.wire.messages.metadata import MetadataRequest
from kohort_lab.machines.scripted import HANG_UP, SILENCE
from support.machines.consumer_stage import User
from support.machines.scripted_group import MEMBER, ScriptedGroup

E = ErrorCode


@pytest.fixture
def stage() -> ScriptedGroup:
    return ScriptedGroup()


def member(stage: ScriptedGroup, **options: Any) -> User:
    user = stage.user("t", group_id="g", **options)
    stage.until(lambda: user.owned == "t-0")
    return user


def leading_without_metadata(stage: ScriptedGroup, **options: Any) -> User:
    def joined(request: JoinGroupRequest, _version: int) -> JoinGroupResponse:
        stage.then(MetadataRequest, SILENCE)
        first = request.protocols[0]
        mine = JoinGroupResponseMember(member_id=MEMBER, metadata=first.metadata)
        other = JoinGroupResponseMember(member_id="other", metadata=build_subscription(Subscription(["untold"])))
        return JoinGroupResponse(
            generation_id=1,
            protocol_type="consumer",
            protocol_name=first.name,
            leader=MEMBER,
            member_id=MEMBER,
            members=[mine, other],
        )

    stage.one.on(JoinGroupRequest, joined)
    user = stage.user("t", group_id="g", request_timeout_ms=60_000, **options)
    stage.until(lambda: user.membership.state is MemberState.COMPLETING_REBALANCE)
    return user


def connections(stage: ScriptedGroup, request_class: type) -> set[int]:
    return {received.connection for received in stage.one.received if isinstance(received.request, request_class)}


# Timers of join, heartbeat and poll


def test_failed_join_group_request_is_retried_without_poll(stage: ScriptedGroup):
    stage.then(JoinGroupRequest, E.COORDINATOR_LOAD_IN_PROGRESS)
    stage.user("t", group_id="g", retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
    stage.until(lambda: stage.sent(JoinGroupRequest))
    refused_ms = stage.now_ms

    stage.loop.run_until(lambda: len(stage.sent(JoinGroupRequest)) == 2)

    assert 8_000 <= stage.now_ms - refused_ms <= 12_000


def test_group_leader_waiting_for_metadata_sends_heartbeats(stage: ScriptedGroup):
    leading_without_metadata(stage, heartbeat_interval_ms=3_000)

    stage.loop.run(9_500)

    assert len(stage.sent(HeartbeatRequest)) == 3
    assert stage.sent(SyncGroupRequest) == []


def test_group_leader_waits_ten_seconds_for_metadata(stage: ScriptedGroup):
    leading_without_metadata(stage, heartbeat_interval_ms=14_000)
    joined_ms = stage.now_ms

    stage.loop.run_until(lambda: stage.sent(SyncGroupRequest), 13_000)

    assert stage.now_ms - joined_ms == 10_000


@pytest.mark.parametrize("answer", [E.NOT_COORDINATOR, HANG_UP])
def test_failed_classic_heartbeat_is_repeated_before_heartbeat_interval_ends(stage: ScriptedGroup, answer: object):
    member(stage, heartbeat_interval_ms=10_000)
    stage.then(HeartbeatRequest, answer)
    stage.loop.run_until(lambda: len(stage.sent(HeartbeatRequest)) == 1)

    stage.loop.run_until(lambda: len(stage.sent(HeartbeatRequest)) == 2, 1_000)


def test_poll_just_before_max_poll_interval_keeps_membership(stage: ScriptedGroup):
    user = member(stage, max_poll_interval_ms=8_000, session_timeout_ms=6_000)

    stage.loop.run(7_999)
    user.poll()
    stage.loop.run(7_999)
    assert stage.sent(LeaveGroupRequest) == []

    stage.loop.run(1)
    assert len(stage.sent(LeaveGroupRequest)) == 1


def test_poll_may_last_longer_than_max_poll_interval(stage: ScriptedGroup):
    user = member(stage, max_poll_interval_ms=8_000, session_timeout_ms=6_000)
    stage.loop.run(4_000)

    user.machine.enter_poll(stage.now_ms)
    stage.loop.run(20_000)

    assert stage.sent(LeaveGroupRequest) == []


def test_successful_heartbeats_cause_no_coordinator_lookup(stage: ScriptedGroup):
    member(stage, session_timeout_ms=6_000, heartbeat_interval_ms=2_000, max_poll_interval_ms=60_000)
    lookup_count = len(stage.sent(FindCoordinatorRequest))

    stage.loop.run(30_000)

    assert len(stage.sent(HeartbeatRequest)) >= 14
    assert len(stage.sent(FindCoordinatorRequest)) == lookup_count


# Heartbeats and back-off during a rebalance


def test_rebalance_in_progress_error_before_assignment_causes_no_rejoin(stage: ScriptedGroup):
    user = leading_without_metadata(stage, heartbeat_interval_ms=3_000)
    stage.then(HeartbeatRequest, E.REBALANCE_IN_PROGRESS)

    stage.loop.run(3_500)

    assert len(stage.sent(HeartbeatRequest)) == 1
    assert user.membership.rejoin_reason is None


@pytest.mark.parametrize("answer", [E.NOT_COORDINATOR, HANG_UP])
def test_join_group_back_off_is_reset_by_successful_join(stage: ScriptedGroup, answer: object):
    stage.then(JoinGroupRequest, *[E.COORDINATOR_LOAD_IN_PROGRESS] * 5)
    stage.then(SyncGroupRequest, answer)
    stage.user("t", group_id="g", retry_backoff_ms=100, retry_backoff_max_ms=100_000)
    stage.until(lambda: stage.sent(SyncGroupRequest))
    synced_ms = stage.now_ms

    stage.until(lambda: len(stage.sent(JoinGroupRequest)) == 7)

    assert stage.now_ms - synced_ms <= 300


def test_join_after_leave_and_new_subscription_does_not_wait_for_back_off(stage: ScriptedGroup):
    stage.then(JoinGroupRequest, E.COORDINATOR_LOAD_IN_PROGRESS)
    user = stage.user("t", group_id="g", retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
    stage.until(lambda: stage.sent(JoinGroupRequest))
    stage.settled(user.leave())

    user.alive = True
    user.machine.subscribe(["t"])
    user.poll()
    stage.loop.settle()

    assert len(stage.sent(JoinGroupRequest)) == 2


def test_error_of_heartbeat_sent_before_join_is_ignored(stage: ScriptedGroup):
    cooperative = {"partition_assignment_strategy": "cooperative-sticky", "enable_auto_commit": "false"}
    user = member(stage, heartbeat_interval_ms=3_000, **cooperative)
    stage.then(HeartbeatRequest, E.UNKNOWN_MEMBER_ID)
    stage.loop.holding_answers = True
    stage.loop.run_until(lambda: stage.sent(HeartbeatRequest))
    user.machine.enforce_rebalance("as a test")
    user.poll()
    stage.loop.settle()
    assert len(stage.sent(JoinGroupRequest)) == 2

    stage.loop.release_answers()
    stage.until(lambda: user.machine.is_stable)

    assert [request.member_id for request in stage.sent(JoinGroupRequest)] == ["", MEMBER]
    assert user.callbacks == [("assigned", "t-0"), ("assigned", "")]
    assert list(user.notes_besides_resets()) == []


def test_start_and_end_of_join_group_outage_are_logged(stage: ScriptedGroup):
    stage.then(JoinGroupRequest, *[E.COORDINATOR_LOAD_IN_PROGRESS] * 20)
    user = member(stage)

    first, last = [note.text for note in user.notes_besides_resets()]

    assert first == "joining group 'g': COORDINATOR_LOAD_IN_PROGRESS; retrying for 1 s"
    assert last.startswith("group 'g' is joined, after ")


# LeaveGroup


def test_leave_group_request_is_sent_on_coordinator_connection(stage: ScriptedGroup):
    user = member(stage)

    stage.settled(user.leave())

    assert connections(stage, LeaveGroupRequest) == connections(stage, SyncGroupRequest)


def test_leave_group_request_does_not_wait_for_join_group_request_in_flight(stage: ScriptedGroup):
    user = member(stage)
    stage.then(HeartbeatRequest, E.REBALANCE_IN_PROGRESS)
    stage.then(JoinGroupRequest, SILENCE)
    stage.until(lambda: len(stage.sent(JoinGroupRequest)) == 2)

    stage.settled(user.leave(), 1_000)

    assert connections(stage, LeaveGroupRequest).isdisjoint(connections(stage, JoinGroupRequest))


def test_classic_member_without_coordinator_leaves_at_once(stage: ScriptedGroup):
    user = member(stage)
    promise = user.leave()
    user.machine.group.lookup.mark_unknown()

    stage.loop.settle()

    assert promise.done
    assert stage.sent(LeaveGroupRequest) == []


@pytest.mark.parametrize("answer", [E.UNKNOWN_MEMBER_ID, HANG_UP])
def test_classic_member_leaves_after_any_leave_group_response(stage: ScriptedGroup, answer: object):
    user = member(stage)
    stage.then(LeaveGroupRequest, answer)

    assert stage.settled(user.leave(), 1_000) is None
    assert not user.machine.failures
