"""Initial rebalance delay and rebalance timeout of a classic group."""

import pytest

from kohort.coordinator.journal import MemberRemoved, RoundClosed, RoundOpened
from kohort.coordinator.records import GroupWritten
from kohort.errors import ErrorCode
from kohort.wire.messages.group_records import GroupMetadataValue
from support.consumer_protocol import assignment
from support.machines.coordinator_stage import GROUP, RANGE, CoordinatorStage


class TestInitialDelay:
    @pytest.fixture
    def stage(self):
        return CoordinatorStage(group_initial_rebalance_delay_ms=3000)

    def test_initial_rebalance_delay_waits_for_more_members(self, stage):
        _, ticket = stage.enter()

        stage.advance(2999)
        assert stage.answer(ticket) is None
        stage.advance(1)

        assert stage.answer(ticket).generation_id == 1

    def test_each_new_member_extends_the_initial_rebalance_delay(self, stage):
        _, first = stage.enter()
        stage.advance(2000)
        _, second = stage.enter()

        stage.advance(3999)
        assert stage.answer(first) is None
        stage.advance(1)

        assert len(stage.answer(first).members) == 2
        assert stage.answer(second).generation_id == 1

    def test_initial_rebalance_delay_is_limited_by_the_rebalance_timeout(self, stage):
        _, first = stage.enter(rebalance_ms=7000)
        for _ in range(6):
            stage.advance(1000)
            stage.enter(rebalance_ms=7000)

        stage.advance(999)
        assert stage.answer(first) is None
        stage.advance(1)

        assert len(stage.answer(first).members) == 7

    def test_initial_rebalance_delay_ends_when_the_last_pending_member_id_expires(self):
        stage = CoordinatorStage(group_initial_rebalance_delay_ms=20_000)
        stage.join(session_ms=6000)
        _, ticket = stage.enter()

        stage.advance(6000)

        assert stage.answer(ticket).generation_id == 1

    def test_journal_entry_of_a_rebalance_has_the_initial_rebalance_delay(self, stage):
        stage.enter()

        (opened,) = stage.entries(RoundOpened)
        assert (opened.initial, opened.timeout_ms, opened.trigger.event) == (True, 3000, "member_joined")

    def test_rebalance_of_a_nonempty_group_has_no_initial_rebalance_delay(self, stage):
        member_id, ticket = stage.enter()
        stage.advance(3000)
        leader = stage.answer(ticket).leader

        assert stage.answer(stage.join(leader, protocols=(*RANGE, ("s", b"")))).generation_id == 2
        assert leader == member_id


class TestRebalanceTimeout:
    def test_rebalance_timeout_removes_dynamic_members_that_did_not_rejoin(self, stage):
        (a, b), generation = stage.stable(2, rebalance_ms=5000, session_ms=30_000)
        rejoin = stage.join(a, rebalance_ms=5000, session_ms=30_000)

        stage.advance(4999)
        assert stage.answer(rejoin) is None
        stage.advance(1)

        answer = stage.answer(rejoin)
        assert (answer.generation_id, [m.member_id for m in answer.members]) == (generation + 1, [a])
        assert stage.heartbeat(b, generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert [(e.member.member_id, e.why) for e in stage.entries(MemberRemoved)] == [(b, "join_timeout")]

    def test_join_phase_lasts_up_to_the_longest_rebalance_timeout_of_the_members(self, stage):
        (a, b), _ = stage.stable(2, session_ms=30_000)
        c, pending = stage.enter(rebalance_ms=90_000, session_ms=30_000)
        for member in (a, b):
            stage.join(member, session_ms=30_000)
        assert stage.answer(pending) is not None
        stage.sync(a, stage.answer(pending).generation_id, {})
        stage.sync(b, stage.answer(pending).generation_id)
        stage.sync(c, stage.answer(pending).generation_id)

        stage.join(a, session_ms=30_000)

        assert stage.entries(RoundOpened)[-1].timeout_ms == 90_000

    def test_rebalance_timeout_elects_another_leader_if_the_leader_did_not_rejoin(self, stage):
        (a, b, c), generation = stage.stable(3, rebalance_ms=5000, session_ms=30_000)
        stage.leave(c)
        rejoin = stage.join(b, rebalance_ms=5000, session_ms=30_000)

        stage.advance(5000)

        answer = stage.answer(rejoin)
        assert (answer.leader, len(answer.members), answer.generation_id) == (b, 1, generation + 1)
        assert a not in [m.member_id for m in answer.members]

    def test_rebalance_timeout_empties_the_group_if_no_member_rejoined(self, stage):
        (a, _), generation = stage.stable(2, rebalance_ms=5000, session_ms=30_000)
        stage.leave(a)

        stage.advance(5000)

        empty = GroupMetadataValue(
            protocol_type="consumer",
            generation=generation + 1,
            protocol=None,
            leader=None,
            current_state_timestamp=stage.now,
        )
        assert stage.records()[-1] == GroupWritten(GROUP, empty)
        closed = stage.entries(RoundClosed)[-1]
        assert (closed.members, closed.leader, closed.took_ms) == ((), None, 5000)

    def test_negative_rebalance_timeout_ends_the_join_phase_after_1_ms(self, stage):
        stage.join(instance_id="i", rebalance_ms=-5, version=9)
        ticket = stage.join(instance_id="j", rebalance_ms=-5, version=9)
        stage.advance(400_000)

        assert stage.answer(ticket) is not None


class TestNewMember:
    def test_session_of_a_new_member_has_a_timeout_of_five_minutes_until_its_first_generation(self, stage):
        stage.stable(1, rebalance_ms=1_000_000, session_ms=1_800_000)
        new_id, ticket = stage.enter(session_ms=6000)

        stage.advance(299_999)
        assert stage.answer(ticket) is None
        stage.advance(1)

        answer = stage.answer(ticket)
        assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
        assert (new_id, "new_member_expired") in [(e.member.member_id, e.why) for e in stage.entries(MemberRemoved)]

    def test_session_of_a_new_member_has_the_requested_timeout_after_its_first_generation(self, stage):
        member_id, ticket = stage.enter(session_ms=6000)
        assert stage.answer(ticket).generation_id == 1

        stage.advance(6000)

        assert stage.heartbeat(member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_join_group_request_of_a_new_member_may_wait_longer_than_its_session_timeout(self, stage):
        (a,), generation = stage.stable(1, session_ms=60_000)
        _, ticket = stage.enter(session_ms=6000)
        stage.advance(30_000)

        stage.join(a, session_ms=60_000)

        assert stage.answer(ticket).generation_id == generation + 1


class TestRebalanceBeforeAssignment:
    def test_rebalance_before_the_assignment_refuses_waiting_sync_group_requests(self, stage):
        (a, b), generation = stage.stable(2)
        first, _ = stage.join(a), stage.join(b)
        assert stage.answer(first).generation_id == generation + 1
        waiting = stage.sync(b, generation + 1)

        stage.join(a, protocols=(*RANGE, ("s", b"")))

        assert stage.answer(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert stage.heartbeat(b, generation + 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_generation_ids_begin_with_1_and_increment(stage):
    (a, b), _ = stage.stable(2)
    generations = []
    for _ in range(3):
        ticket = stage.join(a)
        stage.join(b)
        generations.append(stage.answer(ticket).generation_id)
        stage.sync(a, generations[-1], {a: assignment(("t", 0))})
        stage.sync(b, generations[-1])

    assert generations == list(range(generations[0], generations[0] + 3))
