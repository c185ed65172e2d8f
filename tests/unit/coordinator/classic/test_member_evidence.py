"""Journal entries about members of a classic group: removed members, fenced requests and refused requests."""

import pytest

from kohort.coordinator.journal import ClientIdentity, MemberArrived, MemberRemoved, RequestFenced, RoundOpened
from kohort.coordinator.journal_events import JoinRejected
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import MemberIdentity
from support.machines.coordinator_stage import GROUP, CoordinatorStage


def last_vitals(stage):
    return stage.entries(MemberRemoved)[-1].vitals


class TestLongestGap:
    def test_journaled_gap_between_requests_is_zero_if_the_member_leaves_right_after_its_join(self):
        stage = CoordinatorStage(group_initial_rebalance_delay_ms=3_000)
        member_id, _ = stage.enter()

        stage.leave(member_id)

        assert last_vitals(stage).longest_gap_ms == 0

    def test_journaled_gap_between_requests_is_zero_if_the_member_leaves_when_its_generation_begins(self, stage):
        member_id, _ = stage.enter()

        stage.leave(member_id)

        assert last_vitals(stage).longest_gap_ms == 0

    def test_journaled_gap_between_requests_restarts_with_each_generation(self, stage):
        (a,), generation = stage.stable(1)
        stage.advance(7_000)
        stage.heartbeat(a, generation)
        stage.advance(2_000)
        stage.join(a)
        stage.advance(1_000)
        stage.heartbeat(a, generation + 1)

        stage.leave(a)

        assert last_vitals(stage).longest_gap_ms == 1_000

    def test_offset_commit_ends_a_journaled_gap_between_requests(self, stage):
        (a,), generation = stage.stable(1)
        stage.advance(4_000)
        stage.commit({("t", 0): 1}, member_id=a, generation=generation, connection=8)
        committed_ms = stage.now
        stage.advance(2_000)
        stage.coordinator.connection_closed(8, stage.now)

        stage.leave(a, client_id="admin")

        vitals = last_vitals(stage)
        assert (vitals.last_seen_ms, vitals.last_commit_ms, vitals.commits) == (committed_ms, committed_ms, 1)
        assert vitals.longest_gap_ms == 4_000
        assert vitals.connection_closed_at_ms == stage.now

    def test_rejoin_of_a_static_member_ends_a_journaled_gap_between_requests(self, stage):
        first = stage.answer(stage.join(instance_id="i"))
        stage.sync(first.member_id, 1, {}, instance_id="i")
        stage.advance(5_000)

        answer = stage.answer(stage.join(instance_id="i", connection=9, client_id="new", client_host="/10.0.0.9"))
        stage.coordinator.connection_closed(9, stage.now)
        back_ms = stage.now
        stage.advance(3_000)
        stage.leave(MemberIdentity(member_id="", group_instance_id="i"), client_id="admin")

        removed = stage.entries(MemberRemoved)[-1]
        assert removed.member == ClientIdentity(answer.member_id, "new", "/10.0.0.9", "i")
        assert (removed.vitals.last_seen_ms, removed.vitals.longest_gap_ms) == (back_ms, 5_000)
        assert removed.vitals.connection_closed_at_ms == back_ms

    def test_journal_entry_of_a_join_has_session_data_only_if_the_join_is_500_ms_late(self, stage):
        (a, b, c), _ = stage.stable(3)
        stage.journal.clear()
        stage.advance(100)
        stage.join(a)
        stage.advance(499)
        stage.join(b)
        stage.advance(1)
        stage.join(c)

        vitals_of = {entry.member.member_id: entry.vitals for entry in stage.entries(MemberArrived)}
        assert (vitals_of[a], vitals_of[b]) == (None, None)
        assert vitals_of[c].last_seen_ms == stage.now - 600

    def test_member_loaded_from_the_log_has_no_connection_closing_time_in_the_journal(self, stage):
        (a,), _ = stage.stable(1)
        stage.restart()
        stage.coordinator.connection_closed(0, stage.now)
        stage.coordinator.connection_closed(1, stage.now)

        stage.leave(a, client_id="admin")

        assert last_vitals(stage).connection_closed_at_ms is None


class TestLeave:
    def test_journal_entry_of_a_removal_names_the_requesting_client_unless_it_is_the_removed_member(self, stage):
        (a, b, c), generation = stage.stable(3)
        assert stage.answer(stage.join(instance_id="i")) is None, "the JoinGroup waits for the other members"

        stage.leave(a)
        stage.leave(b, client_id="admin")
        stage.leave(MemberIdentity(member_id="", group_instance_id="i"))

        by = [entry.by and entry.by.client_id for entry in stage.entries(MemberRemoved)]
        assert by == [None, "admin", "app"]
        assert stage.heartbeat(c, generation) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_journal_entry_of_a_leave_group_request_names_all_members_that_leave(self, stage):
        (a, b, c, _), _ = stage.stable(4)

        stage.leave(a, b, c)

        trigger = stage.entries(RoundOpened)[-1].trigger
        assert (trigger.event, trigger.leader_lost) == ("member_left", False)
        assert (trigger.member.member_id, [who.member_id for who in trigger.others]) == (a, [b, c])

    @pytest.mark.parametrize("version", [3, 4, 5])
    def test_leave_group_request_accepts_several_members_since_v3(self, stage, version):
        (a, b), _ = stage.stable(2)

        answer = stage.answer(stage.leave(a, b, version=version))

        assert [(member.member_id, member.error_code) for member in answer.members] == [(a, 0), (b, 0)]

    def test_rebalance_caused_by_leave_of_the_last_member_ends_at_once(self, stage):
        (a,), _ = stage.stable(1)

        stage.leave(a)

        opened = stage.entries(RoundOpened)[-1]
        assert (opened.members, opened.timeout_ms) == ((), 0)


class TestSyncTimeout:
    def test_journal_entry_of_a_sync_timeout_has_session_data_of_the_first_removed_member(self, stage):
        a = stage.answer(stage.join(version=3, rebalance_ms=20_000, session_ms=30_000)).member_id
        second = stage.join(version=3, rebalance_ms=20_000, session_ms=40_000, client_id="other")
        stage.join(a, version=3, rebalance_ms=20_000, session_ms=30_000)
        b = stage.answer(second).member_id
        stage.advance(20_000)

        trigger = stage.entries(RoundOpened)[-1].trigger
        assert (trigger.event, trigger.leader_lost) == ("sync_timeout", True)
        assert (trigger.member.member_id, [who.member_id for who in trigger.others]) == (a, [b])
        assert trigger.vitals.session_timeout_ms == 30_000

    def test_journal_entry_of_a_sync_timeout_reports_a_lost_leader_only_if_the_leader_was_removed(self, stage):
        (a, b), generation = stage.stable(2)
        stage.join(a, rebalance_ms=5_000, session_ms=30_000)
        stage.join(b, rebalance_ms=5_000, session_ms=30_000)
        stage.sync(a, generation + 1, {})
        stage.advance(5_000)

        trigger = stage.entries(RoundOpened)[-1].trigger
        assert (trigger.event, trigger.member.member_id, trigger.others) == ("sync_timeout", b, ())
        assert not trigger.leader_lost


class TestStaleMembers:
    def test_refused_requests_are_counted_per_group_and_api_and_error(self, stage):
        stage.stable(1)

        for _ in range(3):
            stage.heartbeat("zombie", 1)

        kind = ("Heartbeat", "UNKNOWN_MEMBER_ID")
        assert stage.coordinator.fenced.by_kind == {kind: 3}
        assert stage.coordinator.fenced.by_group == {GROUP: {kind: 3}}

    def test_refused_request_is_journaled_once_with_the_generations_of_request_and_group(self, stage):
        (a,), generation = stage.stable(1)

        for _ in range(2):
            stage.heartbeat(a, generation + 4, client_id="late", client_host="/10.0.0.1")

        (entry,) = stage.entries(RequestFenced)
        assert (entry.member, entry.api, entry.error) == (
            ClientIdentity(a, "late", "/10.0.0.1"),
            "Heartbeat",
            "ILLEGAL_GENERATION",
        )
        assert (entry.generation, entry.current) == (generation + 4, generation)
        assert (entry.offsets, entry.more) == ((), 0)

    def test_refused_request_without_generation_is_journaled_without_generation(self, stage):
        stage.stable(1)

        stage.join("stranger")

        (entry,) = stage.entries(RequestFenced)
        assert (entry.api, entry.member.member_id, entry.generation) == ("JoinGroup", "stranger", -1)

    def test_refused_request_without_member_id_is_not_counted_as_fenced(self, stage):
        stage.stable(1)

        assert stage.commit({("t", 0): 1}) == [ErrorCode.UNKNOWN_MEMBER_ID]

        assert stage.entries(RequestFenced) == []
        assert not stage.coordinator.fenced.by_kind

    def test_rebalance_in_progress_response_is_not_counted_as_fenced(self, stage):
        (a, b), generation = stage.stable(2)
        stage.join(a)

        answer = stage.answer(stage.sync(b, generation))

        assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert stage.entries(RequestFenced) == []
        assert not stage.coordinator.fenced.by_kind

    def test_journal_has_at_most_100_refused_requests_per_generation(self, stage):
        stage.stable(1)

        for number in range(102):
            stage.heartbeat(f"zombie-{number}", 1)

        member_ids = [entry.member.member_id for entry in stage.entries(RequestFenced)]
        assert member_ids == [f"zombie-{number}" for number in range(100)]


class TestRefusedJoins:
    @pytest.fixture
    def stage(self):
        stage = CoordinatorStage(group_max_size=2)
        stage.stable(2)
        return stage

    def test_refused_join_group_request_is_journaled_once_with_client_and_group_size(self, stage):
        for _ in range(3):
            ticket = stage.join(instance_id="i", client_id="late", client_host="/10.0.0.1")
            assert stage.answer(ticket).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED

        (entry,) = stage.entries(JoinRejected)
        assert (entry.member, entry.members) == (ClientIdentity("", "late", "/10.0.0.1", "i"), 2)

    def test_refused_join_group_requests_and_other_refused_requests_share_the_journal_limit_of_100(self, stage):
        for number in range(102):
            stage.join(client_id=f"late-{number}")

        client_ids = [entry.member.client_id for entry in stage.entries(JoinRejected)]
        assert client_ids == [f"late-{number}" for number in range(100)]
