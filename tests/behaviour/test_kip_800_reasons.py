"""KIP-800: JoinGroup and LeaveGroup carry a reason."""

import pytest

from kohort.errors import ErrorCode

REASONS = [None, "", "a rebalance for maintenance", "é" * 300]


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("version", [8, 9])
def test_join_group_accepts_a_reason(broker, version, reason):
    ann = broker.member(broker.group(), join_version=version)
    ann.ask_for_id()

    ann.start_join(reason=reason)

    assert ann.joined().generation_id == 1


@pytest.mark.parametrize("reason", REASONS)
def test_leave_group_accepts_a_reason(broker, reason):
    ann = broker.member(broker.group())
    broker.stable(ann)

    answer = ann.leave(reason=reason)

    assert [m.error_code for m in answer.members] == [0]
    assert ann.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.state(ann.group) == "Empty"
