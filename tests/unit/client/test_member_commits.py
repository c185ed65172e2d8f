"""Offset commits of members: time, member identity, errors."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.errors import ApiError, ApiTimeout, CommitFailed, ErrorCode, KohortError, UnsupportedVersion
from kohort.model import OffsetAndMetadata
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_classic import HeartbeatRequest, JoinGroupRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest
from kohort_lab.machines.scripted import SILENCE
from support.machines.consumer_stage import User, tp
from support.machines.scripted_coordinator import ScriptedCoordinator
from support.machines.scripted_group import MEMBER, ScriptedGroup

E = ErrorCode
BY_HAND = {"enable_auto_commit": "false"}
AT_3 = {tp("t-0"): OffsetAndMetadata(3)}


@pytest.fixture
def stage() -> ScriptedGroup:
    return ScriptedGroup()


def member(stage: ScriptedGroup, **options: Any) -> User:
    user = stage.user("t", group_id="g", **options)
    stage.until(lambda: len(user.records) == 10)
    return user


def commits(stage: ScriptedGroup) -> list[OffsetCommitRequest]:
    return stage.sent(OffsetCommitRequest)


# Auto-commit


def test_consumer_without_auto_commit_never_commits_by_itself(stage: ScriptedGroup):
    member(stage, auto_commit_interval_ms=1_000, **BY_HAND)

    stage.polls(5_000)

    assert commits(stage) == []


def test_auto_commit_sends_positions_at_interval(stage: ScriptedGroup):
    user = stage.user("t", group_id="g", auto_commit_interval_ms=20_000)
    stage.until(lambda: bool(user.callbacks))
    assigned_ms = stage.now_ms  # the auto-commit interval restarts after the listener callback
    stage.until(lambda: len(user.records) == 10)
    stage.loop.run(assigned_ms + 19_999 - stage.now_ms)

    user.poll()
    stage.loop.settle()
    assert commits(stage) == []

    stage.loop.run(1)
    user.poll()
    stage.loop.settle()
    assert stage.committed == 10


def test_auto_commit_is_retried_after_retriable_error(stage: ScriptedGroup):
    options = {"retry_backoff_ms": 1_000, "retry_backoff_max_ms": 100_000, "auto_commit_interval_ms": 60_000}
    user = stage.user("t", group_id="g", **options)
    stage.then(OffsetCommitRequest, E.COORDINATOR_LOAD_IN_PROGRESS)
    stage.until(lambda: commits(stage), 70_000)

    stage.polls(750)
    assert len(commits(stage)) == 1

    stage.polls(500)
    assert len(commits(stage)) == 2
    assert user.callbacks == [("assigned", "t-0")]


def test_failed_auto_commit_is_logged_with_reason(stage: ScriptedGroup):
    user = member(stage, auto_commit_interval_ms=1_000)
    stage.then(OffsetCommitRequest, E.INVALID_COMMIT_OFFSET_SIZE)
    stage.until(lambda: commits(stage))

    stage.polls(200)

    (note,) = user.notes_besides_resets()
    message = "auto-commit in group 'g' failed: INVALID_COMMIT_OFFSET_SIZE: committing t-0"
    assert note.text.startswith(message)


@pytest.mark.parametrize("code", [E.STALE_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID])
def test_member_retries_failed_auto_commit_before_next_interval(code: ErrorCode):
    stage = ScriptedCoordinator()
    user = stage.joined(auto_commit_interval_ms=20_000)
    stage.until(lambda: user.records)
    stage.then(OffsetCommitRequest, code)
    stage.until(stage.commits)

    stage.polls(1_000)

    assert len(stage.commits()) == 2


# Commits by the user


def test_commit_without_coordinator_fails_at_deadline(stage: ScriptedGroup):
    stage.then(FindCoordinatorRequest, SILENCE)
    user = stage.user(group_id="g", request_timeout_ms=30_000)
    user.machine.subscription.assign([tp("t-0")])
    deadline_ms = stage.now_ms + 3_000
    promise = user.machine.commit(AT_3, deadline_ms)

    stage.loop.run_until(lambda: promise.done)

    assert isinstance(promise.error, ApiTimeout)
    assert str(promise.error) == "the offsets of group 'g' were not committed in time"
    assert stage.now_ms == deadline_ms


def test_commit_to_broker_without_offset_commit_api_fails_at_once(stage: ScriptedGroup):
    del stage.one.ranges[OffsetCommitRequest.API_KEY]
    user = member(stage, **BY_HAND)

    with pytest.raises(UnsupportedVersion):
        stage.settled(user.machine.commit(AT_3, stage.now_ms + 5_000), 1_000)


def test_commit_with_too_large_metadata_counts_as_one_error_in_metrics(stage: ScriptedGroup):
    user = member(stage, **BY_HAND)
    stage.settled(user.machine.commit(AT_3, None))
    stage.then(OffsetCommitRequest, E.OFFSET_METADATA_TOO_LARGE)

    with pytest.raises(ApiError):
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(4)}, None))

    assert stage.committed == 3
    assert user.machine.metrics.errors == {(OffsetCommitRequest, "OFFSET_METADATA_TOO_LARGE"): 1}


@pytest.mark.parametrize(
    ("code", "lookups", "refreshes"),
    [
        (E.NOT_COORDINATOR, 1, 0),
        (E.COORDINATOR_NOT_AVAILABLE, 1, 0),
        (E.REQUEST_TIMED_OUT, 1, 0),
        (E.COORDINATOR_LOAD_IN_PROGRESS, 0, 0),
        (E.UNKNOWN_TOPIC_OR_PARTITION, 0, 1),
        (E.UNKNOWN_TOPIC_ID, 0, 1),
    ],
)
def test_commit_is_retried_after_coordinator_lookup_or_metadata_refresh(
    stage: ScriptedGroup, code: ErrorCode, lookups: int, refreshes: int
):
    user = member(stage, **BY_HAND)
    counts_before = len(stage.sent(FindCoordinatorRequest)), len(stage.sent(MetadataRequest))
    stage.then(OffsetCommitRequest, code)

    stage.settled(user.machine.commit(AT_3, stage.now_ms + 5_000))

    counts = len(stage.sent(FindCoordinatorRequest)), len(stage.sent(MetadataRequest))
    assert counts == (counts_before[0] + lookups, counts_before[1] + refreshes)
    assert stage.committed == 3


AT_5 = {tp("t-0"): OffsetAndMetadata(5)}


def test_repeated_commit_does_not_overwrite_later_commit(stage: ScriptedGroup):
    user = member(stage, retry_backoff_ms=1_000, retry_backoff_max_ms=1_000, **BY_HAND)
    stage.then(OffsetCommitRequest, E.COORDINATOR_LOAD_IN_PROGRESS)
    older = user.machine.commit(AT_3, stage.now_ms + 60_000)
    stage.loop.settle()
    stage.settled(user.machine.commit(AT_5, stage.now_ms + 60_000))

    assert stage.settled(older) == AT_3
    assert (len(commits(stage)), stage.committed) == (2, 5)


def test_repeated_commit_sends_offset_of_later_commit_whose_response_was_lost(stage: ScriptedGroup):
    user = member(stage, retry_backoff_ms=100, retry_backoff_max_ms=100, **BY_HAND)
    stage.then(OffsetCommitRequest, E.COORDINATOR_LOAD_IN_PROGRESS)
    older = user.machine.commit(AT_3, stage.now_ms + 60_000)
    stage.loop.settle()
    stage.then(OffsetCommitRequest, SILENCE)
    later = user.machine.commit(AT_5, None)
    stage.loop.settle()
    stage.loop.run(5_000)
    assert len(commits(stage)) == 2, "the older commit waits for the outcome of the later one"

    stage.settled(older)

    assert later.error is not None, (
        "the lost later commit may still be written, so offset 3 must not overwrite offset 5"
    )
    assert stage.committed == 5


def test_partially_failed_commit_repeats_only_failed_partitions(stage: ScriptedGroup):
    user = member(stage, **BY_HAND)

    def refuse_one(request: OffsetCommitRequest, _version: int) -> OffsetCommitResponse:
        answer = stage.on_offset_commit(request)
        answer.topics[0].partitions[-1].error_code = E.UNKNOWN_TOPIC_OR_PARTITION if len(commits(stage)) == 1 else 0
        return answer

    stage.one.on(OffsetCommitRequest, refuse_one)

    written = stage.settled(user.machine.commit(AT_3 | {tp("t-1"): OffsetAndMetadata(4)}, stage.now_ms + 5_000))

    committed_partitions = [[p.partition_index for p in sent.topics[0].partitions] for sent in commits(stage)]
    assert committed_partitions == [[0, 1], [1]]
    assert {partition: at.offset for partition, at in written.items()} == {tp("t-0"): 3, tp("t-1"): 4}


@pytest.mark.parametrize("next_life", [E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION])
def test_commit_is_not_repeated_after_rejoin(stage: ScriptedGroup, next_life: ErrorCode):
    user = member(stage, retry_backoff_ms=10_000, retry_backoff_max_ms=10_000, **BY_HAND)
    stage.then(OffsetCommitRequest, E.COORDINATOR_LOAD_IN_PROGRESS)
    promise = user.machine.commit(AT_3, stage.now_ms + 60_000)
    stage.loop.settle()
    stage.then(HeartbeatRequest, next_life)
    stage.until(lambda: len(stage.sent(JoinGroupRequest)) == 2 and user.machine.is_stable)
    assert not promise.done, "the commit still waits for its retry"

    with pytest.raises(CommitFailed, match="no longer a member of group 'g'"):
        stage.settled(promise)

    assert (len(commits(stage)), stage.committed) == (1, -1)


def test_lost_membership_during_commit_is_logged_once(stage: ScriptedGroup):
    user = member(stage, heartbeat_interval_ms=3_000, **BY_HAND)
    stage.then(HeartbeatRequest, E.UNKNOWN_MEMBER_ID)
    stage.then(OffsetCommitRequest, E.UNKNOWN_MEMBER_ID)
    beats = len(stage.sent(HeartbeatRequest))
    stage.loop.holding_answers = True
    stage.loop.run_until(lambda: len(stage.sent(HeartbeatRequest)) > beats)
    promise = user.machine.commit(AT_3, None)
    stage.loop.settle()
    assert len(commits(stage)) == 1

    stage.loop.release_answers()
    stage.loop.settle()

    (note,) = user.notes_besides_resets()
    assert "a heartbeat was answered UNKNOWN_MEMBER_ID" in note.text
    assert str(promise.error) == (
        "REBALANCE_IN_PROGRESS: the member has rejoined since this commit: poll(), then commit again"
    )


def test_unknown_member_id_error_of_commit_with_manual_assignment_logs_no_lost_membership(stage: ScriptedGroup):
    user = stage.user(group_id="g", **BY_HAND)
    user.machine.subscription.assign([tp("t-0")])
    stage.then(OffsetCommitRequest, E.UNKNOWN_MEMBER_ID)

    with pytest.raises(KohortError):
        stage.settled(user.machine.commit(AT_3, None))

    assert list(user.notes_besides_resets()) == []


# Member identity in commits


def test_static_member_commits_with_its_instance_id(stage: ScriptedGroup):
    user = member(stage, group_instance_id="i", **BY_HAND)

    stage.settled(user.machine.commit(AT_3, None))

    (request,) = commits(stage)
    identity = (request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
    assert identity == (MEMBER, 1, "i")


def test_commit_of_manual_assignment_sends_no_member_id(stage: ScriptedGroup):
    user = stage.user(group_id="g", group_instance_id="i", **BY_HAND)
    user.machine.subscription.assign([tp("t-0")])

    stage.settled(user.machine.commit(AT_3, None))

    (request,) = commits(stage)
    identity = (request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
    assert identity == ("", -1, None)


# Topics without a known topic id


@pytest.mark.parametrize(("unknown", "version"), [("u", 9), ("t", 10)])
def test_commit_uses_topic_names_if_a_topic_id_is_unknown(unknown: str, version: int):
    stage = ScriptedCoordinator()
    stage.hidden = {"u"}
    user = stage.joined(**BY_HAND)
    stage.until(lambda: user.records)
    partitions = [tp("t-0"), tp(f"{unknown}-1")]

    stage.settled(user.machine.commit(dict.fromkeys(partitions, OffsetAndMetadata(3)), None))
    stage.settled(user.machine.committed(partitions, stage.now_ms + 1_000))

    versions = {
        type(received.request): received.header.api_version
        for received in stage.one.received
        if isinstance(received.request, OffsetCommitRequest | OffsetFetchRequest)
    }
    assert versions == {OffsetCommitRequest: version, OffsetFetchRequest: version}
