"""Requests of a classic group member in each request version."""

from __future__ import annotations

import pytest

from kohort.client.group.member_messages import leave_shape
from kohort.client.group.membership import NO_GENERATION, Generation
from kohort.wire.messages.group_classic import LeaveGroupRequest, MemberIdentity

GOODBYE = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m", reason="done")])


@pytest.mark.parametrize("version", [3, 4, 5])
def test_leave_group_request_from_version_3_has_member_list(version: int):
    assert leave_shape(GOODBYE, version) is GOODBYE


@pytest.mark.parametrize("version", [0, 1, 2])
def test_leave_group_request_before_version_3_has_one_member_id(version: int):
    assert leave_shape(GOODBYE, version) == LeaveGroupRequest(group_id="g", member_id="m")


def test_generation_without_number_or_member_id_is_no_membership():
    assert Generation(0, "m").is_member
    assert not Generation(-1, "m").is_member, "a member id without a generation"
    assert not Generation(1, "").is_member
    assert not NO_GENERATION.is_member
