"""Limits of the data that the coordinator keeps for journal entries: count, age, length of names."""

import pytest

from kohort.coordinator.journal import ClientIdentity
from kohort.coordinator.journal_events import MemberDisconnected, MemberMetrics
from kohort.coordinator.journal_evidence import (
    BrokerStalls,
    ClosedConnections,
    DepartedMembers,
    MetricsByMember,
    NonMemberCommitters,
    Stall,
    name_prefix,
    names_fit,
)

MEMBER = ClientIdentity("m", "app", "/h")


class TestClosedConnections:
    def test_closing_times_of_the_latest_10000_connections_are_kept(self):
        closed = ClosedConnections()
        for number in range(10_001):
            closed.add(number, number + 5)

        assert closed.closed_at_ms(0) is None
        assert closed.closed_at_ms(1) == 6
        assert closed.closed_at_ms(10_000) == 10_005

    def test_open_connections_have_no_closing_time(self):
        assert ClosedConnections().closed_at_ms(7) is None


class TestBrokerStalls:
    def test_time_of_a_broker_stall_counts_only_after_the_last_request_of_the_member(self):
        stalls = BrokerStalls()
        stalls.add(Stall(1_000, 2_000))
        stalls.add(Stall(4_000, 4_500))

        assert stalls.since(0, 9_000) == (1_500, 1_000)
        assert stalls.since(1_600, 9_000) == (900, 1_600)
        assert stalls.since(1_600, 4_100) == (500, 1_600)
        assert stalls.since(2_000, 9_000) == (500, 4_000)
        assert stalls.since(2_000, 4_000) == (0, None)

    def test_latest_100_broker_stalls_are_kept(self):
        stalls = BrokerStalls()
        for number in range(101):
            stalls.add(Stall(10 * number, 10 * number + 1))

        assert stalls.since(0, 10_000) == (100, 10)


class TestDepartedMembers:
    def test_latest_1000_departed_members_are_kept_until_their_connections_close(self):
        leavers = DepartedMembers()
        for connection in range(1_001):
            leavers.add(connection, "g", MEMBER, 5)

        assert leavers.closed(0, 9) is None
        assert leavers.closed(1, 9) == MemberDisconnected(at_ms=9, group="g", member=MEMBER, after_ms=4)
        assert leavers.closed(1, 9) is None, "the departure was journaled before"

    @pytest.mark.parametrize(("group", "is_recorded"), [("g" * 996, True), ("g" * 997, False)])
    def test_departed_member_with_names_over_1000_letters_is_not_recorded(self, group, is_recorded):
        leavers = DepartedMembers()
        leavers.add(1, group, MEMBER, 5)

        assert (leavers.closed(1, 9) is not None) == is_recorded


class TestNonMemberCommitters:
    @pytest.mark.parametrize(
        ("after_ms", "backwards", "is_journaled"),
        [(999, True, False), (1_000, True, True), (3_599_999, False, False), (3_600_000, False, True)],
    )
    def test_commit_of_a_non_member_is_journaled_again_only_after_a_pause(self, after_ms, backwards, is_journaled):
        committers = NonMemberCommitters()
        assert committers.should_journal("g", MEMBER, 50, backwards=False)

        assert committers.should_journal("g", MEMBER, 50 + after_ms, backwards=backwards) == is_journaled

    def test_non_member_that_commits_is_identified_by_group_client_id_and_host(self):
        committers = NonMemberCommitters()
        others = [("h", MEMBER), ("g", ClientIdentity("m", "other", "/h")), ("g", ClientIdentity("m", "app", "/i"))]
        assert committers.should_journal("g", MEMBER, 1, backwards=False)

        assert [committers.should_journal(group, who, 2, backwards=False) for group, who in others] == [True] * 3
        assert not committers.should_journal("g", ClientIdentity("n", "app", "/h"), 3, backwards=False)

    def test_latest_1000_non_members_that_commit_are_kept(self):
        committers = NonMemberCommitters()
        for number in range(1_000):
            committers.should_journal(f"g{number}", MEMBER, 1, backwards=False)
        assert not committers.should_journal("g0", MEMBER, 2, backwards=False)
        assert committers.should_journal("g0", MEMBER, 2_000, backwards=True), "group g0 is now the latest"

        assert committers.should_journal("g1000", MEMBER, 2_001, backwards=False)

        assert not committers.should_journal("g0", MEMBER, 2_002, backwards=False)
        assert not committers.should_journal("g2", MEMBER, 2_002, backwards=False)
        assert committers.should_journal("g1", MEMBER, 2_002, backwards=False)


class TestClientMetrics:
    def test_client_metrics_of_the_latest_10000_members_are_kept(self):
        metrics = MetricsByMember()
        people = [ClientIdentity(f"m{number}", "app", "/h") for number in range(10_001)]
        for who in people:
            metrics.add("c", who, MemberMetrics(at_ms=1))

        assert metrics.of(people[0]) is None
        assert metrics.of(people[1]) == metrics.of(people[-1]) == MemberMetrics(at_ms=1)

    @pytest.mark.parametrize(("after_ms", "is_used"), [(300_000, False), (300_001, True)])
    def test_client_metrics_without_member_id_are_ignored_for_5_minutes_after_those_of_another_client(
        self, after_ms, is_used
    ):
        metrics, unnamed = MetricsByMember(), ClientIdentity("", "app", "/h")
        metrics.add("first", unnamed, MemberMetrics(at_ms=10))
        metrics.add("second", unnamed, MemberMetrics(at_ms=10 + after_ms))

        assert (metrics.of(MEMBER) is not None) == is_used

    def test_client_metrics_replace_previous_metrics_of_the_same_client(self):
        metrics, unnamed = MetricsByMember(), ClientIdentity("", "app", "/h")
        for at_ms in (10, 20):
            metrics.add("first", unnamed, MemberMetrics(at_ms=at_ms))

        assert metrics.of(MEMBER) == MemberMetrics(at_ms=20)

    def test_latest_client_metrics_of_two_clients_with_one_member_id_are_used(self):
        metrics = MetricsByMember()
        metrics.add("first", MEMBER, MemberMetrics(at_ms=10))
        metrics.add("second", MEMBER, MemberMetrics(at_ms=20))

        assert metrics.of(MEMBER) == MemberMetrics(at_ms=20)
        assert metrics.of(ClientIdentity("other", "app", "/h")) is None

    def test_client_metrics_with_the_member_id_take_precedence_over_metrics_from_the_same_host(self):
        metrics = MetricsByMember()
        metrics.add("first", MEMBER, MemberMetrics(at_ms=10))
        metrics.add("other", ClientIdentity("", "app", "/h"), MemberMetrics(at_ms=20))

        assert metrics.of(MEMBER) == MemberMetrics(at_ms=10)
        assert metrics.of(ClientIdentity("n", "app", "/h")) == MemberMetrics(at_ms=20)


def test_client_whose_names_have_1000_letters_in_total_is_recorded():
    assert names_fit("x" * 600, None, "y" * 400)
    assert not names_fit("x" * 600, None, "y" * 401)


def test_only_the_first_300_letters_of_member_names_are_compared():
    assert name_prefix("x" * 300 + "y") == "x" * 300
