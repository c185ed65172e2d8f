"""Heartbeats in each state of a classic group. Expiry of the sessions of silent members."""

import pytest

from kohort.coordinator.journal import MemberRemoved, RequestFenced, RoundOpened
from kohort.errors import ErrorCode
from support.machines.coordinator_stage import RANGE


class TestAnswer:
    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({}, ErrorCode.NONE),
            ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
            ({"group": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
            ({"generation": 99}, ErrorCode.ILLEGAL_GENERATION),
        ],
    )
    def test_heartbeat_in_stable_group_succeeds(self, stage, change, code):
        (a,), generation = stage.stable(1)

        assert stage.heartbeat(**({"member_id": a, "generation": generation} | change)) == code

    def test_heartbeat_during_join_phase_returns_rebalance_in_progress(self, stage):
        (a, b), generation = stage.stable(2)
        stage.join(a)

        assert [stage.heartbeat(m, generation) for m in (a, b)] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2

    def test_heartbeat_succeeds_while_the_group_waits_for_the_leaders_assignment(self, stage):
        member_id, ticket = stage.enter()

        assert stage.heartbeat(member_id, stage.answer(ticket).generation_id) == ErrorCode.NONE

    def test_heartbeat_in_empty_group_returns_unknown_member_id(self, stage):
        (a,), generation = stage.stable(1)
        stage.leave(a)

        assert stage.heartbeat(a, generation + 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_heartbeat_with_pending_member_id_returns_unknown_member_id(self, stage):
        (_,), generation = stage.stable(1)
        pending = stage.answer(stage.join()).member_id

        assert stage.heartbeat(pending, generation) == ErrorCode.UNKNOWN_MEMBER_ID


class TestSessionExpiry:
    def test_expired_session_removes_the_member_and_rebalances_the_group(self, stage):
        (a, b), generation = stage.stable(2)
        stage.advance(9_000)
        stage.heartbeat(b, generation)

        stage.advance(999)
        assert stage.heartbeat(b, generation) == ErrorCode.NONE
        stage.advance(1)

        assert stage.heartbeat(b, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        assert stage.heartbeat(a, generation) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_heartbeat_within_the_session_timeout_renews_the_session(self, stage):
        (a,), generation = stage.stable(1)

        for _ in range(10):
            stage.advance(9_999)
            assert stage.heartbeat(a, generation) == ErrorCode.NONE

    def test_session_does_not_expire_while_join_group_request_waits_for_its_response(self, stage):
        (a, b), generation = stage.stable(2, session_ms=6000)
        c, _ = stage.enter(session_ms=60_000)
        rejoin = stage.join(a, session_ms=6000)
        for _ in range(4):
            stage.advance(5000)
            stage.heartbeat(b, generation)

        stage.join(b, session_ms=6000)

        answer = stage.answer(rejoin)
        assert {m.member_id for m in answer.members} == {a, b, c}
        stage.advance(5999)
        assert stage.heartbeat(a, generation + 1) == ErrorCode.NONE

    def test_session_does_not_expire_while_sync_group_request_waits_for_its_response(self, stage):
        (a, b), generation = stage.stable(2, session_ms=6000)
        for member in (a, b):
            stage.join(member, session_ms=6000)
        waiting = stage.sync(b, generation + 1)
        for _ in range(3):
            stage.advance(5000)
            stage.heartbeat(a, generation + 1)

        stage.sync(a, generation + 1, {})

        assert stage.answer(waiting).error_code == ErrorCode.NONE
        stage.advance(5999)
        assert stage.heartbeat(b, generation + 1) == ErrorCode.NONE

    def test_session_expiry_of_the_last_awaited_member_completes_the_rebalance(self, stage):
        (a, b), generation = stage.stable(2)
        rejoin = stage.join(a)

        stage.advance(10_000)

        assert stage.answer(rejoin).generation_id == generation + 1
        assert stage.heartbeat(b, generation) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_session_expiry_of_all_members_empties_the_group(self, stage):
        _, generation = stage.stable(3)

        stage.advance(200_000)

        last = stage.records()[-1].value
        assert (last.members, last.generation, last.protocol_type) == ([], generation + 1, "consumer")

    def test_journal_entry_of_an_expired_member_has_the_times_of_its_last_request_and_closed_connection(self, stage):
        (a,), generation = stage.stable(1)
        stage.advance(3000)
        stage.heartbeat(a, generation, connection=7)
        stage.advance(100)
        stage.coordinator.connection_closed(7, stage.now)

        stage.advance(60_000)

        (removed,) = stage.entries(MemberRemoved)
        assert (removed.why, removed.member.member_id) == ("session_expired", a)
        vitals = removed.vitals
        assert removed.at_ms - vitals.last_seen_ms == vitals.session_timeout_ms == 10_000
        assert removed.at_ms - vitals.connection_closed_at_ms == 9_900
        assert vitals.longest_gap_ms == 3000
        assert stage.entries(RoundOpened)[-1].trigger.vitals == vitals


class TestFencedMember:
    def test_fenced_requests_of_a_member_have_one_journal_entry_for_each_api(self, stage):
        (a, b), generation = stage.stable(2)
        stage.leave(a)
        for _ in range(3):
            stage.heartbeat(a, generation)
        stage.commit({("t", 0): 1}, member_id=a, generation=generation)

        fenced = stage.entries(RequestFenced)
        assert [(e.member.member_id, e.api, e.error) for e in fenced] == [
            (a, "Heartbeat", "UNKNOWN_MEMBER_ID"),
            (a, "OffsetCommit", "UNKNOWN_MEMBER_ID"),
        ]
        assert (fenced[0].generation, fenced[0].current) == (generation, generation)
        assert stage.answer(stage.join(b, protocols=RANGE)).generation_id == generation + 1
