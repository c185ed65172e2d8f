"""Data that the coordinator keeps for journal entries."""

from __future__ import annotations

import pytest

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.journal import ClientIdentity
from kohort.coordinator.journal_events import MemberMetrics
from kohort.coordinator.journal_evidence import (
    JOURNAL_AGAIN_MS,
    JOURNAL_BACKWARD_AGAIN_MS,
    DepartedMembers,
    FencedCounters,
    MetricsByMember,
    NonMemberCommitters,
)
from kohort.errors import ErrorCode
from kohort.wire.messages.group_admin import DescribeGroupsRequest
from kohort_lab.sim.checks.group_invariants import InvariantBroken, check_state
from support.machines.coordinator_stage import CoordinatorStage


def test_latest_client_metrics_of_many_members_are_kept():
    metrics = MetricsByMember(limit=2)
    people = [ClientIdentity(f"m{number}", "app", "/h") for number in range(3)]

    for at_ms, who in enumerate(people):
        metrics.add(str(at_ms), who, MemberMetrics(at_ms=at_ms))

    assert [None if (words := metrics.of(who)) is None else words.at_ms for who in people] == [None, 1, 2]


def test_fenced_requests_of_deleted_groups_stay_in_the_total_of_the_broker():
    counters = FencedCounters()
    for group in ("gone", "here", "here"):
        counters.refused(group, "Heartbeat", "UNKNOWN_MEMBER_ID")

    counters.keep({"here"})

    assert counters.by_group == {"here": {("Heartbeat", "UNKNOWN_MEMBER_ID"): 2}}
    assert counters.by_kind["Heartbeat", "UNKNOWN_MEMBER_ID"] == 3


def test_invariant_check_fails_for_members_without_common_protocol(stage):
    stage.stable(2)
    groups = stage.coordinator.groups_in_partition_of("g")
    assert groups is not None
    group = groups.by_id["g"]
    assert isinstance(group, ClassicGroup)
    check_state(group)
    group.round.supporters.clear()

    with pytest.raises(InvariantBroken, match="no protocol that all members support"):
        check_state(group)
    group.round.supporters.update(range=2)


@pytest.mark.parametrize(("version", "has_message"), [(5, False), (6, True)])
def test_describe_groups_response_has_an_error_message_for_a_missing_group_since_v6(version, has_message):
    stage = CoordinatorStage()
    stage.come("m1")
    ticket = stage.ask(DescribeGroupsRequest(groups=["g", "none"]), version)

    answer = stage.answer(ticket)

    assert [bool(group.error_message) for group in answer.groups] == [has_message, has_message]
    expected = ErrorCode.GROUP_ID_NOT_FOUND if has_message else ErrorCode.NONE
    assert {group.error_code for group in answer.groups} == {expected}


def test_connections_of_the_latest_1000_departed_members_are_journaled_when_they_close():
    leavers = DepartedMembers()
    for connection in range(1_001):
        leavers.add(connection, "g", ClientIdentity(f"m{connection}", "app", "/h"), 1)

    assert leavers.closed(0, 2) is None
    assert all(leavers.closed(connection, 2) is not None for connection in range(1, 1_001))


MEMBER = ClientIdentity("", "tool", "/h")


@pytest.mark.parametrize(("backwards", "after_ms"), [(False, JOURNAL_AGAIN_MS), (True, JOURNAL_BACKWARD_AGAIN_MS)])
def test_repeated_commit_of_a_non_member_is_journaled_once_per_hour(backwards, after_ms):
    committers = NonMemberCommitters()
    assert committers.should_journal("g", MEMBER, 1_000_000, backwards=backwards)

    late = [
        committers.should_journal("g", MEMBER, 1_000_000 + ms, backwards=backwards)
        for ms in (1, after_ms - 1, after_ms)
    ]

    assert late == [False, False, True]
    assert not committers.should_journal("g", MEMBER, 1_000_000 + after_ms + 1, backwards=backwards)


def test_commit_of_a_non_member_to_another_group_is_journaled_at_once():
    committers = NonMemberCommitters()
    committers.should_journal("g", MEMBER, 0, backwards=False)
    assert committers.should_journal("h", MEMBER, 1, backwards=False)
    assert committers.should_journal("g", ClientIdentity("", "other", "/h"), 1, backwards=False)
