"""Late responses to a classic group member, and timers that end at the same time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from kohort.assignors.builtin import assignors_named
from kohort.client.group.membership_classic import ClassicMembership, MemberState
from kohort.client.reading.context import ConsumerContext, Failures
from kohort.client.reading.subscription import SubscriptionState
from kohort.client.requests.find_coordinator import CoordinatorKey, CoordinatorLookup
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.outages import Notes, Outages
from kohort.client.requests.source import Unsent
from kohort.config.client import ConsumerConfig
from kohort.errors import ConnectionFailed, ErrorCode
from kohort.wire.consumer_protocol import Assignment, Subscription, build_assignment, build_subscription
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from support.machines.consumer_stage import tp

E = ErrorCode
LEADER = "leader"
ME = "member-1"


class Alone:
    def __init__(self, **options: Any) -> None:
        rng, notes = random.Random(1), Notes()
        times = {"heartbeat_interval_ms": 3_000, "session_timeout_ms": 9_000, "max_poll_interval_ms": 60_000}
        config = ConsumerConfig(bootstrap_servers=["one:9092"], group_id="g", **{**times, **options})
        metadata = Metadata(config, rng)
        subscription = SubscriptionState(metadata)
        subscription.subscribe(["t"])
        failures, outages = Failures(subscription), Outages(notes)
        context = ConsumerContext(config, subscription, metadata, failures, notes, outages, rng)
        self.metrics = context.metrics.rebalances
        self.subscription = subscription
        self.failures = failures
        self.lookup = CoordinatorLookup(CoordinatorKey("g"), config, metadata, rng, failures.append, outages)
        self.lookup.node_id = 1
        self.member = ClassicMembership(context, self.lookup, assignors_named(["range"]))
        self.now_ms = 1_000_000

    def says(self, kind: type) -> list[Any]:
        sent = list(self.member.poll(self.now_ms).unsent)
        assert all(isinstance(one.request, kind) for one in sent), sent
        return sent

    def joins(self) -> Any:
        self.member.join()
        (sent,) = self.says(JoinGroupRequest)
        return sent

    def joined(self, sent: Unsent, generation: int, leader: str = LEADER, members: Sequence[str] = ()) -> None:
        join_members = [
            JoinGroupResponseMember(member_id=m, metadata=build_subscription(Subscription([m]))) for m in members
        ]
        answer = JoinGroupResponse(
            generation_id=generation,
            protocol_type="consumer",
            protocol_name="range",
            leader=leader,
            member_id=ME,
            members=join_members,
        )
        self.member.on_response(sent, answer, self.now_ms)

    def syncs(self, generation: int) -> Any:
        self.joined(self.joins(), generation)
        (sent,) = self.says(SyncGroupRequest)
        return sent

    def synced(self, sent: Unsent, partition: str = "t-0", code: ErrorCode = E.NONE, **wrong: Any) -> None:
        assignment = build_assignment(Assignment([tp(partition)]))
        fields = {"error_code": code, "protocol_type": "consumer", "assignment": assignment, **wrong}
        self.member.on_response(sent, SyncGroupResponse(**fields), self.now_ms)

    def beats(self) -> Any:
        self.now_ms = self.member.clocks.heartbeat_at_ms
        (sent,) = self.says(HeartbeatRequest)
        return sent

    def beaten(self, sent: Unsent, code: ErrorCode = E.NONE) -> None:
        self.member.on_response(sent, HeartbeatResponse(error_code=code), self.now_ms)

    @property
    def failed_attempts(self) -> float:
        return self.metrics.failed.summary(self.now_ms).total


@pytest.fixture
def alone() -> Alone:
    return Alone()


# Responses of earlier rebalances


def test_late_join_response_after_leave_is_ignored(alone: Alone):
    before = alone.joins()
    alone.member.leave("as a test")
    again = alone.joins()

    alone.joined(before, 5)
    assert alone.member.state is MemberState.PREPARING_REBALANCE
    assert not alone.member.generation.is_member

    alone.joined(again, 6)
    assert alone.member.generation == (6, ME, "range")


def test_late_join_failure_after_leave_does_not_affect_next_join(alone: Alone):
    before = alone.joins()
    alone.member.leave("as a test")
    alone.joins()

    alone.member.on_failure(before, ConnectionFailed("cut"), alone.now_ms)

    assert alone.failed_attempts == 0
    assert alone.lookup.node_id == 1
    assert not alone.failures
    assert alone.member.state is MemberState.PREPARING_REBALANCE


def test_sync_response_of_former_coordinator_is_ignored(alone: Alone):
    old = alone.syncs(5)
    beat = alone.beats()
    alone.beaten(beat, E.UNKNOWN_MEMBER_ID)
    alone.lookup.node_id = 2
    new = alone.syncs(6)

    alone.synced(old, "t-0")
    assert alone.member.state is MemberState.COMPLETING_REBALANCE
    assert alone.member.new_assignment is None

    alone.synced(new, "t-1")
    assert alone.member.take_assignment() == [tp("t-1")]


def test_unaccepted_assignment_is_dropped_when_its_generation_is_lost(alone: Alone):
    alone.synced(alone.syncs(5))
    assert alone.member.new_assignment == [tp("t-0")]

    alone.beaten(alone.beats(), E.ILLEGAL_GENERATION)

    assert alone.member.take_assignment() is None
    assert alone.member.rejoin_reason == "a heartbeat was answered ILLEGAL_GENERATION"


def test_unaccepted_assignment_is_dropped_by_next_join(alone: Alone):
    alone.synced(alone.syncs(5))

    alone.joins()

    assert alone.member.take_assignment() is None


def test_paused_heartbeats_resume_with_next_generation(alone: Alone):
    sync = alone.syncs(5)
    alone.beaten(alone.beats(), E.GROUP_AUTHORIZATION_FAILED)
    alone.synced(sync, code=E.REBALANCE_IN_PROGRESS)
    (again,) = alone.says(JoinGroupRequest)
    alone.joined(again, 6)
    (sync,) = alone.says(SyncGroupRequest)
    alone.synced(sync)

    beat = alone.beats()

    assert beat.request.generation_id == 6
    assert alone.failures, "the authorization error of the heartbeat waits for the next poll"


def test_member_rejoins_with_reason_after_sync_error_rebalance_in_progress():
    alone = Alone(retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)

    alone.synced(alone.syncs(5), code=E.REBALANCE_IN_PROGRESS)

    (again,) = alone.says(JoinGroupRequest)
    assert again.request.reason == "the group began another rebalance before this one was complete"


def test_join_group_request_is_repeated_at_once_after_rebalance_in_progress_error():
    alone = Alone(retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
    answer = JoinGroupResponse(error_code=E.REBALANCE_IN_PROGRESS)

    alone.member.on_response(alone.joins(), answer, alone.now_ms)

    assert len(alone.says(JoinGroupRequest)) == 1


def test_rejoin_with_unknown_member_id_gets_new_member_id(alone: Alone):
    alone.synced(alone.syncs(5))
    refusal = JoinGroupResponse(error_code=E.UNKNOWN_MEMBER_ID)
    again = alone.joins()
    assert again.request.member_id == ME

    alone.member.on_response(again, refusal, alone.now_ms)

    assert alone.joins().request.member_id == ""


@pytest.mark.parametrize("wrong", [{"protocol_type": "connect"}, {"protocol_name": "other"}, {"assignment": b"\0"}])
def test_invalid_sync_response_is_rejected_and_stops_heartbeats(alone: Alone, wrong: dict[str, Any]):
    alone.synced(alone.syncs(5), **wrong)

    assert alone.failures
    assert alone.member.take_assignment() is None
    assert alone.member.state is MemberState.UNJOINED
    alone.now_ms += 5_000
    assert alone.says(HeartbeatRequest) == []


# Back-offs


@pytest.mark.parametrize("end", ["an answer", "another generation"])
def test_classic_heartbeat_back_off_restarts_after_new_generation(end: str):
    alone = Alone(retry_backoff_ms=100, retry_backoff_max_ms=100_000)
    alone.synced(alone.syncs(5))
    for _ in range(5):
        alone.beaten(alone.beats(), E.COORDINATOR_NOT_AVAILABLE)
        alone.lookup.node_id = 1
    assert alone.member.clocks.heartbeat_at_ms - alone.now_ms >= 1_200

    if end == "an answer":
        alone.beaten(alone.beats())
    else:
        alone.beaten(alone.beats(), E.UNKNOWN_MEMBER_ID)
        alone.synced(alone.syncs(6))
    alone.beaten(alone.beats(), E.COORDINATOR_NOT_AVAILABLE)

    assert alone.member.clocks.heartbeat_at_ms - alone.now_ms <= 120


# Moved coordinators


def test_sync_group_request_that_does_not_reach_coordinator_causes_lookup(alone: Alone):
    alone.synced(alone.syncs(5), code=E.NOT_COORDINATOR)

    assert alone.lookup.node_id is None
    assert alone.member.state is MemberState.PREPARING_REBALANCE


def test_group_leader_without_coordinator_rejoins_at_once():
    alone = Alone(retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    alone.joined(alone.joins(), 5, leader=ME, members=[ME, "untold"])
    alone.lookup.mark_unknown()
    alone.now_ms += 10_000
    assert alone.says(SyncGroupRequest) == []
    assert alone.member.state is MemberState.PREPARING_REBALANCE

    alone.lookup.node_id = 2

    (again,) = alone.says(JoinGroupRequest)
    assert (again.node_id, again.request.member_id) == (2, ME)


# Timers that end at the same time


def test_leave_after_poll_timeout_sends_no_heartbeat():
    alone = Alone(max_poll_interval_ms=8_000, session_timeout_ms=8_000)
    alone.synced(alone.syncs(5))
    alone.member.leave_poll(alone.now_ms)
    alone.now_ms += 8_000

    (goodbye,) = alone.says(LeaveGroupRequest)

    assert goodbye.request.members[0].reason.startswith("consumer poll timeout has expired")
    assert alone.lookup.node_id == 1, "the coordinator is still known"
    assert alone.says(HeartbeatRequest) == []


def test_heartbeat_in_flight_sets_no_heartbeat_timer(alone: Alone):
    alone.synced(alone.syncs(5))
    alone.now_ms = alone.member.clocks.heartbeat_at_ms

    poll = alone.member.poll(alone.now_ms)

    assert len(poll.unsent) == 1
    assert poll.wake_at_ms == alone.member.clocks.session_until_ms


# Members without a generation


def test_member_without_member_id_sends_no_leave_group_request(alone: Alone):
    alone.joins()

    promise = alone.member.leave("as a test")

    assert promise.done
    assert alone.says(LeaveGroupRequest) == []


def test_join_after_leave_has_no_member_id(alone: Alone):
    alone.synced(alone.syncs(5))
    alone.member.leave("as a test")
    assert len(alone.says(LeaveGroupRequest)) == 1

    assert alone.joins().request.member_id == ""


def test_generation_in_group_metadata_is_unset_before_first_assignment(alone: Alone):
    assert not alone.member.user_generation.is_member
    alone.synced(alone.syncs(5))
    assert not alone.member.user_generation.is_member

    alone.member.accept([tp("t-0")])
    assert alone.member.user_generation == (5, ME, "range")


def test_generation_in_group_metadata_remains_after_lost_membership(alone: Alone):
    alone.synced(alone.syncs(5))
    alone.member.accept([tp("t-0")])
    alone.beaten(alone.beats(), E.UNKNOWN_MEMBER_ID)

    alone.member.accept([tp("t-1")])

    assert alone.member.user_generation == (5, ME, "range")


# Former group leaders


def needed_topics(alone: Alone) -> set[str]:
    return set(alone.subscription.topics | alone.subscription.group_topics)


@pytest.mark.parametrize("end", ["another leads", "it is unknown", "it leaves", "the sync is refused"])
def test_former_group_leader_tracks_only_its_own_topics(end: str):
    alone = Alone(session_timeout_ms=30_000)
    alone.joined(alone.joins(), 5, leader=ME, members=[ME, "other"])
    assert needed_topics(alone) == {"t", ME, "other"}

    if end == "another leads":
        alone.now_ms += 10_000
        sync, _beat = alone.member.poll(alone.now_ms).unsent
        alone.synced(sync)
        alone.joined(alone.joins(), 6)
    elif end == "it is unknown":
        alone.beaten(alone.beats(), E.UNKNOWN_MEMBER_ID)
    elif end == "it leaves":
        alone.member.leave("as a test")
    else:
        alone.now_ms += 10_000
        sync, _beat = alone.member.poll(alone.now_ms).unsent
        alone.synced(sync, code=E.GROUP_AUTHORIZATION_FAILED)

    assert needed_topics(alone) == {"t"}
