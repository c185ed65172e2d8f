"""Listener callbacks of a classic group member during failing rebalances."""

from __future__ import annotations

import re
from typing import Any

import pytest

import kohort
from kohort.client.group.membership import CallbackNeeded
from kohort.client.group.membership_classic import MemberState
from kohort.errors import ApiError, ErrorCode, UnsupportedVersion, UsageError
from kohort.wire.consumer_protocol import Assignment, build_assignment, parse_subscription
from kohort.wire.messages.group_classic import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest, SyncGroupResponse
from kohort.wire.messages.offsets import OffsetCommitRequest
from kohort_lab.machines.scripted import SILENCE
from support.machines.consumer_stage import ConsumerStage, User, names, tp
from support.machines.scripted_coordinator import ScriptedCoordinator
from support.machines.scripted_group import ScriptedGroup

E = ErrorCode
EAGER = {"partition_assignment_strategy": "range"}
COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}


@pytest.fixture
def stage() -> ScriptedGroup:
    return ScriptedGroup()


def member(stage: ScriptedGroup, **options: Any) -> User:
    user = stage.user("t", group_id="g", **options)
    stage.until(lambda: user.machine.is_stable)
    return user


def gives(stage: ScriptedGroup, *partitions: str) -> None:
    def synced(request: SyncGroupRequest, _version: int) -> SyncGroupResponse:
        code = stage.code(SyncGroupRequest)
        assignment = build_assignment(Assignment([tp(p) for p in partitions]))
        return SyncGroupResponse(error_code=code, protocol_name=request.protocol_name, assignment=assignment)

    stage.one.on(SyncGroupRequest, synced)


def rebalances(stage: ScriptedGroup, user: User) -> None:
    joins = len(stage.sent(JoinGroupRequest))
    stage.then(HeartbeatRequest, E.REBALANCE_IN_PROGRESS)
    stage.until(lambda: len(stage.sent(JoinGroupRequest)) > joins and user.machine.is_stable)


def polls_until_it_raises(stage: ScriptedGroup, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        stage.polls(60_000)
    assert caught.value.code is code


def reasons(stage: ScriptedGroup) -> list[str]:
    return [request.reason for request in stage.sent(JoinGroupRequest)]


# Eager assignors


def test_eager_member_without_partitions_gets_on_partitions_revoked(stage: ScriptedGroup):
    gives(stage)
    user = member(stage, **EAGER)

    rebalances(stage, user)
    rebalances(stage, user)

    assert user.callbacks == [("assigned", ""), ("revoked", ""), ("assigned", ""), ("revoked", ""), ("assigned", "")]


def test_repeated_eager_join_calls_on_partitions_revoked_once(stage: ScriptedGroup):
    user = member(stage, **EAGER)
    stage.then(HeartbeatRequest, E.REBALANCE_IN_PROGRESS)
    stage.then(SyncGroupRequest, E.GROUP_AUTHORIZATION_FAILED, E.GROUP_AUTHORIZATION_FAILED)

    polls_until_it_raises(stage, E.GROUP_AUTHORIZATION_FAILED)
    polls_until_it_raises(stage, E.GROUP_AUTHORIZATION_FAILED)
    stage.until(lambda: user.owned == "t-0")

    assert user.callbacks == [("assigned", "t-0"), ("revoked", "t-0"), ("assigned", "t-0")]


def test_on_partitions_revoked_runs_again_after_lost_membership(stage: ScriptedGroup):
    user = member(stage, **EAGER)
    stage.then(HeartbeatRequest, E.REBALANCE_IN_PROGRESS)
    stage.then(JoinGroupRequest, E.UNKNOWN_MEMBER_ID)
    stage.then(SyncGroupRequest, E.GROUP_AUTHORIZATION_FAILED)

    polls_until_it_raises(stage, E.GROUP_AUTHORIZATION_FAILED)
    stage.until(lambda: user.owned == "t-0")

    assert user.callbacks == [("assigned", "t-0"), ("revoked", "t-0"), ("revoked", ""), ("assigned", "t-0")]


def test_poll_returns_no_records_while_positions_are_committed(stage: ScriptedGroup):
    user = stage.user("t", group_id="g", auto_commit_interval_ms=60_000, **EAGER)
    user.alive = False  # the loop below polls three records at a time
    while not user.records:
        user.poll(3)
        stage.loop.run(50)
    stage.loop.holding_answers = True
    user.machine.enforce_rebalance("as a test")

    assert user.poll() == []
    stage.loop.settle()
    assert len(stage.sent(OffsetCommitRequest)) == 1
    assert user.poll() == []

    stage.loop.release_answers()
    user.alive = True
    stage.until(lambda: len(user.records) == 10)
    stage.polls(1_000)
    assert user.values() == [b"v%d" % n for n in range(10)], "each record is returned once"


# Cooperative assignors


def test_cooperative_member_commits_records_read_during_rebalance():
    stage = ScriptedCoordinator()
    user = member(stage, auto_commit_interval_ms=60_000, **COOPERATIVE)
    stage.until(lambda: user.owned == "t-0 t-1 t-2 t-3" and all(s.has_position for s in states(user)))
    stage.loop.holding_answers = True
    written: list[tuple[str, list[tuple[str, int]], list[bool]]] = []

    def record_commit(callback: CallbackNeeded) -> None:
        stands = [user.machine.subscription.assigned[p].pending_revocation for p in callback.partitions]
        if callback.kind == "revoked":
            written.append((names(callback.partitions), stage.commits()[-1][1], stands))

    user.on_callback = record_commit
    stage.loop.release_answers()
    gives(stage, "t-2")
    rebalances(stage, user)

    revoked, committed, stands = written[0]
    assert revoked == "t-0 t-1 t-3"
    assert committed == [("t", 0), ("t", 1), ("t", 3)], "only the revoked partitions are committed again"
    assert stands == [True, True, True], "poll() returns no more records of revoked partitions"


def test_member_loses_all_partitions_if_membership_ends_during_commit():
    stage = ScriptedCoordinator()
    user = member(stage, auto_commit_interval_ms=60_000, **COOPERATIVE)
    stage.until(lambda: user.owned == "t-0 t-1 t-2 t-3" and all(s.has_position for s in states(user)))
    callback_count = len(user.callbacks)
    gives(stage, "t-2")
    stage.then(OffsetCommitRequest, E.NONE, E.ILLEGAL_GENERATION)

    rebalances(stage, user)
    stage.until(lambda: user.machine.is_stable)

    assert user.callbacks[callback_count:] == [("lost", "t-0 t-1 t-2 t-3"), ("assigned", "t-2")]


def test_member_loses_kept_partitions_if_membership_ends_in_on_partitions_revoked():
    stage = ScriptedCoordinator()
    user = member(stage, enable_auto_commit="false", **COOPERATIVE)
    stage.until(lambda: user.owned == "t-0 t-1 t-2 t-3")
    callback_count = len(user.callbacks)
    gives(stage, "t-2")

    def listener(callback: CallbackNeeded) -> None:
        if callback.kind == "revoked":
            stage.then(HeartbeatRequest, E.ILLEGAL_GENERATION)
            stage.loop.run_until(lambda: not user.membership.generation.is_member)

    user.on_callback = listener
    rebalances(stage, user)
    stage.until(lambda: user.machine.is_stable)

    assert user.callbacks[callback_count:] == [("revoked", "t-0 t-1 t-3"), ("lost", "t-2"), ("assigned", "t-2")]


def states(user: User) -> list[Any]:
    return list(user.machine.subscription.assigned.values())


def test_on_partitions_lost_is_called_for_member_that_leaves_during_join(stage: ScriptedGroup):
    user = member(stage, **COOPERATIVE)
    stage.then(HeartbeatRequest, E.REBALANCE_IN_PROGRESS)
    stage.then(JoinGroupRequest, SILENCE)
    stage.until(lambda: user.membership.state is MemberState.PREPARING_REBALANCE)

    user.leave()

    assert user.callbacks == [("assigned", "t-0"), ("lost", "t-0")], "another member may own t-0 already"


# Calls of the user during a rebalance


def test_new_subscription_does_not_wait_for_earlier_commit(stage: ScriptedGroup):
    user = member(stage, auto_commit_interval_ms=60_000)
    stage.until(lambda: len(user.records) == 10)
    stage.then(OffsetCommitRequest, SILENCE)
    user.machine.enforce_rebalance("as a test")
    stage.until(lambda: stage.sent(OffsetCommitRequest))
    user.leave()
    joins = len(stage.sent(JoinGroupRequest))

    user.alive = True
    user.machine.subscribe(["t"])
    user.poll()
    stage.loop.settle()

    assert len(stage.sent(JoinGroupRequest)) == joins + 1


def test_assignment_that_no_longer_matches_subscription_causes_rejoin():
    stage = ScriptedCoordinator()
    user = stage.user("t", group_id="g", **COOPERATIVE)
    stage.until(lambda: user.membership.new_assignment is not None)

    user.machine.subscribe(["u"])
    stage.until(lambda: user.machine.is_stable)

    assert user.callbacks == [("assigned", "u-0 u-1 u-2 u-3")]
    assert reasons(stage) == [
        "the consumer subscribed",
        "the assignment does not match the subscription, which changed meanwhile",
    ]


def test_topic_that_group_leader_discovers_before_member_causes_no_rejoin():
    stage = ScriptedCoordinator()
    stage.hidden = {"u"}
    gives(stage, "t-0", "u-0")
    user = stage.user(group_id="g", **COOPERATIVE)
    user.machine.subscribe(re.compile("[tu]"))

    stage.until(lambda: user.membership.new_assignment is not None)
    assert user.machine.subscription.topics == {"t"}
    stage.hidden = set()
    stage.polls(10_000)

    assert user.callbacks == [("assigned", "t-0 u-0")]
    assert reasons(stage) == ["the consumer subscribed"]


def test_partition_subscribed_again_during_revocation_is_read_without_gap():
    stage = ConsumerStage()
    stage.topic("t", 1)
    stage.topic("u", 1)
    user = stage.user(["t", "u"], group_id="g", auto_offset_reset="earliest", **COOPERATIVE)
    stage.until(lambda: user.owned == "t-0 u-0")
    user.machine.subscribe(["t"])
    user.poll()  # the auto-commit of u-0 is in flight

    user.machine.subscribe(["t", "u"])
    stage.produce("u", 0, b"after that")

    stage.until(lambda: user.values() == [b"after that"])
    assert user.callbacks == [("assigned", "t-0 u-0"), ("assigned", "")], "u-0 had no on_partitions_revoked"


def test_repeated_join_sends_current_subscription():
    stage = ScriptedCoordinator()
    stage.then(JoinGroupRequest, E.COORDINATOR_LOAD_IN_PROGRESS)
    user = stage.user(["t", "u"], group_id="g", **COOPERATIVE)
    stage.until(lambda: stage.sent(JoinGroupRequest))
    user.machine.subscribe(["t"])
    stage.until(lambda: len(stage.sent(JoinGroupRequest)) == 2)

    user.machine.subscribe(["t", "u"])
    stage.polls(10_000)

    joins = [[sorted(topics_of(request)), request.reason] for request in stage.sent(JoinGroupRequest)]
    assert joins == [
        [["t", "u"], "the consumer subscribed"],
        [["t"], "the consumer subscribed"],
        [["t", "u"], "the subscription has changed since the last join"],
    ]


def topics_of(request: JoinGroupRequest) -> list[str]:
    return parse_subscription(bytes(request.protocols[0].metadata)).topics


# Joins that fail


def test_reason_of_failed_join_is_sent_with_next_join(stage: ScriptedGroup):
    stage.then(JoinGroupRequest, E.INVALID_SESSION_TIMEOUT)
    user = stage.user("t", group_id="g")

    polls_until_it_raises(stage, E.INVALID_SESSION_TIMEOUT)
    stage.until(lambda: user.owned == "t-0")

    assert reasons(stage) == ["the consumer subscribed", "the consumer subscribed"]


def test_broker_without_group_apis_raises_error(stage: ScriptedGroup):
    del stage.one.ranges[JoinGroupRequest.API_KEY]
    stage.user("t", group_id="g")

    with pytest.raises(UnsupportedVersion):
        stage.polls(1_000)


def test_invalid_assignment_of_custom_assignor_fails_the_rebalance(stage: ScriptedGroup):
    assignments: list[dict[str, list[Any]]] = [{"a stranger": []}]

    @kohort.assignor("mine")
    def mine(_topics: Any, members: Any) -> dict[str, list[Any]]:
        return assignments.pop() if assignments else {members[0].member_id: [tp("t-0")]}

    user = stage.user("t", group_id="g", partition_assignment_strategy=[mine])

    with pytest.raises(UsageError, match="a stranger"):
        stage.polls(1_000)
    assert stage.sent(SyncGroupRequest) == []
    assert user.membership.state is MemberState.UNJOINED

    stage.until(lambda: user.owned == "t-0")


def test_group_metadata_before_first_join_has_generation_minus_one(stage: ScriptedGroup):
    user = stage.user("t", group_id="g")

    before = user.machine.group_metadata()
    stage.until(lambda: user.machine.is_stable)
    after = user.machine.group_metadata()

    assert (before.generation_id, before.member_id) == (-1, "")
    assert (after.generation_id, after.member_id) == (1, "member-1")


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("by", ["names", "pattern"])
def test_topic_subscribed_during_join_is_read(strategy: str, by: str):
    stage = ConsumerStage()
    stage.topic("t", 1)
    if by == "names":
        stage.topic("u", 1)
    user = stage.user(group_id="g", partition_assignment_strategy=strategy, metadata_max_age_ms=5_000)
    user.machine.subscribe(["t"] if by == "names" else re.compile("[tu]"))
    stage.until(lambda: user.membership.new_assignment is not None)

    if by == "names":
        user.machine.subscribe(["t", "u"])
    else:
        stage.topic("u", 1)
        user.machine.metadata.request_refresh()
        stage.loop.run_until(lambda: "u" in set(user.machine.metadata.topics()))

    stage.until(lambda: user.owned == "t-0 u-0")


def test_topic_unsubscribed_during_join_causes_rejoin():
    stage = ConsumerStage()
    stage.topic("t", 1)
    stage.topic("u", 1)
    other = stage.user(["u"], group_id="g", **COOPERATIVE)
    stage.until(lambda: other.owned == "u-0")
    user = stage.user(["t", "u"], group_id="g", **COOPERATIVE)
    stage.until(lambda: user.membership.new_assignment == [tp("t-0")])
    generation = user.membership.generation.generation_id

    user.machine.subscribe(["t"])

    stage.until(lambda: user.membership.generation.generation_id == generation + 1 and user.machine.is_stable)
    assert (user.owned, other.owned) == ("t-0", "u-0")


def test_join_after_new_subscription_sends_its_own_reason(stage: ScriptedGroup):
    user = member(stage)
    user.machine.prepare_leave()
    user.machine.leave("the consumer unsubscribed")

    user.machine.subscribe(["t"])
    stage.until(lambda: user.machine.is_stable)

    assert stage.sent(JoinGroupRequest)[-1].reason == "the consumer subscribed"
