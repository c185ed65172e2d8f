"""group.protocol=auto against a scripted coordinator: what it serves decides, once."""

from __future__ import annotations

import pytest

from kohort.errors import ApiError, UsageError
from kohort.model import GroupMetadata, OffsetAndMetadata, SubscriptionPattern
from kohort.testing.machines.scripted import HANG_UP, SILENCE
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_classic import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest
from support.machines.consumer_stage import User, tp
from support.machines.scripted_coordinator import Heartbeat, ScriptedCoordinator


@pytest.fixture
def stage() -> ScriptedCoordinator:
    return ScriptedCoordinator()


def auto(stage: ScriptedCoordinator, **options: object) -> User:
    return stage.user("t", group_id="g", group_protocol="auto", **options)


def without_the_feature(stage: ScriptedCoordinator) -> None:
    stage.one.features = {"group.version": 0}


def without_the_api(stage: ScriptedCoordinator) -> None:
    del stage.one.ranges[Heartbeat.API_KEY]


def with_an_early_version(stage: ScriptedCoordinator) -> None:
    stage.one.ranges[Heartbeat.API_KEY] = (0, 0)


def notes(user: User) -> list[str]:
    return [note.text for note in user.machine.notes.take()]


def test_a_coordinator_that_serves_the_new_protocol_is_spoken_to_in_it(stage: ScriptedCoordinator):
    user = auto(stage)

    stage.until(lambda: user.owned == "t-0" and user.machine.is_stable)

    assert stage.sent(JoinGroupRequest) == []
    assert notes(user) == ["group 'g' is joined with the group protocol consumer: the coordinator serves it"]
    assert user.machine.group_metadata() == GroupMetadata("g", 1, stage.beats[0].member_id)
    stage.polls(20_000)
    assert notes(user) == [], "it is said once"


@pytest.mark.parametrize("lacks", [without_the_feature, without_the_api, with_an_early_version])
def test_any_other_is_spoken_to_in_the_classic_one(stage: ScriptedCoordinator, lacks: object):
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


@pytest.mark.parametrize("answer", [HANG_UP, SILENCE])
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
    assert len(stage.sent(FindCoordinatorRequest)) == 2


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
