"""JoinGroup requests to a classic group: order of checks, new members, rejoins in each group state."""

import pytest

from kohort.coordinator.journal import MemberArrived, MemberRemoved, RoundClosed, RoundOpened
from kohort.coordinator.records import GroupWritten
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import JoinGroupResponse, JoinGroupResponseMember
from kohort.wire.messages.group_records import GroupMetadataValue
from support.consumer_protocol import subscription
from support.machines.coordinator_stage import GROUP, RANGE, CoordinatorStage


def refused(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name=None, member_id=member_id)


class TestChecksWithoutGroup:
    def test_join_group_request_with_empty_group_id_is_rejected(self, stage):
        assert stage.answer(stage.join(group="")) == refused(ErrorCode.INVALID_GROUP_ID)

    @pytest.mark.parametrize("session_ms", [5999, 1_800_001, -1])
    def test_join_group_request_with_session_timeout_out_of_range_is_rejected(self, stage, session_ms):
        ticket = stage.join("mine", session_ms=session_ms)

        assert stage.answer(ticket) == refused(ErrorCode.INVALID_SESSION_TIMEOUT, "mine")

    @pytest.mark.parametrize(("version", "name"), [(0, ""), (6, ""), (7, None), (9, None)])
    def test_join_group_error_response_has_an_empty_protocol_name_up_to_v6(self, stage, version, name):
        answer = stage.answer(stage.join(group="", version=version))

        assert answer == JoinGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID, protocol_name=name)


class TestFirstMember:
    def test_first_join_group_request_returns_a_member_id_that_begins_with_the_client_id(self, stage):
        answer = stage.answer(stage.join(client_id="billing"))

        assert answer == refused(ErrorCode.MEMBER_ID_REQUIRED, answer.member_id)
        assert answer.member_id.startswith("billing-")
        assert len(answer.member_id) == len("billing-") + 36

    def test_first_join_group_request_persists_the_group_before_it_returns_a_member_id(self, stage):
        stage.join()

        empty = GroupMetadataValue(
            protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=stage.now
        )
        assert stage.records() == [GroupWritten(GROUP, empty)]

    def test_first_member_becomes_leader_and_receives_the_metadata_of_all_members(self, stage):
        member_id, ticket = stage.enter()

        assert stage.answer(ticket) == JoinGroupResponse(
            generation_id=1,
            protocol_type="consumer",
            protocol_name="range",
            leader=member_id,
            member_id=member_id,
            members=[JoinGroupResponseMember(member_id=member_id, metadata=RANGE[0][1])],
        )

    @pytest.mark.parametrize("version", [0, 1, 2, 3])
    def test_member_joins_with_one_join_group_request_up_to_v3(self, stage, version):
        answer = stage.answer(stage.join(version=version))

        assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 1)

    @pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", ())])
    def test_refused_join_group_request_without_protocols_creates_an_empty_group(self, stage, protocol_type, protocols):
        ticket = stage.join(protocol_type=protocol_type, protocols=protocols)

        assert stage.answer(ticket) == refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        (record,) = stage.records()
        assert (record.value.protocol_type, record.value.generation, record.value.members) == ("", 0, [])

    def test_join_group_request_to_unknown_group_with_a_member_id_is_rejected(self, stage):
        assert stage.answer(stage.join("made-up")) == refused(ErrorCode.UNKNOWN_MEMBER_ID, "made-up")
        assert stage.records() == []

    def test_join_group_v0_request_uses_the_session_timeout_as_rebalance_timeout(self, stage):
        answer = stage.answer(stage.join(version=0, rebalance_ms=-1, session_ms=7000))
        stage.sync(answer.member_id, 1, {answer.member_id: b""}, version=0, protocol_type=None, protocol_name=None)

        (member,) = stage.records()[-1].value.members
        assert (member.session_timeout, member.rebalance_timeout) == (7000, 7000)


class TestPendingMember:
    def test_unused_pending_member_id_expires_after_the_session_timeout(self, stage):
        member_id = stage.answer(stage.join(session_ms=8000)).member_id

        stage.advance(8000)

        assert stage.answer(stage.join(member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert [(e.member.member_id, e.why) for e in stage.entries(MemberRemoved)] == [(member_id, "pending_expired")]

    def test_pending_member_id_delays_the_generation_until_its_client_joins(self, stage):
        (first,), generation = stage.stable(1)
        pending = stage.answer(stage.join()).member_id
        rejoin = stage.join(first)
        assert stage.answer(rejoin) is None

        second = stage.join(pending)

        assert stage.answer(rejoin).generation_id == stage.answer(second).generation_id == generation + 1

    def test_pending_member_id_delays_the_generation_until_its_expiry(self, stage):
        (first,), generation = stage.stable(1)
        stage.join(session_ms=6000)
        rejoin = stage.join(first, session_ms=20_000)

        stage.advance(5999)
        assert stage.answer(rejoin) is None
        stage.advance(1)

        assert stage.answer(rejoin).generation_id == generation + 1

    def test_join_group_request_with_pending_member_id_and_instance_id_is_rejected(self, stage):
        member_id = stage.answer(stage.join()).member_id

        answer = stage.answer(stage.join(member_id, instance_id="i"))

        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


class TestProtocols:
    def test_join_group_request_with_protocol_type_other_than_that_of_the_group_is_rejected(self, stage):
        stage.stable(1)

        assert stage.answer(stage.join(protocol_type="connect")) == refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def test_join_group_request_is_rejected_if_the_members_would_have_no_common_protocol(self, stage):
        both = (("range", b"r"), ("sticky", b"s"))
        stage.stable(1, protocols=both)

        assert stage.answer(stage.join(protocols=(("roundrobin", b""),))).error_code == (
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        )
        assert stage.answer(stage.join(protocols=(("sticky", b"s"),))).error_code == ErrorCode.MEMBER_ID_REQUIRED

    def test_each_member_votes_for_its_first_protocol_that_all_members_support(self, stage):
        a, b, c = (("x", b"1"), ("y", b"1")), (("y", b"2"), ("x", b"2")), (("z", b"3"), ("y", b"3"), ("x", b"3"))
        first = stage.join(protocols=a, version=3)
        leader = stage.answer(first).member_id
        for protocols in (b, c):
            stage.join(protocols=protocols, version=3)

        answer = stage.answer(stage.join(leader, protocols=a, version=3))

        assert answer.protocol_name == "y"
        assert [m.metadata for m in answer.members] == [b"1", b"2", b"3"]

    def test_tied_protocol_vote_selects_the_protocol_of_the_first_member(self, stage):
        a, b = (("x", b"1"), ("y", b"1")), (("y", b"2"), ("x", b"2"))
        leader = stage.answer(stage.join(protocols=b, version=3)).member_id
        stage.join(protocols=a, version=3)

        assert stage.answer(stage.join(leader, protocols=b, version=3)).protocol_name == "y"

    def test_join_group_request_with_a_repeated_protocol_name_keeps_its_first_metadata(self, stage):
        _, ticket = stage.enter(protocols=(("range", b"1"), ("range", b"2")))

        assert stage.answer(ticket).members[0].metadata == b"1"


class TestRejoin:
    def test_rejoin_of_the_last_member_completes_the_rebalance(self, stage):
        (a, b), generation = stage.stable(2)
        new_id, new = stage.enter(client_id="new")
        first = stage.join(a)
        assert (stage.answer(new), stage.answer(first)) == (None, None)

        last = stage.join(b)

        answers = [stage.answer(t) for t in (new, first, last)]
        assert [x.generation_id for x in answers] == [generation + 1] * 3
        assert [len(x.members) for x in answers] == [0, 3, 0]
        assert {x.leader for x in answers} == {a}
        assert answers[0].member_id == new_id

    def test_repeated_join_group_request_refuses_the_waiting_one_with_rebalance_in_progress(self, stage):
        (a, _), _ = stage.stable(2)
        older = stage.join(a)

        newer = stage.join(a, connection=2)

        assert stage.answer(older) == refused(ErrorCode.REBALANCE_IN_PROGRESS, a)
        assert stage.answer(newer) is None

    def test_rejoin_of_the_leader_rebalances_a_stable_group(self, stage):
        (a, b), generation = stage.stable(2)

        rejoin = stage.join(a)

        assert stage.answer(rejoin) is None
        assert stage.heartbeat(b, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        assert stage.entries(RoundOpened)[-1].trigger.change.was_leader

    def test_rejoin_of_an_unchanged_follower_keeps_the_generation(self, stage):
        (a, b), generation = stage.stable(2)

        answer = stage.answer(stage.join(b))

        assert answer == JoinGroupResponse(
            generation_id=generation, protocol_type="consumer", protocol_name="range", leader=a, member_id=b
        )
        assert stage.heartbeat(a, generation) == ErrorCode.NONE

    def test_rejoin_of_a_follower_with_another_subscription_rebalances_the_group(self, stage):
        (_, b), _ = stage.stable(2)

        rejoin = stage.join(b, protocols=(("range", subscription("t", "u")),))

        assert stage.answer(rejoin) is None
        change = stage.entries(RoundOpened)[-1].trigger.change
        assert (change.topics_added, change.topics_removed, change.owned_changed) == (("u",), (), False)

    def test_rejoin_with_unchanged_metadata_before_the_assignment_keeps_the_generation(self, stage):
        member_id, first = stage.enter()

        again = stage.join(member_id)

        assert stage.answer(again) == stage.answer(first)

    def test_rejoin_with_changed_metadata_before_the_assignment_restarts_the_rebalance(self, stage):
        member_id, _ = stage.enter()

        again = stage.join(member_id, protocols=(*RANGE, ("sticky", b"")))

        assert stage.answer(again).generation_id == 2

    def test_join_group_request_with_unknown_member_id_is_rejected(self, stage):
        stage.stable(1)

        assert stage.answer(stage.join("stranger")) == refused(ErrorCode.UNKNOWN_MEMBER_ID, "stranger")

    def test_join_group_request_to_empty_group_with_a_former_member_id_is_rejected(self, stage):
        (a,), _ = stage.stable(1)
        stage.leave(a)

        assert stage.answer(stage.join(a)) == refused(ErrorCode.UNKNOWN_MEMBER_ID, a)


class TestGroupSize:
    @pytest.fixture
    def stage(self):
        return CoordinatorStage(group_max_size=2)

    def test_full_stable_group_rejects_a_new_member(self, stage):
        stage.stable(2)

        assert stage.answer(stage.join()) == refused(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def test_pending_member_ids_do_not_count_as_members(self, stage):
        (a,), _ = stage.stable(1)
        pending = [stage.answer(stage.join()).member_id for _ in range(2)]
        stage.join(pending[0])

        stage.join(a)
        assert stage.answer(stage.join(pending[1])) == refused(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def test_rejoin_to_a_group_above_its_size_limit_removes_the_member(self):
        big = CoordinatorStage(group_max_size=3)
        (a, b, c), generation = big.stable(3)
        big.config = CoordinatorStage(group_max_size=2).config
        big.restart()
        kept = [big.join(a), big.join(b)]

        late = big.join(c)

        assert big.answer(late) == refused(ErrorCode.GROUP_MAX_SIZE_REACHED)
        assert [big.answer(t).generation_id for t in kept] == [generation + 1] * 2
        assert (c, "group_full") in [(e.member.member_id, e.why) for e in big.entries(MemberRemoved)]

    def test_member_of_a_full_group_may_repeat_its_waiting_join_group_request(self, stage):
        (a, _), _ = stage.stable(2)
        stage.join(a)

        assert stage.answer(stage.join(a)) is None


class TestRebalanceJournal:
    def test_journal_entries_of_a_rebalance_have_cause_join_group_requests_and_generation(self, stage):
        (a, b), generation = stage.stable(2)
        stage.journal.clear()
        stage.join(a, reason="cached metadata has changed")
        stage.advance(700)
        stage.join(b)

        opened, first, second, closed = stage.journal
        assert isinstance(opened, RoundOpened)
        assert (opened.trigger.event, opened.trigger.member.member_id) == ("member_rejoined", a)
        assert opened.trigger.reason == "cached metadata has changed"
        assert (opened.from_generation, opened.timeout_ms, opened.initial) == (generation, 60_000, False)
        assert isinstance(first, MemberArrived)
        assert isinstance(second, MemberArrived)
        assert [(e.member.member_id, e.after_ms, e.new) for e in (first, second)] == [(a, 0, False), (b, 700, False)]
        assert isinstance(closed, RoundClosed)
        assert (closed.generation, closed.leader, closed.protocol, closed.took_ms) == (generation + 1, a, "range", 700)
