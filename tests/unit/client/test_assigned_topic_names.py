"""Names of topics that the coordinator assigns by topic id."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.model import SubscriptionPattern
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from support.machines.consumer_stage import User
from support.machines.scripted_coordinator import INTERVAL_MS, Heartbeat, ScriptedCoordinator, id_of

FRESH = {"metadata_max_age_ms": 1_000}


@pytest.fixture
def stage() -> ScriptedCoordinator:
    return ScriptedCoordinator()


def lost(stage: ScriptedCoordinator, user: User, topic: str) -> None:
    stage.hidden = {topic}
    stage.loop.run_until(lambda: user.machine.metadata.topic(topic) is None)


def test_owned_topic_that_is_missing_in_metadata_keeps_its_name(stage: ScriptedCoordinator):
    stage.assign("t-0 u-0")
    user = stage.member(["t", "u"], **FRESH)
    stage.until(lambda: user.owned == "t-0 u-0" and user.membership.is_stable)
    lost(stage, user, "u")

    stage.assign("t-0 t-1 u-0")
    stage.until(lambda: user.owned == "t-0 t-1 u-0" and user.membership.is_stable)

    assert user.callbacks == [("assigned", "t-0 u-0"), ("assigned", "t-1")], "no partition was revoked"


def test_assigned_topic_keeps_its_name_if_metadata_lose_topic_before_next_poll(stage: ScriptedCoordinator):
    user = stage.member(["t", "u"], **FRESH)
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)
    stage.assign("t-0 u-0")
    before = len(stage.beats)
    stage.loop.run_until(lambda: len(stage.beats) > before)
    lost(stage, user, "u")

    user.poll()

    assert user.owned == "t-0 u-0"


def test_revoked_topic_name_is_dropped(stage: ScriptedCoordinator):
    stage.assign("t-0 u-0")
    user = stage.member(["t", "u"], **FRESH)
    stage.until(lambda: user.owned == "t-0 u-0" and user.membership.is_stable)
    stage.assign("t-0")
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)
    lost(stage, user, "u")

    stage.assign("t-0 u-0")
    stage.polls(2 * INTERVAL_MS)
    assert user.owned == "t-0", "the name of topic u was dropped with u-0"

    stage.hidden = set()
    stage.until(lambda: user.owned == "t-0 u-0")


def test_metadata_of_topics_that_match_pattern_are_tracked_while_topics_are_assigned(stage: ScriptedCoordinator):
    stage.assign("u-0")
    user = stage.user(group_id="g", group_protocol="consumer", **FRESH)
    user.machine.subscribe(SubscriptionPattern("."))
    stage.until(lambda: user.owned == "u-0" and user.membership.is_stable)
    stage.assign("t-0")
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)

    stage.polls(3_000)

    assert [t.topic_id for t in stage.sent(MetadataRequest)[-1].topics] == [id_of("t")]


def with_another_u(stage: ScriptedCoordinator) -> None:
    def answer(request: MetadataRequest, _version: int) -> MetadataResponse:
        answer = stage.on_metadata(request)
        for topic in answer.topics:
            if topic.name == "u":
                topic.topic_id = b"o" * 16
        return answer

    stage.one.on(MetadataRequest, answer)


def without_another_u(stage: ScriptedCoordinator) -> None:
    stage.one.on(MetadataRequest, lambda request, _version: stage.on_metadata(request))


def test_metadata_of_recreated_topic_are_requested_by_topic_id(stage: ScriptedCoordinator):
    with_another_u(stage)
    user = stage.member(["t", "u"])
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)
    without_another_u(stage)

    stage.assign("t-0 u-0")

    stage.until(lambda: user.owned == "t-0 u-0", 3 * INTERVAL_MS)


def test_metadata_of_recreated_topic_are_requested_by_topic_id_after_rejoin(stage: ScriptedCoordinator):
    with_another_u(stage)
    user = stage.member(["t", "u"])
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)
    without_another_u(stage)

    stage.then(Heartbeat, ErrorCode.FENCED_MEMBER_EPOCH)
    stage.assign("t-0 u-0")

    stage.until(lambda: user.owned == "t-0 u-0", 4 * INTERVAL_MS)
