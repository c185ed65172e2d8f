"""Classic members of a consumer group: their sessions, and conditions that prevent a group conversion."""

import pytest

from kohort.coordinator.journal import EpochRaised
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import Assignment, build_assignment
from support.consumer_protocol import assignment
from support.machines.coordinator_stage import CoordinatorStage


@pytest.fixture
def mixed() -> CoordinatorStage:
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.answer(stage.join(instance_id="classic"))
    stage.sync(classic(stage), 1, {classic(stage): assignment(("t", 0), ("t", 1))}, instance_id="classic")
    stage.come("modern")
    assert stage.answer(stage.join(classic(stage), instance_id="classic")).generation_id == 2
    assert synced(stage) == ErrorCode.NONE
    stage.beat("modern", 2)
    return stage


def classic(stage: CoordinatorStage) -> str:
    member_id: str = stage.answer(1).member_id
    return member_id


def synced(stage: CoordinatorStage) -> int:
    code: int = stage.answer(stage.sync(classic(stage), 2, instance_id="classic")).error_code
    return code


def removals(stage: CoordinatorStage) -> list[tuple[str, str]]:
    return [
        (e.cause.event, e.cause.member.member_id)
        for e in stage.entries(EpochRaised)
        if e.cause.event in ("session_expired", "rejoin_timeout", "resync_timeout")
    ]


@pytest.mark.parametrize("sign", ["heartbeat", "sync"])
def test_classic_heartbeat_renews_the_session_in_a_consumer_group(mixed, sign):
    for _ in range(3):
        mixed.advance(9_000)
        mixed.beat("modern", 2)
        code = synced(mixed) if sign == "sync" else mixed.heartbeat(classic(mixed), 2)
        assert code == ErrorCode.NONE
    assert removals(mixed) == []

    mixed.advance(10_000)  # the classic member's own session timeout passes

    assert removals(mixed) == [("session_expired", classic(mixed))]


def test_classic_member_with_an_old_epoch_is_removed_unless_it_rejoins(mixed):
    mixed.come("new")
    assert synced(mixed) == ErrorCode.REBALANCE_IN_PROGRESS

    epoch = mixed.beat("modern", 2).member_epoch
    for _ in range(10):
        mixed.advance(6_000)
        mixed.heartbeat(classic(mixed), 2)
        mixed.beat("new", 3)
        epoch = mixed.beat("modern", epoch).member_epoch

    assert ("rejoin_timeout", classic(mixed)) in removals(mixed)
    assert mixed.heartbeat(classic(mixed), 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_classic_group_with_assignor_user_data_of_one_member_is_not_converted():
    stage = CoordinatorStage()
    (a, b), generation = stage.stable(2)
    stage.join(a)
    stage.join(b)
    own = build_assignment(Assignment([TopicPartition("t", 0)], user_data=b"of its own"))
    stage.sync(a, generation + 1, {a: own, b: assignment(("t", 1))})
    stage.sync(b, generation + 1)

    answer = stage.come("new")

    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "custom assignor" in (answer.error_message or "")
    assert stage.heartbeat(b, generation + 1) == ErrorCode.NONE


def test_join_of_a_classic_member_journals_its_client_software(mixed):
    mixed.join(instance_id="other", software="franz 1")

    raised = mixed.entries(EpochRaised)[-1]
    assert (raised.cause.event, raised.cause.software) == ("member_joined", "franz 1")


@pytest.mark.parametrize(("version", "code"), [(3, ErrorCode.NONE), (4, ErrorCode.MEMBER_ID_REQUIRED)])
def test_join_group_request_to_a_consumer_group_returns_member_id_required_since_v4(mixed, version, code):
    assert mixed.answer(mixed.join(version=version)).error_code == code


def test_classic_request_with_the_instance_id_of_another_member_is_fenced(mixed):
    assert mixed.heartbeat("another", 2, instance_id="classic") == ErrorCode.FENCED_INSTANCE_ID
    assert mixed.heartbeat("another", 2, instance_id="nobody's") == ErrorCode.UNKNOWN_MEMBER_ID
