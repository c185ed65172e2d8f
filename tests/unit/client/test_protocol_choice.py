"""group.protocol=auto against a scripted coordinator: what it serves decides, once."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.client.group.member_states import ConsumerMemberState
from kohort.errors import ApiError, CommitFailed, ErrorCode, UsageError
from kohort.model import GroupMetadata, OffsetAndMetadata, SubscriptionPattern
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_classic import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from kohort_lab.machines.scripted import HANG_UP, SILENCE
from support.machines.consumer_stage import User, tp
from support.machines.scripted_coordinator import INTERVAL_MS, Heartbeat, ScriptedCoordinator

E = ErrorCode
REFUSED = ApiVersionsResponse(error_code=E.UNKNOWN_SERVER_ERROR)


@pytest.fixture
def stage() -> ScriptedCoordinator:
    return ScriptedCoordinator()


def auto(stage: ScriptedCoordinator, **options: object) -> User:
    return stage.user("t", group_id="g", group_protocol="auto", **options)


def without_the_feature(stage: ScriptedCoordinator) -> None:
    stage.one.features = {"group.version": 0}


def without_any_feature(stage: ScriptedCoordinator) -> None:
    stage.one.features = {}


def without_the_api(stage: ScriptedCoordinator) -> None:
    del stage.one.ranges[Heartbeat.API_KEY]


def with_an_early_version(stage: ScriptedCoordinator) -> None:
    stage.one.ranges[Heartbeat.API_KEY] = (0, 0)


def notes(user: User) -> list[str]:
    return [note.text for note in user.notes_besides_resets()]


def test_a_coordinator_that_serves_the_new_protocol_is_spoken_to_in_it(stage: ScriptedCoordinator):
    user = auto(stage)

    stage.until(lambda: user.owned == "t-0" and user.machine.is_stable)

    assert stage.sent(JoinGroupRequest) == []
    assert notes(user) == ["group 'g' is joined with the group protocol consumer: the coordinator serves it"]
    assert user.machine.group_metadata() == GroupMetadata("g", 1, stage.beats[0].member_id)
    stage.polls(20_000)
    assert notes(user) == [], "it is said once"


def test_what_else_a_cluster_has_agreed_on_makes_no_difference(stage: ScriptedCoordinator):
    stage.one.features = {"kraft.version": 1, "group.version": 1, "transaction.version": 2}
    user = auto(stage)

    stage.until(lambda: user.owned == "t-0")

    assert stage.sent(JoinGroupRequest) == []


@pytest.mark.parametrize("lacks", [without_the_feature, without_any_feature, without_the_api, with_an_early_version])
def test_any_other_is_spoken_to_in_the_classic_one(stage: ScriptedCoordinator, lacks: Any):
    lacks(stage)
    user = auto(stage, partition_assignment_strategy="cooperative-sticky", session_timeout_ms=9000)

    stage.until(lambda: user.owned == "t-0 t-1 t-2 t-3")

    assert stage.beats == []
    assert stage.sent(JoinGroupRequest)[0].session_timeout_ms == 9000
    told = "group 'g' is joined with the group protocol classic: the coordinator does not serve the protocol consumer"
    assert notes(user) == [told]
    user.machine.enforce_rebalance("")
    stage.until(lambda: len(stage.sent(JoinGroupRequest)) == 2)
    stage.settled(user.leave())
    assert len(stage.sent(LeaveGroupRequest)) == 1


def test_nothing_is_chosen_before_the_user_polls(stage: ScriptedCoordinator):
    user = auto(stage)

    stage.loop.run(5000)

    assert stage.sent(FindCoordinatorRequest) == []
    assert user.machine.group_metadata() == GroupMetadata("g")
    assert not user.machine.is_stable
    with pytest.raises(ApiError, match=r"poll\(\) until the group is joined"):
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5000))
    assert stage.settled(user.leave()) is None


@pytest.mark.parametrize("answer", [HANG_UP, SILENCE, REFUSED])
def test_a_coordinator_that_does_not_say_is_looked_for_again(stage: ScriptedCoordinator, answer: object):
    said: list[object] = []
    versions = stage.one._answer

    def once(request: ApiVersionsRequest, version: int) -> object:
        if len(stage.sent(ApiVersionsRequest)) == 3 and not said:  # the bootstrap's, the coordinator's, the question
            said.append(answer)
            return answer
        stage.one._answers.pop(ApiVersionsRequest)
        try:
            return versions(request, version)
        finally:
            stage.one.on(ApiVersionsRequest, once)

    stage.one.on(ApiVersionsRequest, once)
    user = auto(stage, request_timeout_ms=3000, retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
    stage.until(lambda: said)
    stage.polls(3_000)  # after which SILENCE has failed as well
    failed_ms = stage.now_ms

    stage.until(lambda: user.owned == "t-0")

    assert said == [answer]
    assert stage.now_ms - failed_ms > 4_000, "after a back-off"
    assert len(stage.sent(FindCoordinatorRequest)) == (1 if answer is REFUSED else 2)


def test_a_member_that_was_chosen_for_leaves_for_not_polling(stage: ScriptedCoordinator):
    auto(stage, max_poll_interval_ms=8000)
    stage.until(lambda: stage.beats)

    stage.loop.run(9000)

    assert [r.member_epoch for r in stage.goodbyes] == [-1]


@pytest.mark.parametrize("is_classic", [False, True])
def test_a_member_that_is_chosen_for_in_a_long_poll_stays(stage: ScriptedCoordinator, is_classic: bool):
    if is_classic:
        without_the_api(stage)
    user = auto(stage, max_poll_interval_ms=8000, session_timeout_ms=8000)
    user.machine.enter_poll(stage.now_ms)

    for _ in range(20):
        if user.machine.advance(stage.now_ms) is not None:
            user.machine.acknowledge(stage.now_ms)
        stage.loop.run(1_000)

    assert len(stage.sent(HeartbeatRequest) if is_classic else stage.beats) > 1
    assert stage.sent(LeaveGroupRequest) == stage.goodbyes == []


def test_a_pattern_that_nobody_matches_is_refused(stage: ScriptedCoordinator):
    without_the_api(stage)
    user = stage.user(group_id="g", group_protocol="auto")
    user.machine.subscribe(SubscriptionPattern("t.*"))

    for _ in range(2):
        with pytest.raises(UsageError, match="matches no SubscriptionPattern: unsubscribe"):
            stage.polls(1000)


# Before the choice, and after it


def test_a_poll_is_due_until_the_coordinator_is_asked_and_again_when_there_is_something_to_tell(
    stage: ScriptedCoordinator,
):
    user = stage.user(group_id="g", group_protocol="auto")
    assert not user.machine.needs_user, "it is subscribed to nothing"
    user.machine.subscribe(["t"])
    assert user.machine.needs_user

    user.poll()

    assert not user.machine.needs_user, "it waits for the answer"
    assert not user.membership.is_stable
    assert not user.machine.is_quiet
    stage.loop.run_until(lambda: user.machine.needs_user)
    assert user.membership.made is not None
    stage.until(lambda: user.membership.is_stable)
    assert not user.machine.needs_user


def test_a_user_who_leaves_before_the_choice_has_the_coordinator_asked_no_more(stage: ScriptedCoordinator):
    stage.then(FindCoordinatorRequest, *[E.COORDINATOR_NOT_AVAILABLE] * 5)
    user = auto(stage)
    user.poll()
    stage.loop.settle()

    assert stage.settled(user.leave()) is None

    stage.loop.run(20_000)
    assert user.membership.made is None
    assert not [text for text in notes(user) if "is joined" in text]


def test_who_may_not_know_the_coordinator_is_told_and_goes_on_once_it_may(stage: ScriptedCoordinator):
    stage.then(FindCoordinatorRequest, E.GROUP_AUTHORIZATION_FAILED)
    user = auto(stage)

    with pytest.raises(ApiError, match="GROUP_AUTHORIZATION_FAILED"):
        stage.polls(1_000)

    stage.until(lambda: user.owned == "t-0")


def test_a_pattern_of_the_clusters_is_sent_where_it_is_matched(stage: ScriptedCoordinator):
    stage.assign("u-1")
    user = stage.user(group_id="g", group_protocol="auto")
    user.machine.subscribe(SubscriptionPattern("u.*"))

    stage.until(lambda: user.owned == "u-1")

    assert stage.beats[0].subscribed_topic_regex == "u.*"


def test_a_pattern_that_nobody_matches_is_a_reason_to_wake_the_user(stage: ScriptedCoordinator):
    without_the_api(stage)
    user = auto(stage)
    stage.until(lambda: user.machine.is_stable)
    user.leave()
    user.machine.subscribe(SubscriptionPattern("t.*"))

    assert user.machine.needs_user
    with pytest.raises(UsageError, match="matches no SubscriptionPattern"):
        user.poll()
    assert user.machine.needs_user, "and again, until the subscription is another"


def test_offsets_are_committed_and_read_as_the_member_that_was_chosen_for(stage: ScriptedCoordinator):
    stage.epoch = 7
    user = auto(stage, enable_auto_commit="false")
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)

    stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5_000))

    assert stage.commits() == [(7, [("t", 0)])]
    (asked,) = stage.sent(OffsetFetchRequest)[0].groups
    assert (asked.member_id, asked.member_epoch) == (stage.beats[0].member_id, 7)
    stage.then(OffsetCommitRequest, E.STALE_MEMBER_EPOCH)
    stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(4)}, stage.now_ms + 5_000))
    assert len(stage.commits()) == 3, "a stale epoch was made good"


def test_a_commit_of_an_earlier_life_is_not_repeated_here_either(stage: ScriptedCoordinator):
    user = auto(stage, enable_auto_commit="false", retry_backoff_max_ms=100_000)
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)
    stage.then(OffsetCommitRequest, *[E.COORDINATOR_LOAD_IN_PROGRESS] * 1_000)
    promise = user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 60_000)
    stage.loop.settle()
    stage.then(Heartbeat, E.FENCED_MEMBER_EPOCH)
    stage.loop.run_until(lambda: user.membership.made.membership.state is ConsumerMemberState.FENCED)
    user.poll()
    stage.loop.run_until(lambda: user.membership.generation.generation_id == 1)
    assert not promise.done, "it is tried again once the member has joined again"

    stage.loop.run_until(lambda: promise.done)

    with pytest.raises(CommitFailed, match="not a member of group 'g' any more"):
        promise.result()


def test_a_member_that_fell_out_commits_nothing_here_either(stage: ScriptedCoordinator):
    user = auto(stage)
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)
    stage.then(Heartbeat, E.FENCED_MEMBER_EPOCH)
    stage.loop.run(INTERVAL_MS)
    before = len(stage.commits())

    with pytest.raises(CommitFailed, match="not a member of group 'g' any more"):
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5_000))

    assert len(stage.commits()) == before


def test_a_commit_by_hand_that_is_refused_before_the_choice_says_why(stage: ScriptedCoordinator):
    user = stage.user(group_id="g", group_protocol="auto")
    user.machine.assign([tp("t-0")])
    stage.then(OffsetCommitRequest, E.UNKNOWN_MEMBER_ID)

    with pytest.raises(ApiError, match="UNKNOWN_MEMBER_ID: committing t-0 for group 'g'"):
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5_000))


def test_a_commit_by_hand_that_waits_is_written_by_the_member_that_the_user_has_become(stage: ScriptedCoordinator):
    user = stage.user(group_id="g", group_protocol="auto", enable_auto_commit="false")
    user.machine.assign([tp("t-0")])
    stage.then(OffsetCommitRequest, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_LOAD_IN_PROGRESS)
    promise = user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 60_000)
    stage.loop.run(10)
    user.machine.subscription.unsubscribe()
    user.machine.subscribe(["t"])

    stage.until(lambda: promise.done)

    assert promise.error is None


def test_heartbeats_that_are_lost_after_the_choice_are_the_members_to_repeat(stage: ScriptedCoordinator):
    user = auto(stage)
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)
    before = len(stage.beats)
    stage.then(Heartbeat, HANG_UP)

    stage.polls(INTERVAL_MS + 1_000)

    assert len(stage.beats) == before + 2
    assert user.told == [("assigned", "t-0")]


def test_who_says_goodbye_to_nobody_knows_the_coordinator_still(stage: ScriptedCoordinator):
    user = auto(stage)
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)
    stage.then(Heartbeat, HANG_UP)

    assert stage.settled(user.leave()) is None
    assert user.told[-1] == ("revoked", "t-0"), "it was a member to the end"

    user.alive = True
    user.machine.subscribe(["t"])
    stage.until(lambda: user.owned == "t-0")
    assert len(stage.sent(FindCoordinatorRequest)) == 1


def test_a_fatal_error_after_the_choice_is_told_and_the_next_poll_tries_again(stage: ScriptedCoordinator):
    user = auto(stage)
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)
    stage.then(Heartbeat, E.GROUP_AUTHORIZATION_FAILED)
    stage.loop.run(INTERVAL_MS)

    with pytest.raises(ApiError, match="GROUP_AUTHORIZATION_FAILED"):
        user.poll()

    stage.until(lambda: user.told[-2:] == [("lost", "t-0"), ("assigned", "t-0")])


def test_heartbeats_of_a_classic_member_go_on_once_the_user_has_seen_the_error(stage: ScriptedCoordinator):
    without_the_api(stage)
    user = auto(stage, heartbeat_interval_ms=1_000)
    stage.until(lambda: user.owned == "t-0 t-1 t-2 t-3" and user.membership.is_stable)
    stage.then(HeartbeatRequest, E.GROUP_AUTHORIZATION_FAILED)
    stage.loop.run_until(lambda: bool(user.machine.failures), 5_000)

    with pytest.raises(ApiError, match="GROUP_AUTHORIZATION_FAILED"):
        user.machine.raise_failure()

    before = len(stage.sent(HeartbeatRequest))
    stage.loop.settle()
    stage.loop.run(1_000)
    assert len(stage.sent(HeartbeatRequest)) > before


def test_a_poll_of_a_member_may_last_longer_than_the_time_between_polls(stage: ScriptedCoordinator):
    user = auto(stage, max_poll_interval_ms=8_000)
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)
    stage.loop.run(4_000)

    user.machine.enter_poll(stage.now_ms)
    stage.loop.run(20_000)

    assert stage.goodbyes == []
