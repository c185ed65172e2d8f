"""Static members that rejoin within their session timeout keep their assignment (KIP-345, KIP-814)."""

import pytest

from kohort.coordinator.journal import MemberRemoved, RoundOpened, StaticReplaced
from kohort.errors import ApiError, ErrorCode
from support.consumer_protocol import assignment
from support.machines.coordinator_stage import RANGE, CoordinatorStage

A, B = assignment(("t", 0)), assignment(("t", 1))


@pytest.fixture
def group(stage):
    return static_pair(stage)


def static_pair(stage, **options):
    first = stage.answer(stage.join(instance_id="ia", **options))
    other = stage.join(instance_id="ib", **options)
    again = stage.join(first.member_id, instance_id="ia", **options)
    a, b = stage.answer(again).member_id, stage.answer(other).member_id
    generation = stage.answer(again).generation_id
    stage.sync(a, generation, {a: A, b: B}, instance_id="ia")
    stage.sync(b, generation, instance_id="ib")
    stage.journal.clear()
    return a, b, generation


def test_static_member_joins_with_one_request_and_its_member_id_begins_with_its_instance_id(stage):
    answer = stage.answer(stage.join(instance_id="ia"))

    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 1)
    assert answer.member_id.startswith("ia-")


class TestReturnToStableGroup:
    def test_rejoin_of_a_static_follower_moves_no_partitions(self, stage, group):
        a, b, generation = group

        answer = stage.answer(stage.join(instance_id="ib", software="franz 1"))

        assert answer.member_id not in (a, b)
        assert (answer.generation_id, answer.leader, answer.skip_assignment, answer.members) == (
            generation,
            a,
            False,
            [],
        )
        assert stage.answer(stage.sync(answer.member_id, generation, instance_id="ib")).assignment == B
        assert stage.heartbeat(a, generation, instance_id="ia") == ErrorCode.NONE
        assert stage.entries(RoundOpened) == []
        (entry,) = stage.entries(StaticReplaced)
        assert (entry.member.member_id, entry.old_member_id, entry.software) == (answer.member_id, b, "franz 1")

    def test_rejoin_of_a_static_member_persists_its_new_member_id_before_the_response(self, stage, group):
        answer = stage.answer(stage.join(instance_id="ib"))

        last = stage.records()[-1].value
        assert {m.group_instance_id: (m.member_id, m.assignment) for m in last.members} == {
            "ia": (group[0], A),
            "ib": (answer.member_id, B),
        }

    def test_rejoining_static_leader_gets_skip_assignment_since_v9(self, stage, group):
        answer = stage.answer(stage.join(instance_id="ia"))

        assert (answer.leader, answer.skip_assignment, len(answer.members)) == (answer.member_id, True, 2)

    def test_rejoining_static_leader_is_a_follower_up_to_v8(self, stage, group):
        answer = stage.answer(stage.join(instance_id="ia", version=8))

        assert (answer.leader, answer.skip_assignment, answer.members) == (group[0], False, [])

    def test_each_rejoin_of_a_static_member_returns_a_new_member_id(self, stage, group):
        ids = {stage.answer(stage.join(instance_id="ib")).member_id for _ in range(3)}

        assert len(ids) == 3

    def test_rejoin_of_a_static_member_fences_its_previous_member_id(self, stage, group):
        _, b, generation = group
        stage.join(instance_id="ib")

        assert stage.heartbeat(b, generation, instance_id="ib") == ErrorCode.FENCED_INSTANCE_ID
        assert stage.heartbeat(b, generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert stage.answer(stage.join(b, instance_id="ib")).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert stage.answer(stage.sync(b, generation, instance_id="ib")).error_code == ErrorCode.FENCED_INSTANCE_ID

    def test_failed_append_of_a_static_rejoin_keeps_the_previous_member_id(self, stage, group):
        _, b, generation = group
        stage.refuse_with = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

        answer = stage.answer(stage.join(instance_id="ib"))

        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert stage.heartbeat(b, generation, instance_id="ib") == ErrorCode.NONE

    def test_static_rejoin_that_changes_the_selected_protocol_rebalances_the_group(self, stage):
        both = (("x", b"1"), ("y", b"1"))
        a, _, generation = _pair_of_protocols(stage, both)

        parked = stage.join(instance_id="ib", protocols=(("y", b"2"),))

        assert stage.answer(parked) is None
        assert stage.heartbeat(a, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        assert stage.entries(RoundOpened)[-1].trigger.event == "static_replaced"

    def test_full_group_accepts_the_rejoin_of_a_static_member(self):
        stage = CoordinatorStage(group_max_size=2)
        static_pair(stage)

        assert stage.answer(stage.join(instance_id="ib")).error_code == ErrorCode.NONE
        assert stage.answer(stage.join(instance_id="ic")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def _pair_of_protocols(stage, protocols):
    first = stage.answer(stage.join(instance_id="ia", protocols=protocols)).member_id
    other = stage.join(instance_id="ib", protocols=protocols)
    generation = stage.answer(stage.join(first, instance_id="ia", protocols=protocols)).generation_id
    b = stage.answer(other).member_id
    stage.sync(first, generation, {}, protocol_name="x")
    stage.sync(b, generation, protocol_name="x")
    return first, b, generation


class TestReturnDuringRebalance:
    def test_static_rejoin_fences_the_waiting_join_group_request_of_the_previous_member_id(self, stage, group):
        a, b, generation = group
        old = stage.join(b, instance_id="ib", protocols=(*RANGE, ("s", b"")))

        new = stage.join(instance_id="ib")
        fenced = stage.answer(old)
        assert (fenced.error_code, fenced.member_id) == (ErrorCode.FENCED_INSTANCE_ID, b)
        stage.join(a, instance_id="ia")

        assert stage.answer(new).generation_id == generation + 1

    def test_static_rejoin_fences_the_waiting_sync_group_request_of_the_previous_member_id(self, stage, group):
        a, b, generation = group
        stage.join(a, instance_id="ia")
        stage.join(b, instance_id="ib")
        old = stage.sync(b, generation + 1, instance_id="ib")

        new = stage.join(instance_id="ib")

        assert stage.answer(old).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert stage.answer(new) is None
        assert stage.heartbeat(a, generation + 1) == ErrorCode.REBALANCE_IN_PROGRESS


class TestMissingStaticMember:
    def test_static_member_that_did_not_rejoin_stays_in_the_next_generation(self, stage):
        a, b, generation = static_pair(stage, rebalance_ms=5000, session_ms=30_000)
        rejoin = stage.join(a, instance_id="ia", rebalance_ms=5000, session_ms=30_000)

        stage.advance(5000)

        answer = stage.answer(rejoin)
        assert (answer.generation_id, {m.member_id for m in answer.members}) == (generation + 1, {a, b})

    def test_static_member_that_did_not_rejoin_expires_after_its_session_timeout(self, stage):
        a, b, generation = static_pair(stage, session_ms=10_000)
        for _ in range(3):
            stage.advance(5000)
            stage.heartbeat(a, generation)

        assert stage.heartbeat(a, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        (removed,) = stage.entries(MemberRemoved)
        assert (removed.member.member_id, removed.member.instance_id, removed.why) == (b, "ib", "session_expired")

    def test_rebalance_in_which_no_member_rejoins_waits_again_for_static_members(self, stage):
        _, _, _ = static_pair(stage, rebalance_ms=5000, session_ms=120_000)
        dynamic = stage.answer(stage.join()).member_id
        stage.leave(dynamic)

        stage.advance(20_000)

        rejoin = stage.join(instance_id="ia", rebalance_ms=5000)
        stage.advance(5000)
        assert len(stage.answer(rejoin).members) == 2


def test_static_members_keep_their_instance_ids_after_a_restart(stage, group):
    a, b, generation = group

    stage.restart()

    assert stage.heartbeat(a, generation, instance_id="ia") == ErrorCode.NONE
    assert stage.heartbeat(b, generation, instance_id="ia") == ErrorCode.FENCED_INSTANCE_ID
    answer = stage.answer(stage.join(instance_id="ib"))
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, generation)
