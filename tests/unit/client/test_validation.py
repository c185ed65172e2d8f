"""Validation of a consumer's positions after a leader change (KIP-320)."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.client.reading.subscription import FetchState, Position
from kohort.errors import ErrorCode, LogTruncated
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.list_offsets import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kohort_lab.machines.scripted import HANG_UP, SILENCE
from support.machines.consumer_stage import User, tp
from support.machines.scripted_group import ScriptedGroup

T0 = tp("t-0")


@pytest.fixture
def stage() -> ScriptedGroup:
    return ScriptedGroup()


def ends(stage: ScriptedGroup, *answers: object) -> None:
    queue: list[Any] = list(answers)

    def answer(_request: object, _version: int):
        found = queue.pop(0) if len(queue) > 1 else queue[0]
        if found is HANG_UP:
            return HANG_UP
        if isinstance(found, ErrorCode):
            partition = EpochEndOffset(partition=0, error_code=found)
        else:
            partition = EpochEndOffset(partition=0, leader_epoch=found[0], end_offset=found[1])
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[partition])])

    stage.one.on(OffsetForLeaderEpochRequest, answer)


def read_all(stage: ScriptedGroup, **options: object) -> User:
    user = stage.user(metadata_max_age_ms=5000, **options)
    user.machine.subscription.assign([T0])
    if options.get("auto_offset_reset") == "none":
        user.machine.subscription.seek(T0, Position(0))
    stage.until(lambda: len(user.records) == 10)
    return user


def elect(stage: ScriptedGroup) -> None:
    stage.leader_epoch = 4


def state(user: User):
    return user.machine.subscription.state(T0)


def test_position_known_to_new_leader_is_kept(stage: ScriptedGroup):
    ends(stage, (3, 10))
    user = read_all(stage)

    elect(stage)
    stage.until(lambda: stage.requested_epochs() and state(user).state is FetchState.FETCHING)

    assert stage.requested_epochs() == [(4, 3)]
    assert state(user).position == Position(10, 3)


def test_position_in_truncated_part_of_log_moves_to_end_offset_of_leader(stage: ScriptedGroup):
    ends(stage, (2, 7))
    user = read_all(stage)
    stage.fetch = lambda _: SILENCE

    elect(stage)
    stage.until(lambda: state(user).position == Position(7, 2), limit_ms=40_000)

    assert state(user).state is FetchState.FETCHING


def test_position_with_epoch_unknown_to_leader_is_reset_by_auto_offset_reset(stage: ScriptedGroup):
    ends(stage, (-1, -1))
    user = read_all(stage)
    stage.log_start = 4
    stage.fetch = lambda _: SILENCE

    elect(stage)

    stage.until(lambda: state(user).position == Position(4, 4), limit_ms=40_000)


@pytest.mark.parametrize(("answer", "divergent"), [((2, 7), 7), ((-1, -1), None)])
def test_log_truncation_without_reset_policy_raises_error_with_offset(
    stage: ScriptedGroup, answer: tuple[int, int], divergent: int | None
):
    ends(stage, answer)
    user = read_all(stage, auto_offset_reset="none")

    elect(stage)
    with pytest.raises(LogTruncated) as caught:
        stage.polls(40_000)

    assert (caught.value.partition, caught.value.position, caught.value.divergent_offset) == ("t-0", 10, divergent)
    request_count = len(stage.requested_epochs())
    stage.polls(5000)
    assert len(stage.requested_epochs()) == request_count, "validation is not repeated until the user seeks"
    user.machine.subscription.seek(T0, Position(8))
    stage.until(lambda: user.records[-1].offset == 9 and len(user.records) == 12, limit_ms=40_000)


@pytest.mark.parametrize(
    "answer", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, HANG_UP]
)
def test_position_validation_is_retried_after_retriable_errors(stage: ScriptedGroup, answer: object):
    ends(stage, answer, (3, 10))
    user = read_all(stage)

    elect(stage)
    stage.until(lambda: len(stage.requested_epochs()) == 2 and state(user).state is FetchState.FETCHING)


def test_committed_leader_epoch_is_validated_before_first_fetch(stage: ScriptedGroup):
    ends(stage, (2, 6))
    stage.committed, stage.committed_epoch = 8, 2
    user = stage.user("t", group_id="g")

    stage.until(lambda: user.records)

    assert stage.requested_epochs() == [(3, 2)]
    assert user.records[0].offset == 6


def test_positions_are_not_validated_by_broker_without_offset_for_leader_epoch_api(stage: ScriptedGroup):
    del stage.one.ranges[23]
    stage.committed, stage.committed_epoch = 8, 2
    user = stage.user("t", group_id="g")

    stage.until(lambda: user.records)

    assert stage.sent(FetchRequest)[0].topics[0].partitions[0].fetch_offset == 8


def test_validation_response_after_seek_is_ignored(stage: ScriptedGroup):
    ends(stage, (2, 6))
    stage.committed, stage.committed_epoch = 8, 2
    user = stage.user("t", group_id="g")
    stage.loop.holding_answers = False
    stage.until(lambda: stage.requested_epochs() or user.owned)
    user.machine.subscription.seek(T0, Position(9))

    stage.until(lambda: user.records)

    assert user.records[0].offset == 9
