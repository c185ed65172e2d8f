"""KIP-394: JoinGroup 4 first assigns a member id, so that a lost response leaves no member behind."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import LeaveGroupRequest, MemberIdentity


@pytest.mark.parametrize("version", [4, 5, 6, 7, 8, 9])
def test_first_join_returns_member_id_required_with_an_id(broker, version):
    ann = broker.member(broker.group(), join_version=version, client_id="clerk")

    answer = ann.wire.ask(ann.join_request(), version)

    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("clerk-")
    assert len(answer.member_id) == len("clerk-") + 36
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])
    assert answer.protocol_name == (None if version >= 7 else "")
    assert broker.describe(ann.group).members == []


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_join_before_version_4_needs_one_step(broker, version):
    ann = broker.member(broker.group(), join_version=version)

    answer = ann.rejoin()

    assert answer.generation_id == 1
    assert [m.member_id for m in answer.members] == [ann.member_id]


def test_each_first_join_gets_another_member_id(broker):
    ann = broker.member(broker.group())

    assert ann.ask_for_id() != ann.ask_for_id()


def test_join_group_rejects_unknown_member_id(broker):
    group = broker.group()
    ann = broker.member(group)
    assert ann.refused_join(member_id="made-up") == ErrorCode.UNKNOWN_MEMBER_ID
    ann.ask_for_id()
    assert ann.refused_join(member_id="made-up") == ErrorCode.UNKNOWN_MEMBER_ID


def test_unused_member_id_expires_with_the_session_timeout(broker):
    session_ms = broker.config("group.min.session.timeout.ms")
    ann = broker.member(broker.group(), session_timeout_ms=session_ms)
    ben = broker.member(ann.group)
    broker.stable(ben)
    ann.ask_for_id()
    ben.start_join()  # waits for ann, who may come any time

    assert ben.joined().generation_id == 2
    assert ann.refused_join() == ErrorCode.UNKNOWN_MEMBER_ID


def test_rebalance_waits_for_pending_member_ids(broker):
    ann, ben = (broker.member(broker.group()) for _ in range(2))
    broker.stable(ann)
    ben.ask_for_id()
    ann.start_join()
    broker.await_state(ann.group, "PreparingRebalance")

    ben.start_join()

    assert (ann.joined().generation_id, ben.joined().generation_id) == (2, 2)


def test_pending_member_can_leave(broker):
    ann, ben = (broker.member(broker.group()) for _ in range(2))
    broker.stable(ann)
    ben.ask_for_id()
    ann.start_join()
    broker.await_state(ann.group, "PreparingRebalance")

    entry = MemberIdentity(member_id=ben.member_id)
    answer = broker.ask(LeaveGroupRequest(group_id=ann.group, members=[entry]), 5)

    assert [m.error_code for m in answer.members] == [0]
    assert ann.joined().generation_id == 2
    assert ben.refused_join() == ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_member_is_not_described(broker):
    ann = broker.member(broker.group())
    ann.ask_for_id()

    assert ann.heartbeat(generation_id=0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert ann.sync(generation_id=0).error_code == ErrorCode.UNKNOWN_MEMBER_ID
