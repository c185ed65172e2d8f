"""Consecutive memberships of a consumer group member: member id, epoch, late responses, leave."""

from __future__ import annotations

import base64
from uuid import UUID

import pytest

from kohort.client.group.member_states import ConsumerMemberState
from kohort.client.requests.source import Unsent
from kohort.errors import ApiError, CommitFailed, ErrorCode, UnsupportedVersion
from kohort.model import GroupMetadata, OffsetAndMetadata
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatResponse
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from kohort_lab.machines.scripted import SILENCE
from support.machines.consumer_stage import User, tp
from support.machines.scripted_coordinator import INTERVAL_MS, Heartbeat, ScriptedCoordinator, assignment_of

E = ErrorCode
S = ConsumerMemberState


@pytest.fixture
def stage() -> ScriptedCoordinator:
    return ScriptedCoordinator()


def epoch_of_user(user: User) -> int:
    return user.machine.group_metadata().generation_id


def fenced(stage: ScriptedCoordinator, user: User) -> None:
    stage.then(Heartbeat, E.FENCED_MEMBER_EPOCH)
    stage.loop.run_until(lambda: user.membership.state is S.FENCED)


# Member id


def test_member_id_is_a_random_uuid_that_differs_for_each_consumer(stage: ScriptedCoordinator):
    ids = [stage.user(group_id="g", group_protocol="consumer").membership.member_id for _ in range(40)]

    uuids = {UUID(bytes=base64.urlsafe_b64decode(member_id + "==")) for member_id in ids}
    assert {len(member_id) for member_id in ids} == {22}
    assert (len(uuids), {uuid.version for uuid in uuids}) == (40, {4})


# Member epoch in the consumer's group metadata


def test_member_before_join_has_no_generation(stage: ScriptedCoordinator):
    user = stage.member()

    assert user.machine.group_metadata() == GroupMetadata("g")
    assert not user.machine.is_stable


def test_epoch_in_group_metadata_is_set_after_on_partitions_assigned(stage: ScriptedCoordinator):
    user = stage.member()
    user.poll()
    stage.loop.run_until(lambda: user.membership.state is S.RECONCILING)
    assert epoch_of_user(user) == -1, "the member has joined, but owns no partitions"
    epochs: list[int] = []
    user.on_callback = lambda _: epochs.append(epoch_of_user(user))

    user.poll()

    assert epochs == [-1]
    assert epoch_of_user(user) == 1, "the assignment is not acknowledged yet"


def test_epoch_in_group_metadata_changes_with_member_epoch(stage: ScriptedCoordinator):
    user = stage.joined()

    stage.epoch = 5
    stage.polls(INTERVAL_MS)

    assert epoch_of_user(user) == 5


def test_group_metadata_keep_epoch_of_lost_partitions_until_next_assignment(stage: ScriptedCoordinator):
    user = stage.joined()
    fenced(stage, user)
    stage.epoch = 9
    assert user.poll() == []
    stage.loop.run_until(lambda: user.membership.generation.generation_id == 9)
    assert epoch_of_user(user) == 1, "transactional commits of the lost partitions must fail"

    user.poll()

    assert epoch_of_user(user) == 9


def test_group_metadata_of_member_fenced_before_assignment_have_no_epoch(stage: ScriptedCoordinator):
    user = stage.member()
    user.poll()
    stage.loop.run_until(lambda: user.membership.state is S.RECONCILING)
    fenced(stage, user)

    user.poll()
    stage.loop.run_until(lambda: user.membership.state is S.RECONCILING)

    assert epoch_of_user(user) == -1


@pytest.mark.parametrize("is_fenced", [False, True])
def test_offset_fetch_request_of_consumer_that_is_no_member_has_no_member_id(
    stage: ScriptedCoordinator, is_fenced: bool
):
    if is_fenced:
        user = stage.joined()
        fenced(stage, user)
    else:
        user = stage.member()
        stage.then(Heartbeat, SILENCE)  # the heartbeat that joins the group is in flight
        user.poll()
        stage.loop.run_until(lambda: len(stage.beats) == 1)

    user.machine.committed([tp("t-0")], stage.now_ms + 5_000)
    stage.loop.settle()

    (group,) = stage.sent(OffsetFetchRequest)[-1].groups
    assert (group.member_id, group.member_epoch) == (None, -1)


# Rejected offset requests


def test_commit_of_manual_assignment_in_active_group_is_rejected(stage: ScriptedCoordinator):
    user = stage.user(group_id="g", group_protocol="consumer")
    user.machine.assign([tp("t-0")])
    stage.then(OffsetCommitRequest, E.UNKNOWN_MEMBER_ID)

    with pytest.raises(ApiError, match="UNKNOWN_MEMBER_ID: committing t-0 for group 'g'") as caught:
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5_000))

    assert not isinstance(caught.value, CommitFailed), "the consumer was never a member of the group"


def test_denied_commit_error_names_partition_and_group(stage: ScriptedCoordinator):
    user = stage.joined(enable_auto_commit="false")
    stage.then(OffsetCommitRequest, E.GROUP_AUTHORIZATION_FAILED)

    with pytest.raises(ApiError, match="GROUP_AUTHORIZATION_FAILED: committing t-0 for group 'g'"):
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5_000))


# Late heartbeat responses


def beat_of_an_earlier_life(stage: ScriptedCoordinator, user: User) -> Unsent:
    member = user.membership
    (beat,) = member.poll(stage.now_ms + INTERVAL_MS).unsent
    user.leave()
    user.alive = True
    user.machine.subscribe(["t"])
    user.poll()
    assert member.state is S.JOINING
    return beat


def test_heartbeat_response_of_earlier_membership_is_ignored(stage: ScriptedCoordinator):
    user = stage.joined()
    member = user.membership
    beat = beat_of_an_earlier_life(stage, user)

    late = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=9, assignment=assignment_of("t-3"))
    member.on_response(beat, late, stage.now_ms)

    assert (member.state, member.generation.generation_id) == (S.JOINING, 0)
    stage.until(lambda: user.owned == "t-0" and member.is_stable)
    assert ("assigned", "t-3") not in user.callbacks


def test_failed_heartbeat_of_earlier_membership_is_ignored(stage: ScriptedCoordinator):
    user = stage.joined()
    member = user.membership
    beat = beat_of_an_earlier_life(stage, user)

    member.on_failure(beat, UnsupportedVersion("too old"), stage.now_ms)

    assert member.state is S.JOINING
    stage.until(lambda: user.owned == "t-0" and member.is_stable)
    assert len(stage.sent(FindCoordinatorRequest)) == 1, "the coordinator was not looked up again"


# Leave


@pytest.mark.parametrize("code", [E.FENCED_MEMBER_EPOCH, E.INVALID_REQUEST])
def test_leave_of_fenced_member_sends_no_request(stage: ScriptedCoordinator, code: ErrorCode):
    user = stage.joined()
    stage.then(Heartbeat, code)
    stage.loop.run(INTERVAL_MS)

    promise = user.leave()

    assert promise.done, "a fenced member leaves without a request"
    assert user.callbacks[-1] == ("lost", "t-0")
    stage.loop.run(INTERVAL_MS)
    assert stage.goodbyes == []


def test_leave_without_coordinator_completes_at_once(stage: ScriptedCoordinator):
    user = stage.joined()
    user.machine.group.lookup.mark_unknown()

    assert user.leave().done


def test_consumer_that_leaves_before_join_response_is_no_member(stage: ScriptedCoordinator):
    stage.then(Heartbeat, SILENCE)
    user = stage.member()
    user.poll()
    stage.loop.run_until(lambda: len(stage.beats) == 1)

    assert not user.membership.prepare_leave()
    assert user.membership.state is S.PREPARE_LEAVING


def test_new_target_assignment_is_ignored_while_member_leaves(stage: ScriptedCoordinator):
    user = stage.joined()
    user.machine.prepare_leave()
    before = len(stage.beats)

    stage.assign("t-0 t-1")
    stage.loop.run_until(lambda: len(stage.beats) > before)
    stage.loop.settle()

    assert user.membership.state is S.PREPARE_LEAVING
    assert user.owned == "t-0"
    stage.settled(user.leave())
    assert [r.member_epoch for r in stage.goodbyes] == [-1]


def test_leaving_member_requests_no_metadata(stage: ScriptedCoordinator):
    stage.hidden = {"u"}
    stage.assign("t-0 u-0")
    user = stage.member(["t", "u"])
    stage.until(lambda: user.owned == "t-0")
    request_count = len(stage.sent(MetadataRequest))
    stage.polls(4 * INTERVAL_MS)
    assert len(stage.sent(MetadataRequest)) > request_count, "a member that waits for a topic name requests metadata"
    user.machine.prepare_leave()
    stage.loop.run(3 * INTERVAL_MS)  # wait for the responses to earlier requests
    request_count = len(stage.sent(MetadataRequest))

    stage.loop.run(4 * INTERVAL_MS)

    assert len(stage.sent(MetadataRequest)) == request_count
