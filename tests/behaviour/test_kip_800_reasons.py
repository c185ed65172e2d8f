"""KIP-800: members may say why they join and why they leave."""

import pytest

from kohort.errors import ErrorCode

REASONS = [None, "", "a rebalance for maintenance", "é" * 300]


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("version", [8, 9])
def test_a_join_with_a_reason_is_a_join(broker, version, reason):
    ann = broker.member(broker.group(), join_version=version)
    ann.ask_for_id()

    ann.start_join(reason=reason)

    assert ann.joined().generation_id == 1


@pytest.mark.parametrize("reason", REASONS)
def test_a_leave_with_a_reason_is_a_leave(broker, reason):
    ann = broker.member(broker.group())
    broker.stable(ann)

    answer = ann.leave(reason=reason)

    assert [m.error_code for m in answer.members] == [0]
    assert ann.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.state(ann.group) == "Empty"
