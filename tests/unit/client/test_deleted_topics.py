"""Deletion of a topic that a group reads."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kohort.client.requests.source import Promise
from kohort.errors import ApiError, ErrorCode
from kohort.model import OffsetAndMetadata
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offsets import OffsetCommitRequest
from support.machines.consumer_stage import ConsumerStage, User, tp
from support.machines.scripted_group import ScriptedGroup

E = ErrorCode
MEMBERS = [
    {"group_protocol": "classic"},
    {"group_protocol": "classic", "partition_assignment_strategy": ["cooperative-sticky"]},
    {"group_protocol": "consumer"},
]
BOTH = re.compile("a-.*")
SECONDS = 1_000


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage(auto_create_topics_enable=False)
    for topic in ("a-x", "a-y"):
        stage.topic(topic, 2)
        for partition in (0, 1):
            stage.produce(topic, partition, b"v")
    return stage


def member(stage: ConsumerStage, topics: Any = BOTH, **options: Any) -> User:
    user = stage.user(group_id="g", metadata_max_age_ms=5 * SECONDS, **options)
    user.machine.subscribe(topics)
    return user


def delete(stage: ConsumerStage, topic: str) -> None:
    stage.broker.state.topics.delete(topic, stage.now_ms)


def warnings(user: User, containing: str) -> list[str]:
    return [note.text for note in user.machine.notes.take() if containing in note.text]


@pytest.mark.parametrize("topics", [BOTH, ["a-x", "a-y"]], ids=["pattern", "list"])
@pytest.mark.parametrize("options", MEMBERS)
def test_member_reads_new_records_of_other_topics_within_two_seconds_after_topic_deletion(
    stage: ConsumerStage, options: dict[str, Any], topics: Any
):
    user = member(stage, topics, **options)
    stage.until(lambda: len(user.records) == 4)
    stage.polls(6 * SECONDS)
    delete(stage, "a-y")

    for read in range(5, 35):
        stage.produce("a-x", 0, b"new")
        stage.until(lambda read=read: len(user.records) == read, 2 * SECONDS)
        stage.polls(SECONDS)

    assert user.owned == "a-x-0 a-x-1"


@pytest.mark.parametrize("options", MEMBERS)
def test_second_member_gets_partitions_within_session_timeout_after_topic_deletion(
    stage: ConsumerStage, options: dict[str, Any]
):
    user = member(stage, **options)
    stage.until(lambda: len(user.records) == 4)
    delete(stage, "a-y")

    second = member(stage, **options)

    stage.until(lambda: user.owned and second.owned in {"a-x-0", "a-x-1"}, user.machine.config.session_timeout_ms)


@pytest.mark.heavy
@pytest.mark.parametrize("options", MEMBERS)
def test_auto_commit_of_deleted_topic_is_logged_once_a_minute(stage: ConsumerStage, options: dict[str, Any]):
    user = stage.user(group_id="g", auto_commit_interval_ms=100, **options)
    user.machine.subscribe(BOTH)
    stage.until(lambda: len(user.records) == 4)
    stage.polls(SECONDS)
    delete(stage, "a-y")

    stage.polls(55 * SECONDS)

    assert len(warnings(user, "auto-commit in group 'g' failed")) <= 1


@pytest.mark.parametrize("topics", [BOTH, ["a-x", "a-y"]], ids=["pattern", "list"])
@pytest.mark.parametrize("options", MEMBERS)
def test_commit_of_deleted_topic_fails_when_metadata_confirm_deletion(
    stage: ConsumerStage, options: dict[str, Any], topics: Any
):
    user = member(stage, topics, enable_auto_commit="false", **options)
    stage.until(lambda: len(user.records) == 4)
    delete(stage, "a-y")

    with pytest.raises(ApiError, match="committing a-y-0, a-y-1 for group 'g'") as raised:
        stage.settled(user.machine.commit(None, stage.now_ms + 60 * SECONDS), 2 * SECONDS)

    assert not raised.value.retriable
    kept = stage.settled(user.machine.committed([tp("a-x-0"), tp("a-x-1")], None))
    assert [at.offset for at in kept.values()] == [1, 1]


def test_commit_of_deleted_topic_before_revocation_is_not_retried_and_is_logged(stage: ConsumerStage):
    user = member(stage, group_protocol="classic")
    stage.until(lambda: len(user.records) == 4)
    delete(stage, "a-y")

    promise = user.machine.commit(None, stage.now_ms + 60 * SECONDS, before_revocation=True)
    stage.loop.settle()

    assert promise.error is not None
    (text,) = warnings(user, "revocation")
    assert text.startswith("positions in group 'g' were not committed before the revocation: UNKNOWN_TOPIC")
    assert "a-y-0, a-y-1" in text


# Commits to a scripted coordinator

AT_3 = {tp("t-0"): OffsetAndMetadata(3)}


def scripted_member(**options: Any) -> tuple[ScriptedGroup, User]:
    stage = ScriptedGroup()
    user = stage.user("t", group_id="g", enable_auto_commit="false", **options)
    stage.until(lambda: len(user.records) == 10)
    return stage, user


def commits(stage: ScriptedGroup) -> int:
    return len(stage.sent(OffsetCommitRequest))


@pytest.mark.parametrize("code", [E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID])
def test_commit_of_topic_unknown_to_coordinator_is_retried_while_metadata_have_the_topic(code: ErrorCode):
    stage, user = scripted_member()
    refreshes = len(stage.sent(MetadataRequest))
    stage.then(OffsetCommitRequest, code, code, code)

    assert stage.settled(user.machine.commit(AT_3, stage.now_ms + 60 * SECONDS)) == AT_3

    assert commits(stage) == 4
    assert len(stage.sent(MetadataRequest)) > refreshes


def test_commit_of_partition_missing_in_topic_fails_after_metadata_refresh():
    stage, user = scripted_member()
    stage.then(OffsetCommitRequest, *[E.UNKNOWN_TOPIC_OR_PARTITION] * 20)
    promise: Promise[Any] = user.machine.commit({tp("t-7"): OffsetAndMetadata(3)}, stage.now_ms + 60 * SECONDS)

    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION: committing t-7"):
        stage.settled(promise)

    assert commits(stage) <= 3


def test_commit_before_revocation_is_retried_while_coordinator_loads():
    stage, user = scripted_member()
    stage.then(OffsetCommitRequest, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_LOAD_IN_PROGRESS)

    promise = user.machine.commit(AT_3, stage.now_ms + 60 * SECONDS, before_revocation=True)

    assert stage.settled(promise) == AT_3
    assert commits(stage) == 3
