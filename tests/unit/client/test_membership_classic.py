"""A classic group member against a scripted coordinator: requests and reactions to errors."""

from __future__ import annotations

import pytest

from kohort.client.group.membership_classic import MemberState
from kohort.errors import ApiError, CommitFailed, ErrorCode, ProtocolError
from kohort.model import OffsetAndMetadata
from kohort.wire.consumer_protocol import parse_subscription
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_admin import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kohort.wire.messages.offsets import OffsetCommitRequest
from kohort_lab.machines.scripted import HANG_UP, SILENCE
from support.machines.consumer_stage import User, tp
from support.machines.scripted_group import MEMBER, ScriptedGroup

E = ErrorCode
COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}


@pytest.fixture
def stage() -> ScriptedGroup:
    return ScriptedGroup()


def member(stage: ScriptedGroup, **options: object) -> User:
    user = stage.user("t", group_id="g", **{**COOPERATIVE, **options})
    stage.until(lambda: user.owned == "t-0")
    return user


def joins(stage: ScriptedGroup) -> list[str]:
    return [request.member_id for request in stage.sent(JoinGroupRequest)]


# JoinGroup


def test_join_group_request_has_subscription_and_reason(stage: ScriptedGroup):
    stage.user("t", group_id="g", max_poll_interval_ms=7000, session_timeout_ms=6000, client_rack="r1")

    stage.polls(200)

    request = stage.sent(JoinGroupRequest)[0]
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (6000, 7000)
    assert request.protocol_type == "consumer"
    assert request.reason == "the consumer subscribed"
    assert [p.name for p in request.protocols] == ["range", "cooperative-sticky"]
    subscription = parse_subscription(request.protocols[1].metadata)
    assert (subscription.topics, subscription.owned_partitions, subscription.generation_id, subscription.rack_id) == (
        ["t"],
        [],
        -1,
        "r1",
    )


def test_coordinator_has_its_own_connection(stage: ScriptedGroup):
    member(stage)

    channels = {type(s.request): s.connection for s in stage.one.received}
    assert (
        channels[JoinGroupRequest] == channels[HeartbeatRequest if HeartbeatRequest in channels else SyncGroupRequest]
    )
    assert channels[JoinGroupRequest] != channels[FindCoordinatorRequest]


def test_join_group_request_is_repeated_at_once_with_assigned_member_id(stage: ScriptedGroup):
    stage.then(JoinGroupRequest, E.MEMBER_ID_REQUIRED)

    user = member(stage)

    assert joins(stage) == ["", MEMBER]
    assert user.membership.generation.member_id == MEMBER


@pytest.mark.parametrize(
    ("answer", "member_ids", "lookups"),
    [
        (E.COORDINATOR_LOAD_IN_PROGRESS, ["", ""], 1),
        (E.NOT_COORDINATOR, ["", ""], 2),
        (E.COORDINATOR_NOT_AVAILABLE, ["", ""], 2),
        (E.REBALANCE_IN_PROGRESS, ["", ""], 1),
        (E.UNKNOWN_MEMBER_ID, ["", ""], 1),
        (HANG_UP, ["", ""], 2),
    ],
)
def test_retriable_join_error_is_retried(stage: ScriptedGroup, answer: object, member_ids: list[str], lookups: int):
    stage.then(JoinGroupRequest, answer)

    member(stage)

    assert joins(stage) == member_ids
    assert len(stage.sent(FindCoordinatorRequest)) == lookups


@pytest.mark.parametrize(
    "code",
    [
        E.INCONSISTENT_GROUP_PROTOCOL,
        E.INVALID_SESSION_TIMEOUT,
        E.INVALID_GROUP_ID,
        E.GROUP_AUTHORIZATION_FAILED,
        E.GROUP_MAX_SIZE_REACHED,
        E.FENCED_INSTANCE_ID,
        E.ILLEGAL_GENERATION,
    ],
)
def test_permanent_join_error_is_raised(stage: ScriptedGroup, code: ErrorCode):
    stage.then(JoinGroupRequest, code)
    user = stage.user("t", group_id="g")

    with pytest.raises(ApiError) as caught:
        stage.polls(1000)

    assert caught.value.code is code
    stage.until(lambda: user.owned == "t-0"), "and the next poll tries again"


@pytest.mark.parametrize(
    ("group", "uses"),
    [
        (DescribedGroup(group_id="g", protocol_type="consumer", protocol_data="range"), "the group uses range"),
        (
            DescribedGroup(group_id="g", protocol_type="connect"),
            "the group has protocol type 'connect', not 'consumer'",
        ),
        (DescribedGroup(group_id="g", error_code=E.GROUP_AUTHORIZATION_FAILED), "its members share another one"),
    ],
    ids=["assignor", "protocol type", "no right to describe"],
)
def test_error_of_join_with_incompatible_assignors_names_assignors_of_member_and_group(
    stage: ScriptedGroup, group: DescribedGroup, uses: str
):
    stage.then(JoinGroupRequest, E.INCONSISTENT_GROUP_PROTOCOL)
    stage.one.on(DescribeGroupsRequest, lambda _r, _v: DescribeGroupsResponse(groups=[group]))
    user = stage.user("t", group_id="g", **COOPERATIVE)

    with pytest.raises(ApiError) as caught:
        stage.polls(1000)

    assert str(caught.value) == (
        "INCONSISTENT_GROUP_PROTOCOL: group 'g' accepts none of the assignors of this member (cooperative-sticky): "
        f"{uses}; give all members a common entry in partition.assignment.strategy"
    )
    stage.until(lambda: user.owned == "t-0"), "and the next poll tries again"
    assert len(stage.sent(DescribeGroupsRequest)) == 1


def test_join_of_group_with_other_protocol_type_is_rejected(stage: ScriptedGroup):
    def answer(_request: object, _version: int) -> JoinGroupResponse:
        return JoinGroupResponse(generation_id=1, protocol_type="connect", protocol_name="range", member_id="m")

    stage.one.on(JoinGroupRequest, answer)
    stage.user("t", group_id="g")

    with pytest.raises(ApiError, match="INCONSISTENT_GROUP_PROTOCOL: group 'g' has protocol type 'connect'"):
        stage.polls(1000)


@pytest.mark.parametrize("wrong", [{"protocol_type": "connect"}, {"protocol_name": "another"}])
def test_member_sends_no_sync_group_request_after_join_response_with_unknown_protocol(
    stage: ScriptedGroup, wrong: dict[str, str]
):
    answer = {"protocol_type": "consumer", "protocol_name": "range", "leader": MEMBER, "member_id": MEMBER, **wrong}
    stage.one.on(JoinGroupRequest, lambda _r, _v: JoinGroupResponse(generation_id=1, **answer))
    user = stage.user("t", group_id="g")

    with pytest.raises(ApiError):
        stage.polls(1000)
    stage.loop.run(10_000)

    assert user.membership.state is MemberState.UNJOINED
    assert (stage.sent(SyncGroupRequest), stage.sent(HeartbeatRequest)) == ([], [])


def test_heartbeats_start_after_join_response(stage: ScriptedGroup):
    stage.then(JoinGroupRequest, SILENCE)
    stage.user("t", group_id="g", max_poll_interval_ms=60_000)
    stage.polls(50_000)
    assert stage.sent(HeartbeatRequest) == []

    stage.then(SyncGroupRequest, SILENCE)
    stage.then(HeartbeatRequest, *[SILENCE] * 9)
    stage.polls(20_000)

    assert len(stage.sent(JoinGroupRequest)) == 2, "the first JoinGroup timed out after the rebalance timeout and 5 s"
    assert len(stage.sent(HeartbeatRequest)) >= 1, "heartbeats run while SyncGroup waits"


# SyncGroup


@pytest.mark.parametrize(
    ("answer", "member_ids"),
    [
        (E.REBALANCE_IN_PROGRESS, ["", MEMBER]),
        (E.NOT_COORDINATOR, ["", MEMBER]),
        (E.ILLEGAL_GENERATION, ["", MEMBER]),
        (E.UNKNOWN_MEMBER_ID, ["", ""]),
        (HANG_UP, ["", MEMBER]),
    ],
)
def test_failed_sync_group_makes_member_rejoin(stage: ScriptedGroup, answer: object, member_ids: list[str]):
    stage.then(SyncGroupRequest, answer)

    member(stage)

    assert joins(stage) == member_ids


@pytest.mark.parametrize("answer", [E.NOT_COORDINATOR, HANG_UP])
def test_member_rejoins_after_back_off_if_sync_group_request_does_not_reach_coordinator(
    stage: ScriptedGroup, answer: object
):
    stage.then(SyncGroupRequest, answer)
    stage.user("t", group_id="g", retry_backoff_ms=500)
    stage.until(lambda: stage.sent(SyncGroupRequest))
    refused_ms = stage.now_ms

    stage.loop.run_until(lambda: len(joins(stage)) == 2)

    assert 400 <= stage.now_ms - refused_ms <= 600


def test_rejoin_of_member_that_got_no_assignment_sends_no_generation(stage: ScriptedGroup):
    stage.then(SyncGroupRequest, E.REBALANCE_IN_PROGRESS)

    member(stage)

    again = stage.sent(JoinGroupRequest)[1]
    subscription = parse_subscription(again.protocols[0].metadata)
    assert (again.member_id, subscription.owned_partitions, subscription.generation_id) == (MEMBER, [], -1)


@pytest.mark.parametrize("code", [E.GROUP_AUTHORIZATION_FAILED, E.FENCED_INSTANCE_ID, E.COORDINATOR_LOAD_IN_PROGRESS])
def test_permanent_sync_group_error_is_raised(stage: ScriptedGroup, code: ErrorCode):
    stage.then(SyncGroupRequest, code)
    stage.user("t", group_id="g")

    with pytest.raises(ApiError) as caught:
        stage.polls(1000)

    assert caught.value.code is code


@pytest.mark.parametrize("wrong", [{"protocol_type": "connect"}, {"protocol_name": "other"}])
def test_sync_group_with_other_protocol_type_or_name_is_rejected(stage: ScriptedGroup, wrong: dict[str, str]):
    stage.one.on(SyncGroupRequest, lambda _r, _v: SyncGroupResponse(**wrong))
    stage.user("t", group_id="g")

    with pytest.raises(ApiError, match="INCONSISTENT_GROUP_PROTOCOL"):
        stage.polls(1000)


def test_invalid_assignment_in_sync_group_raises_error(stage: ScriptedGroup):
    stage.one.on(SyncGroupRequest, lambda _r, _v: SyncGroupResponse(assignment=b"\0"))
    stage.user("t", group_id="g")

    with pytest.raises(ProtocolError, match="too short for a version"):
        stage.polls(1000)


# Heartbeats


def test_classic_heartbeats_are_sent_at_interval_with_or_without_polls(stage: ScriptedGroup):
    member(stage, heartbeat_interval_ms=1000)
    before = len(stage.sent(HeartbeatRequest))

    stage.loop.run(10_000)

    assert len(stage.sent(HeartbeatRequest)) - before == 10


@pytest.mark.parametrize(
    ("code", "next_join", "callback"),
    [
        (E.UNKNOWN_MEMBER_ID, "", ("lost", "t-0")),
        (E.ILLEGAL_GENERATION, MEMBER, ("lost", "t-0")),
        (E.REBALANCE_IN_PROGRESS, MEMBER, ("assigned", "")),
    ],
)
def test_heartbeat_error_makes_classic_member_rejoin_or_lose_membership(
    stage: ScriptedGroup, code: ErrorCode, next_join: str, callback: tuple[str, str]
):
    user = member(stage)
    stage.then(HeartbeatRequest, code)

    stage.until(lambda: len(joins(stage)) == 2 and user.owned == "t-0" and len(user.callbacks) > 1)

    assert joins(stage)[1] == next_join
    assert user.callbacks[1] == callback
    lost = f"member {MEMBER!r} lost generation 1 of group 'g': a heartbeat was answered {code.name}; it joins again"
    assert [note.text for note in user.notes_besides_resets()] == ([lost] if callback[0] == "lost" else [])


def test_cooperative_rejoin_sends_owned_partitions_and_generation(stage: ScriptedGroup):
    user = member(stage)
    stage.then(HeartbeatRequest, E.REBALANCE_IN_PROGRESS)
    stage.until(lambda: len(joins(stage)) == 2 and user.membership.state is MemberState.STABLE)

    request = stage.sent(JoinGroupRequest)[1]
    subscription = parse_subscription(request.protocols[0].metadata)
    assert (subscription.owned_partitions, subscription.generation_id) == ([tp("t-0")], 1)
    assert request.reason == "group is already rebalancing"


def test_eager_rejoin_sends_no_owned_partitions(stage: ScriptedGroup):
    member(stage, partition_assignment_strategy="range")
    stage.then(HeartbeatRequest, E.REBALANCE_IN_PROGRESS)
    stage.until(lambda: len(joins(stage)) == 2)

    assert parse_subscription(stage.sent(JoinGroupRequest)[1].protocols[0].metadata).owned_partitions == []


@pytest.mark.parametrize("answer", [E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, HANG_UP])
def test_heartbeat_that_does_not_reach_coordinator_causes_lookup_and_keeps_generation(
    stage: ScriptedGroup, answer: object
):
    user = member(stage)
    generation = user.membership.generation
    stage.then(HeartbeatRequest, answer)

    stage.polls(10_000)

    assert len(stage.sent(FindCoordinatorRequest)) == 2
    assert len(joins(stage)) == 1
    assert user.membership.generation == generation


def test_member_with_expired_session_looks_up_coordinator(stage: ScriptedGroup):
    member(stage, session_timeout_ms=6000, request_timeout_ms=60_000)
    stage.then(HeartbeatRequest, *[SILENCE] * 3)

    stage.polls(12_000)

    assert len(stage.sent(FindCoordinatorRequest)) >= 2


@pytest.mark.parametrize("code", [E.GROUP_AUTHORIZATION_FAILED, E.FENCED_INSTANCE_ID])
def test_fatal_heartbeat_error_is_raised_and_pauses_heartbeats(stage: ScriptedGroup, code: ErrorCode):
    user = member(stage, heartbeat_interval_ms=1000)
    stage.then(HeartbeatRequest, code)
    stage.loop.run(10_000)
    sent = len(stage.sent(HeartbeatRequest))

    with pytest.raises(ApiError) as caught:
        user.poll()

    assert caught.value.code is code
    stage.polls(3000)
    assert len(stage.sent(HeartbeatRequest)) > sent


def test_heartbeats_resume_after_fatal_error_is_raised(stage: ScriptedGroup):
    user = member(stage, heartbeat_interval_ms=1000)
    stage.then(HeartbeatRequest, E.GROUP_AUTHORIZATION_FAILED)
    stage.loop.run_until(lambda: bool(user.machine.failures), 5000)

    with pytest.raises(ApiError):
        user.machine.raise_failure()

    before = len(stage.sent(HeartbeatRequest))
    stage.loop.settle()
    stage.loop.run(1000)
    assert len(stage.sent(HeartbeatRequest)) > before


# LeaveGroup


def test_leave_group_request_has_reason(stage: ScriptedGroup):
    user = member(stage)

    stage.settled(user.leave())

    (request,) = stage.sent(LeaveGroupRequest)
    assert [(m.member_id, m.reason) for m in request.members] == [(MEMBER, "the consumer is being closed")]
    assert user.callbacks[-1] == ("revoked", "t-0")


@pytest.mark.parametrize("length", [255, 256])
def test_leave_reason_is_cut_at_255_characters(stage: ScriptedGroup, length: int):
    user = member(stage)
    reason = "x" * 254 + "yz"

    user.machine.enforce_rebalance(reason[:length])
    stage.until(lambda: len(joins(stage)) == 2 and user.machine.is_stable)
    stage.settled(user.machine.leave(reason[:length]))

    assert stage.sent(JoinGroupRequest)[1].reason == f"rebalance enforced by user: {reason}"[:255]
    assert stage.sent(LeaveGroupRequest)[0].members[0].reason == reason[:255]


def test_static_member_sends_no_leave_group(stage: ScriptedGroup):
    user = member(stage, group_instance_id="i")

    stage.settled(user.leave())

    assert stage.sent(LeaveGroupRequest) == []
    assert stage.sent(JoinGroupRequest)[0].group_instance_id == "i"


def test_member_leaves_with_reason_after_max_poll_interval(stage: ScriptedGroup):
    member(stage, max_poll_interval_ms=8000, session_timeout_ms=6000)

    stage.loop.run(9000)

    (request,) = stage.sent(LeaveGroupRequest)
    assert request.members[0].reason.startswith("consumer poll timeout has expired")
    beats = len(stage.sent(HeartbeatRequest))
    stage.loop.run(20_000)
    assert len(stage.sent(HeartbeatRequest)) == beats


def test_old_broker_gets_group_requests_in_its_versions(stage: ScriptedGroup):
    stage.one.ranges |= {11: (0, 3), 12: (0, 1), 13: (0, 1), 14: (0, 1), 8: (2, 5), 10: (0, 2), 9: (1, 3)}
    from kohort.wire.messages.find_coordinator import FindCoordinatorResponse
    from kohort.wire.messages.offsets import (
        OffsetCommitResponse,
        OffsetFetchRequest,
        OffsetFetchResponse,
        OffsetFetchResponsePartition,
        OffsetFetchResponseTopic,
    )

    old = OffsetFetchResponseTopic(
        name="t", partitions=[OffsetFetchResponsePartition(partition_index=0, committed_offset=4, metadata="")]
    )
    stage.one.on(FindCoordinatorRequest, lambda _r, _v: FindCoordinatorResponse(node_id=1, host="one", port=9092))
    stage.one.on(OffsetFetchRequest, lambda _r, _v: OffsetFetchResponse(topics=[old]))
    stage.one.on(OffsetCommitRequest, lambda _r, _v: OffsetCommitResponse())

    user = member(stage)
    stage.until(lambda: user.values() == [b"v%d" % n for n in range(4, 10)])
    stage.settled(user.machine.commit(None, stage.now_ms + 1000))
    stage.settled(user.leave())

    assert stage.sent(LeaveGroupRequest)[0].member_id == MEMBER


# Commits


@pytest.mark.parametrize("answer", [E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR, E.REQUEST_TIMED_OUT, HANG_UP])
def test_commit_with_deadline_is_retried_but_commit_without_deadline_is_not(stage: ScriptedGroup, answer: object):
    user = member(stage, enable_auto_commit="false")
    stage.then(OffsetCommitRequest, answer)

    stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5000))
    assert stage.committed == 3

    stage.then(OffsetCommitRequest, answer)
    promise = user.machine.commit({tp("t-0"): OffsetAndMetadata(4)}, None)
    stage.loop.run_until(lambda: promise.done)
    assert promise.error is not None
    stage.polls(2_000)
    assert stage.committed == 3


@pytest.mark.parametrize(("code", "next_join"), [(E.UNKNOWN_MEMBER_ID, ""), (E.ILLEGAL_GENERATION, MEMBER)])
def test_commit_of_fenced_member_fails_and_member_rejoins(stage: ScriptedGroup, code: ErrorCode, next_join: str):
    user = member(stage, enable_auto_commit="false")
    stage.then(OffsetCommitRequest, code)

    with pytest.raises(CommitFailed):
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5000))

    stage.until(lambda: user.owned == "t-0" and len(joins(stage)) == 2)
    assert joins(stage)[1] == next_join


def test_rebalance_in_progress_error_of_commit_makes_member_rejoin(stage: ScriptedGroup):
    user = member(stage, enable_auto_commit="false", heartbeat_interval_ms=40_000, session_timeout_ms=50_000)
    stage.then(OffsetCommitRequest, E.REBALANCE_IN_PROGRESS)

    with pytest.raises(ApiError, match="REBALANCE_IN_PROGRESS"):
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5000))
    stage.polls(1000)

    assert joins(stage) == ["", MEMBER]
    assert stage.sent(JoinGroupRequest)[1].reason == "a commit was answered REBALANCE_IN_PROGRESS"
    assert ("lost", "t-0") not in user.callbacks


def test_commit_during_rebalance_is_rejected_without_request(stage: ScriptedGroup):
    user = member(stage, enable_auto_commit="false")
    stage.then(HeartbeatRequest, E.REBALANCE_IN_PROGRESS)
    stage.then(JoinGroupRequest, SILENCE)
    stage.polls(5000)
    assert user.membership.state is MemberState.PREPARING_REBALANCE

    with pytest.raises(ApiError) as caught:
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5000))

    assert caught.value.code is E.REBALANCE_IN_PROGRESS
    assert stage.sent(OffsetCommitRequest) == []


def test_commit_with_too_large_metadata_raises_error(stage: ScriptedGroup):
    user = member(stage, enable_auto_commit="false")
    stage.then(OffsetCommitRequest, E.OFFSET_METADATA_TOO_LARGE)

    with pytest.raises(ApiError, match="OFFSET_METADATA_TOO_LARGE: committing t-0 for group 'g'"):
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3, "x" * 9999)}, stage.now_ms + 5000))


def test_failed_auto_commit_before_join_does_not_block_rebalance(stage: ScriptedGroup):
    user = member(stage, max_poll_interval_ms=8000, session_timeout_ms=6000, heartbeat_interval_ms=1000)
    stage.until(lambda: len(user.records) == 10)
    stage.then(HeartbeatRequest, E.REBALANCE_IN_PROGRESS)
    stage.then(OffsetCommitRequest, *[E.REQUEST_TIMED_OUT] * 1000)

    stage.until(lambda: len(joins(stage)) == 2, limit_ms=12_000)
