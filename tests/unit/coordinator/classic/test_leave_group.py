"""LeaveGroup requests that name one or several members by member id or instance id."""

import pytest

from kohort.coordinator.journal import MemberRemoved, RoundOpened
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import LeaveGroupResponse, MemberIdentity, MemberResponse


def answered(*codes: tuple[str, str | None, ErrorCode]) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        members=[MemberResponse(member_id=m, group_instance_id=i, error_code=c) for m, i, c in codes]
    )


def test_leave_group_request_for_a_member_starts_a_rebalance_of_the_other_members(stage):
    (a, b), generation = stage.stable(2)

    ticket = stage.leave(a, reason="the consumer is being closed")

    assert stage.answer(ticket) == answered((a, None, ErrorCode.NONE))
    assert stage.heartbeat(b, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    (opened,) = [e for e in stage.entries(RoundOpened) if e.trigger.event == "member_left"]
    assert (opened.trigger.member.member_id, opened.trigger.reason) == (a, "the consumer is being closed")


def test_leave_group_request_for_the_last_member_persists_an_empty_group(stage):
    (a,), generation = stage.stable(1)

    stage.leave(a)

    last = stage.records()[-1].value
    assert (last.generation, last.members, last.protocol, last.leader) == (generation + 1, [], None, None)


def test_leave_of_the_last_awaited_member_completes_the_rebalance(stage):
    (a, b), generation = stage.stable(2)
    rejoin = stage.join(a)

    stage.leave(b)

    assert stage.answer(rejoin).generation_id == generation + 1


def test_leave_group_request_answers_the_waiting_join_group_request_of_its_member(stage):
    (a, _), _ = stage.stable(2)
    rejoin = stage.join(a)

    stage.leave(a, connection=2)

    assert (stage.answer(rejoin).error_code, stage.answer(rejoin).member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_leave_group_request_answers_the_waiting_sync_group_request_of_its_member(stage):
    (a, b), generation = stage.stable(2)
    stage.join(a)
    stage.join(b)
    waiting = stage.sync(b, generation + 1)

    stage.leave(b, connection=2)

    assert stage.answer(waiting).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [0, 1, 2])
def test_leave_group_response_up_to_v2_has_the_error_at_top_level(stage, version):
    (a,), _ = stage.stable(1)

    assert stage.answer(stage.leave("stranger", version=version)) == LeaveGroupResponse(
        error_code=ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert stage.answer(stage.leave(a, version=version)) == LeaveGroupResponse()


def test_leave_group_request_with_empty_group_id_is_rejected(stage):
    assert stage.answer(stage.leave("m", group="")) == LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)


def test_leave_group_request_for_unknown_group_returns_unknown_member_id(stage):
    assert stage.answer(stage.leave("m", group="nobody")) == answered(("m", None, ErrorCode.UNKNOWN_MEMBER_ID))


def test_leave_group_request_for_several_members_has_a_result_for_each_member(stage):
    static = stage.answer(stage.join(instance_id="i-1")).member_id
    stage.sync(static, 1, {static: b""}, instance_id="i-1")
    pending = stage.answer(stage.join()).member_id

    ticket = stage.leave(
        MemberIdentity(member_id="", group_instance_id="i-2"),
        MemberIdentity(member_id="other", group_instance_id="i-1"),
        MemberIdentity(member_id="stranger"),
        MemberIdentity(member_id=""),
        MemberIdentity(member_id=pending, group_instance_id="ignored"),
        MemberIdentity(member_id="", group_instance_id="i-1"),
        client_id="admin",
    )

    assert stage.answer(ticket) == answered(
        ("", "i-2", ErrorCode.UNKNOWN_MEMBER_ID),
        ("other", "i-1", ErrorCode.FENCED_INSTANCE_ID),
        ("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),
        (pending, "ignored", ErrorCode.NONE),
        ("", "i-1", ErrorCode.NONE),
    )
    removals = {e.member.member_id: (e.why, e.by and e.by.client_id) for e in stage.entries(MemberRemoved)}
    assert removals == {pending: ("pending_left", None), static: ("left", "admin")}


def test_leave_group_request_for_a_pending_member_id_rebalances_a_stable_group(stage):
    (a,), generation = stage.stable(1)
    pending = stage.answer(stage.join()).member_id

    assert stage.answer(stage.leave(pending)).members[0].error_code == ErrorCode.NONE

    assert stage.heartbeat(a, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.answer(stage.join(pending)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_group_request_for_unknown_members_starts_no_rebalance(stage):
    (a,), generation = stage.stable(1)

    stage.leave("x", "y")

    assert stage.heartbeat(a, generation) == ErrorCode.NONE
