"""JoinGroup requests: size limits, differences between versions, initial rebalance delay."""

import pytest

from kohort.coordinator.classic.join import rebalance_timeout_of
from kohort.coordinator.outcome import GroupRequest
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import JoinGroupRequest
from support.machines.coordinator_stage import CoordinatorStage


def test_join_group_request_with_more_than_10000_protocols_is_rejected(stage):
    def offered(count: int) -> int:
        code: int = stage.answer(stage.join(protocols=[(f"p{number}", b"") for number in range(count)])).error_code
        return code

    assert offered(10_000) == ErrorCode.MEMBER_ID_REQUIRED
    assert offered(10_001) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_dynamic_member_needs_two_join_group_requests_since_v4(stage):
    assert stage.answer(stage.join(version=3, group="three")).error_code == ErrorCode.NONE
    assert stage.answer(stage.join(version=4, group="four")).error_code == ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize(("version", "timeout_ms"), [(0, 7_000), (1, 90_000), (2, 90_000)])
def test_join_group_request_has_a_separate_rebalance_timeout_since_v1(version, timeout_ms):
    message = JoinGroupRequest(group_id="g", session_timeout_ms=7_000, rebalance_timeout_ms=90_000)
    request = GroupRequest(message, version, "app", "/127.0.0.1", reply_to=1)

    assert rebalance_timeout_of(request, message) == timeout_ms


class TestInitialDelay:
    @pytest.fixture
    def stage(self):
        return CoordinatorStage(group_initial_rebalance_delay_ms=3_000)

    def test_initial_rebalance_delay_ends_when_the_last_pending_member_id_leaves(self, stage):
        _, waiting = stage.enter()
        pending = stage.answer(stage.join()).member_id

        stage.leave(pending)

        assert stage.answer(waiting).generation_id == 1

    def test_initial_rebalance_delay_continues_after_a_member_leaves(self, stage):
        _, waiting = stage.enter()
        member_id, _ = stage.enter()

        stage.leave(member_id)
        assert stage.answer(waiting) is None
        stage.advance(3_000)
        assert stage.answer(waiting) is None, "another member joined during the initial rebalance delay"
        stage.advance(3_000)

        assert stage.answer(waiting).generation_id == 1

    def test_initial_rebalance_delay_continues_after_a_member_and_a_pending_member_id_leave(self, stage):
        _, waiting = stage.enter()
        member_id, _ = stage.enter()
        pending = stage.answer(stage.join()).member_id

        stage.leave(member_id, pending)

        assert stage.answer(waiting) is None
