"""How long a round stays open, who is in when it closes, and who is not."""

import pytest

from kohort.coordinator.journal import MemberRemoved, RoundClosed, RoundOpened
from kohort.coordinator.records import GroupWritten
from kohort.errors import ErrorCode
from kohort.wire.messages.group_records import GroupMetadataValue
from support.consumer_protocol import assignment
from support.machines.coordinator_stage import GROUP, RANGE, CoordinatorStage


class TestTheInitialDelay:
    @pytest.fixture
    def stage(self):
        return CoordinatorStage(group_initial_rebalance_delay_ms=3000)

    def test_holds_the_first_member_for_others_to_come(self, stage):
        _, ticket = stage.enter()

        stage.advance(2999)
        assert stage.answer(ticket) is None
        stage.advance(1)

        assert stage.answer(ticket).generation_id == 1

    def test_is_extended_by_each_new_member(self, stage):
        _, first = stage.enter()
        stage.advance(2000)
        _, second = stage.enter()

        stage.advance(3999)
        assert stage.answer(first) is None
        stage.advance(1)

        assert len(stage.answer(first).members) == 2
        assert stage.answer(second).generation_id == 1

    def test_is_extended_no_longer_than_the_rebalance_timeout(self, stage):
        _, first = stage.enter(rebalance_ms=7000)
        for _ in range(6):
            stage.advance(1000)
            stage.enter(rebalance_ms=7000)

        stage.advance(999)
        assert stage.answer(first) is None
        stage.advance(1)

        assert len(stage.answer(first).members) == 7

    def test_is_cut_short_when_the_last_pending_member_is_forgotten(self):
        stage = CoordinatorStage(group_initial_rebalance_delay_ms=20_000)
        stage.join(session_ms=6000)
        _, ticket = stage.enter()

        stage.advance(6000)

        assert stage.answer(ticket).generation_id == 1

    def test_is_told_in_the_journal(self, stage):
        stage.enter()

        (opened,) = stage.entries(RoundOpened)
        assert (opened.initial, opened.timeout_ms, opened.trigger.event) == (True, 3000, "member_joined")

    def test_does_not_run_when_a_group_with_members_rebalances(self, stage):
        member_id, ticket = stage.enter()
        stage.advance(3000)
        leader = stage.answer(ticket).leader

        assert stage.answer(stage.join(leader, protocols=(*RANGE, ("s", b"")))).generation_id == 2
        assert leader == member_id


class TestTheRebalanceTimeout:
    def test_removes_dynamic_members_that_did_not_come(self, stage):
        (a, b), generation = stage.stable(2, rebalance_ms=5000, session_ms=30_000)
        rejoin = stage.join(a, rebalance_ms=5000, session_ms=30_000)

        stage.advance(4999)
        assert stage.answer(rejoin) is None
        stage.advance(1)

        answer = stage.answer(rejoin)
        assert (answer.generation_id, [m.member_id for m in answer.members]) == (generation + 1, [a])
        assert stage.heartbeat(b, generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert [(e.who.member_id, e.why) for e in stage.entries(MemberRemoved)] == [(b, "join_timeout")]

    def test_is_the_longest_that_any_member_asks_for(self, stage):
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

    def test_elects_another_leader_when_the_old_one_did_not_come(self, stage):
        (a, b, c), generation = stage.stable(3, rebalance_ms=5000, session_ms=30_000)
        stage.leave(c)
        rejoin = stage.join(b, rebalance_ms=5000, session_ms=30_000)

        stage.advance(5000)

        answer = stage.answer(rejoin)
        assert (answer.leader, len(answer.members), answer.generation_id) == (b, 1, generation + 1)
        assert a not in [m.member_id for m in answer.members]

    def test_leaves_the_group_empty_when_nobody_came(self, stage):
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

    def test_that_a_client_sets_to_nonsense_does_not_stop_time(self, stage):
        stage.join(instance_id="i", rebalance_ms=-5, version=9)
        ticket = stage.join(instance_id="j", rebalance_ms=-5, version=9)
        stage.advance(400_000)

        assert stage.answer(ticket) is not None


class TestANewMember:
    def test_has_five_minutes_until_its_first_generation_whatever_its_session_timeout(self, stage):
        stage.stable(1, rebalance_ms=1_000_000, session_ms=1_800_000)
        new_id, ticket = stage.enter(session_ms=6000)

        stage.advance(299_999)
        assert stage.answer(ticket) is None
        stage.advance(1)

        answer = stage.answer(ticket)
        assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
        assert (new_id, "new_member_expired") in [(e.who.member_id, e.why) for e in stage.entries(MemberRemoved)]

    def test_has_its_own_session_timeout_from_then_on(self, stage):
        member_id, ticket = stage.enter(session_ms=6000)
        assert stage.answer(ticket).generation_id == 1

        stage.advance(6000)

        assert stage.heartbeat(member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_may_wait_longer_than_its_session_timeout_while_it_is_parked(self, stage):
        (a,), generation = stage.stable(1, session_ms=60_000)
        _, ticket = stage.enter(session_ms=6000)
        stage.advance(30_000)

        stage.join(a, session_ms=60_000)

        assert stage.answer(ticket).generation_id == generation + 1


class TestARoundThatIsOpenedWhileTheLastIsBeingAssigned:
    def test_takes_the_parked_syncs_back_to_joining(self, stage):
        (a, b), generation = stage.stable(2)
        first, _ = stage.join(a), stage.join(b)
        assert stage.answer(first).generation_id == generation + 1
        waiting = stage.sync(b, generation + 1)

        stage.join(a, protocols=(*RANGE, ("s", b"")))

        assert stage.answer(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert stage.heartbeat(b, generation + 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_generations_count_up_from_one(stage):
    (a, b), _ = stage.stable(2)
    seen = []
    for _ in range(3):
        ticket = stage.join(a)
        stage.join(b)
        seen.append(stage.answer(ticket).generation_id)
        stage.sync(a, seen[-1], {a: assignment(("t", 0))})
        stage.sync(b, seen[-1])

    assert seen == list(range(seen[0], seen[0] + 3))
