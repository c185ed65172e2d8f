"""LeaveGroup requests to a group with classic and consumer-protocol members: responses, journal entries."""

from typing import Any

import pytest

from kohort.coordinator.journal import EpochRaised
from kohort.coordinator.journal_events import MemberDisconnected
from kohort.coordinator.records import EpochWritten, MemberWritten
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import MemberIdentity
from support.machines.coordinator_stage import CoordinatorStage

ADMIN = {"client_id": "admin", "client_host": "/10.0.0.9", "connection": 9}


@pytest.fixture
def stage() -> CoordinatorStage:
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1", client_id="one")
    stage.come("m2", client_id="two", instance_id="i")
    stage.join("m3", client_id="three", version=3)
    assert len(members(stage)) == 3
    return stage


def members(stage: CoordinatorStage) -> dict[str, object]:
    found: dict[str, Any] = stage.coordinator.groups_in_partition_of("g").consumer["g"].members
    return found


def last_cause(stage: CoordinatorStage):
    entry = stage.entries(EpochRaised)[-1]
    assert entry.cause.event == "member_left"
    return entry.cause


@pytest.mark.parametrize("version", [0, 1, 2])
def test_leave_group_response_of_a_consumer_group_has_one_result_before_v3(stage, version):
    refused = stage.answer(stage.leave("stranger", version=version))
    response = stage.answer(stage.leave("m3", version=version))

    assert (refused.error_code, refused.members) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
    assert (response.error_code, response.members) == (ErrorCode.NONE, [])
    assert members(stage).keys() == {"m1", "m2"}


def test_leave_group_response_of_a_consumer_group_has_a_result_for_each_member_since_v3(stage):
    fenced = MemberIdentity(member_id="m1", group_instance_id="i")
    unknown = MemberIdentity(member_id="", group_instance_id="j")

    answer = stage.answer(stage.leave("stranger", "m3", fenced, unknown, version=3))

    assert answer.error_code == ErrorCode.NONE
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
        ("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m3", None, ErrorCode.NONE),
        ("m1", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("", "j", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert members(stage).keys() == {"m1", "m2"}


def test_leave_group_request_without_known_member_persists_nothing(stage):
    written = stage.appended

    stage.leave("stranger", "nobody")

    assert (stage.appended, len(members(stage))) == (written, 3)


def test_member_named_twice_in_a_leave_group_request_is_removed_once(stage):
    record_count = len(stage.records())

    answer = stage.answer(stage.leave("m3", "m3"))

    assert [one.error_code for one in answer.members] == [ErrorCode.NONE, ErrorCode.NONE]
    departed = [r.member_id for r in stage.records()[record_count:] if isinstance(r, MemberWritten)]
    assert departed == ["m3"]


def test_leave_group_request_for_several_members_raises_the_group_epoch_once(stage):
    record_count = len(stage.records())
    stage.leave(
        MemberIdentity(member_id="m1"),
        MemberIdentity(member_id="m3", reason="closing"),
        MemberIdentity(member_id="m2", reason="later"),
        client_id="one",
    )

    cause = last_cause(stage)
    assert (cause.member.member_id, [who.member_id for who in cause.others]) == ("m1", ["m3", "m2"])
    assert (cause.reason, cause.by) == ("closing", None)
    assert sum(isinstance(r, EpochWritten) for r in stage.records()[record_count:]) == 1


def test_leave_group_request_of_the_leaving_member_is_journaled_with_the_end_of_its_connection(stage):
    stage.commit({("t", 0): 1}, member_id="m3", generation=0, client_id="three")
    stage.advance(2_000)

    stage.leave("m3", client_id="three", connection=3, reason="done")
    stage.advance(500)
    stage.coordinator.connection_closed(3, stage.now)
    stage.check()

    cause = last_cause(stage)
    assert (cause.member.member_id, cause.member.client_id, cause.others, cause.by) == ("m3", "three", (), None)
    assert cause.reason == "done"
    assert (cause.vitals.session_timeout_ms, cause.vitals.last_seen_ms) == (10_000, stage.now - 2_500)
    (closed,) = stage.entries(MemberDisconnected)
    assert closed.member.member_id == "m3"


LEAVES_BY_OTHERS = {
    "member id sent by another client": MemberIdentity(member_id="m2", group_instance_id="i"),
    "instance id without member id": MemberIdentity(member_id="", group_instance_id="i"),
}


@pytest.mark.parametrize("named", LEAVES_BY_OTHERS.values(), ids=LEAVES_BY_OTHERS.keys())
def test_removal_of_a_member_by_an_administrator_journals_the_administrator(stage, named):
    stage.leave(named, **ADMIN)
    stage.coordinator.connection_closed(9, stage.now)
    stage.check()

    cause = last_cause(stage)
    assert (cause.member.member_id, cause.member.instance_id, cause.reason) == ("m2", "i", None)
    assert (cause.by.client_id, cause.by.client_host) == ("admin", "/10.0.0.9")
    assert stage.entries(MemberDisconnected) == []
    assert members(stage).keys() == {"m1", "m3"}


def test_removal_by_instance_id_is_journaled_as_request_of_another_client(stage):
    stage.leave(MemberIdentity(member_id="", group_instance_id="i"), client_id="two", connection=9)

    assert last_cause(stage).by.client_id == "two"
