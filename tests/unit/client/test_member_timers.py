"""Timers, metrics, racks and commits of a classic group member around rebalances."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kohort.client.group.member_messages import JOIN_GRACE_MS
from kohort.client.group.membership import HeartbeatClocks
from kohort.config.client import ConsumerConfig
from kohort.errors import ErrorCode
from kohort.wire.consumer_protocol import Subscription, build_subscription
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupRequest,
)
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from kohort_lab.machines.scripted import HANG_UP
from support.machines.consumer_stage import User, tp
from support.machines.scripted_group import MEMBER, TOPIC_ID, ScriptedGroup

E = ErrorCode


@pytest.fixture
def stage() -> ScriptedGroup:
    return ScriptedGroup()


def member(stage: ScriptedGroup, **options: Any) -> User:
    user = stage.user("t", group_id="g", **options)
    stage.until(lambda: user.owned == "t-0")
    return user


def failed_attempts(stage: ScriptedGroup, user: User) -> float:
    return user.machine.metrics.rebalances.failed.summary(stage.now_ms).total


def test_poll_deadline_starts_at_join_and_stops_during_poll():
    config = ConsumerConfig(
        bootstrap_servers=["one:9092"],
        group_id="g",
        heartbeat_interval_ms=3_000,
        session_timeout_ms=9_000,
        max_poll_interval_ms=5_000,
    )
    clocks = HeartbeatClocks(config, random.Random(1))
    clocks.leave_poll(0)
    clocks.start(100)

    assert (clocks.poll_expired(5_099), clocks.poll_expired(5_100)) == (False, True)
    assert (clocks.wake_at_ms(may_heartbeat=True), clocks.wake_at_ms(may_heartbeat=False)) == (3_100, 5_100)
    clocks.enter_poll()
    assert not clocks.poll_expired(1_000_000)
    assert clocks.wake_at_ms(may_heartbeat=False) == 9_100
    clocks.leave_poll(6_000)
    assert (clocks.poll_expired(10_999), clocks.poll_expired(11_000)) == (False, True)


def test_join_group_request_times_out_later_than_max_poll_interval(stage: ScriptedGroup):
    long = stage.user(group_id="g", request_timeout_ms=30_000, max_poll_interval_ms=28_000)
    short = stage.user(group_id="g", request_timeout_ms=40_000, max_poll_interval_ms=28_000)

    timeouts = [user.membership.messages.join_timeout_ms for user in (long, short)]

    assert timeouts == [28_000 + JOIN_GRACE_MS, 40_000]


@pytest.mark.parametrize("answer", [E.REBALANCE_IN_PROGRESS, HANG_UP])
@pytest.mark.parametrize("request_class", [JoinGroupRequest, SyncGroupRequest])
def test_failed_or_unanswered_joins_count_as_failed_rebalances(
    stage: ScriptedGroup, request_class: type, answer: object
):
    stage.then(request_class, answer)
    user = member(stage)
    assert failed_attempts(stage, user) == 1


def test_member_id_required_error_causes_rejoin_but_counts_as_no_failure(stage: ScriptedGroup):
    stage.then(JoinGroupRequest, E.MEMBER_ID_REQUIRED)
    user = stage.user("t", group_id="g", retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    stage.polls(1_000)

    assert failed_attempts(stage, user) == 0
    assert [request.member_id for request in stage.sent(JoinGroupRequest)] == ["", MEMBER]


def test_rebalance_in_progress_response_extends_member_session(stage: ScriptedGroup):
    user = member(stage, session_timeout_ms=9_000, heartbeat_interval_ms=3_000)
    before_ms = user.membership.clocks.session_until_ms
    stage.then(HeartbeatRequest, E.REBALANCE_IN_PROGRESS)
    stage.then(JoinGroupRequest, *[E.COORDINATOR_LOAD_IN_PROGRESS] * 30)

    stage.until(lambda: len(stage.sent(JoinGroupRequest)) == 2)

    assert user.membership.clocks.session_until_ms > before_ms


def racks_of_leader(stage: ScriptedGroup, client_rack: str) -> dict[str, set[str]]:
    def metadata(request: MetadataRequest) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2, 3, 4])
        brokers = [
            MetadataResponseBroker(node_id=node, host="one", port=9092, rack=rack)
            for node, rack in ((1, "r1"), (2, "r2"), (3, None))
        ]
        return MetadataResponse(
            brokers=brokers, topics=[MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])]
        )

    def joined(request: JoinGroupRequest) -> JoinGroupResponse:
        mine = JoinGroupResponseMember(member_id=MEMBER, metadata=request.protocols[0].metadata)
        other = JoinGroupResponseMember(member_id="other", metadata=build_subscription(Subscription(["gone"])))
        return JoinGroupResponse(
            generation_id=1,
            protocol_type="consumer",
            protocol_name=request.protocols[0].name,
            leader=MEMBER,
            member_id=MEMBER,
            members=[mine, other],
        )

    stage.one.on(MetadataRequest, lambda message, _: metadata(message))
    stage.one.on(JoinGroupRequest, lambda message, _: joined(message))
    user = member(stage, client_rack=client_rack)
    snapshot = user.membership.leader._seen
    return {str(partition): set(racks) for partition, racks in snapshot.racks.items()}


def test_group_leader_of_members_with_racks_knows_replica_racks(stage: ScriptedGroup):
    assert racks_of_leader(stage, "r1") == {"t-0": {"r1", "r2"}}


def test_group_leader_of_members_without_racks_knows_no_racks(stage: ScriptedGroup):
    assert racks_of_leader(stage, "") == {}


@pytest.mark.parametrize(
    ("code", "soon"), [(E.TOPIC_AUTHORIZATION_FAILED, False), (E.COORDINATOR_LOAD_IN_PROGRESS, True)]
)
def test_auto_commit_is_repeated_at_interval_after_denied_topic_but_sooner_after_retriable_error(
    stage: ScriptedGroup, code: ErrorCode, soon: bool
):
    stage.committed = 0
    user = member(stage, auto_commit_interval_ms=20_000)
    stage.until(lambda: bool(user.records))
    stage.then(OffsetCommitRequest, code)
    stage.until(lambda: len(stage.sent(OffsetCommitRequest)) == 1)

    stage.polls(5_000)

    assert (len(stage.sent(OffsetCommitRequest)) > 1) == soon


def test_committed_offset_of_reassigned_partition_is_fetched_again(stage: ScriptedGroup):
    stage.committed = 4
    user = member(stage)
    stage.until(lambda: user.machine.subscription.assigned[tp("t-0")].position is not None)
    request_count = len(stage.sent(OffsetFetchRequest))
    stage.then(HeartbeatRequest, E.UNKNOWN_MEMBER_ID)

    stage.until(lambda: user.owned == "t-0" and len(stage.sent(OffsetFetchRequest)) > request_count)

    assert stage.sent(OffsetFetchRequest)[-1].groups[0].group_id == "g"
