"""Timing of a classic group's rebalance: delays, responses, journal entries, group record."""

import pytest

from kohort.coordinator.journal import (
    AssignmentWritten,
    ClientIdentity,
    MemberArrived,
    MemberRemoved,
    Move,
    RequestFenced,
    RoundOpened,
    RoundSettled,
)
from kohort.errors import ErrorCode
from support.consumer_protocol import assignment, subscription
from support.machines.coordinator_stage import CoordinatorStage


class TestInitialDelay:
    def enter_every_two_seconds(self, stage: CoordinatorStage, **fields: object) -> int:
        began_ms = stage.now
        _, waiting = stage.enter(**fields)
        for _ in range(20):
            for _ in range(2_000):
                if stage.answer(waiting) is not None:
                    return stage.now - began_ms
                stage.advance(1)
            stage.enter(**fields)
        raise AssertionError("the rebalance does not end")

    @pytest.mark.parametrize(
        ("rebalance_ms", "took_ms"),
        [(1_000, 3_000), (3_000, 3_000), (3_001, 3_001), (4_500, 4_500), (8_000, 8_000), (9_000, 9_000)],
    )
    def test_new_members_extend_the_initial_rebalance_delay_up_to_the_rebalance_timeout(self, rebalance_ms, took_ms):
        stage = CoordinatorStage(group_initial_rebalance_delay_ms=3_000)

        assert self.enter_every_two_seconds(stage, rebalance_ms=rebalance_ms) == took_ms

    def test_members_of_an_earlier_rebalance_do_not_extend_the_initial_rebalance_delay(self):
        stage = CoordinatorStage(group_initial_rebalance_delay_ms=3_000)
        first, _ = stage.enter()
        second, _ = stage.enter()
        pending = stage.answer(stage.join()).member_id
        stage.leave(pending)  # leave of the only pending member id ends the initial rebalance delay
        stage.leave(first, second)
        _, waiting = stage.enter()

        stage.advance(2_999)
        assert stage.answer(waiting) is None
        stage.advance(1)

        assert stage.answer(waiting).error_code == ErrorCode.NONE

    def test_initial_rebalance_delay_ends_when_the_only_pending_member_id_expires(self):
        stage = CoordinatorStage(group_initial_rebalance_delay_ms=10_000)
        _, waiting = stage.enter()
        stage.join(session_ms=6_000)

        stage.advance(5_999)
        assert stage.answer(waiting) is None
        stage.advance(1)

        assert stage.answer(waiting).generation_id == 1


class TestAssignment:
    def test_rebalance_end_is_journaled_with_the_time_of_the_last_sync_group_request(self, stage):
        (a, b), generation = stage.stable(2)
        stage.advance(1_000)
        stage.join(a)
        stage.join(b)
        joined_ms = stage.now
        stage.journal.clear()

        stage.advance(300)
        stage.sync(a, generation + 1, {a: assignment(("t", 1)), b: assignment(("t", 0), ("t", 2))})
        stage.advance(200)
        stage.sync(b, generation + 1)

        (written,) = stage.entries(AssignmentWritten)
        assert (written.generation, written.took_ms) == (generation + 1, 300)
        assert written.moves == (Move("t", 0, a, b), Move("t", 1, b, a), Move("t", 2, None, b))
        (settled,) = stage.entries(RoundSettled)
        assert (settled.generation, settled.took_ms, settled.last.member_id) == (generation + 1, 200, b)
        assert stage.records()[-1].value.current_state_timestamp == joined_ms

    def test_rebalance_end_is_journaled_with_the_sync_group_request_of_the_leader_if_it_is_the_last_one(self, stage):
        (a, b), generation = stage.stable(2)
        stage.join(a)
        stage.join(b)
        stage.sync(b, generation + 1)
        stage.journal.clear()
        stage.advance(250)

        stage.sync(a, generation + 1, {a: b"", b: b""})

        (settled,) = stage.entries(RoundSettled)
        assert (settled.took_ms, settled.last.member_id) == (0, a)

    def test_rebalance_end_is_not_journaled_again_for_repeated_sync_group_requests(self, stage):
        (a, b), generation = stage.stable(2)
        stage.journal.clear()

        for member_id in (a, b, a):
            stage.sync(member_id, generation)

        assert stage.entries(RoundSettled) == []

    def test_rebalance_end_is_journaled_with_the_sync_group_request_of_a_rejoined_static_member(self, stage):
        first = stage.answer(stage.join(instance_id="ia")).member_id
        stage.join(instance_id="ib")
        stage.join(first, instance_id="ia")
        stage.sync(first, 2, {}, instance_id="ia")
        stage.journal.clear()
        back = stage.answer(stage.join(instance_id="ib")).member_id
        assert stage.entries(RoundSettled) == []

        stage.sync(back, 2, instance_id="ib")

        (settled,) = stage.entries(RoundSettled)
        assert (settled.last.member_id, settled.last.instance_id) == (back, "ib")

    def test_restarted_rebalance_renews_sessions_of_members_whose_sync_group_request_waits(self, stage):
        (a, b), generation = stage.stable(2)
        stage.join(a)
        stage.join(b)
        waiting = stage.sync(b, generation + 1)
        for _ in range(4):
            stage.advance(5_000)
            assert stage.heartbeat(a, generation + 1) == ErrorCode.NONE

        stage.join(a, protocols=(("range", subscription("u")),))
        assert stage.answer(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        stage.journal.clear()
        stage.advance(9_999)
        assert stage.entries(MemberRemoved) == []
        stage.advance(1)

        (removed,) = stage.entries(MemberRemoved)
        assert (removed.member.member_id, removed.why) == (b, "session_expired")


class TestReturningStaticMember:
    def test_rejoined_static_member_has_a_new_session(self, stage):
        first = stage.answer(stage.join(instance_id="i")).member_id
        stage.sync(first, 1, {}, instance_id="i")
        stage.advance(9_000)

        again = stage.answer(stage.join(instance_id="i")).member_id
        stage.advance(9_999)

        assert stage.heartbeat(again, 1, instance_id="i") == ErrorCode.NONE

    def test_rejoined_static_member_is_persisted_with_its_new_metadata(self, stage):
        first = stage.answer(stage.join(instance_id="i")).member_id
        stage.sync(first, 1, {}, instance_id="i")
        says = (("range", subscription("u")),)

        stage.join(
            instance_id="i",
            protocols=says,
            session_ms=20_000,
            rebalance_ms=30_000,
            client_id="new",
            client_host="/10.0.0.9",
        )

        (member,) = stage.records()[-1].value.members
        assert (member.client_id, member.client_host) == ("new", "/10.0.0.9")
        assert (member.session_timeout, member.rebalance_timeout) == (20_000, 30_000)
        assert member.subscription == says[0][1]

    def test_rejoined_static_member_takes_part_in_the_running_rebalance(self, stage):
        first = stage.answer(stage.join(instance_id="ia")).member_id
        stage.join(instance_id="ib")
        stage.join(first, instance_id="ia")
        stage.sync(first, 2, {}, instance_id="ia")
        stage.join(first, instance_id="ia")
        stage.journal.clear()
        stage.advance(40)

        back = stage.answer(stage.join(instance_id="ib")).member_id

        (arrived,) = stage.entries(MemberArrived)
        assert (arrived.member.member_id, arrived.member.instance_id, arrived.after_ms) == (back, "ib", 40)

    def test_leader_that_rejoins_too_late_loses_its_leadership(self, stage):
        timeouts = {"rebalance_ms": 5_000, "session_ms": 60_000}
        first = stage.answer(stage.join(instance_id="ia", **timeouts)).member_id
        other = stage.join(instance_id="ib", **timeouts)
        assert stage.answer(stage.join(first, instance_id="ia", **timeouts)).leader == first
        second = stage.answer(other).member_id
        stage.sync(first, 2, {}, instance_id="ia")
        stage.sync(second, 2, instance_id="ib")
        changed = stage.join(second, instance_id="ib", protocols=(("range", subscription("u")),), **timeouts)
        assert stage.answer(changed) is None

        stage.advance(5_000)

        answer = stage.answer(changed)
        assert (answer.generation_id, answer.leader) == (3, second)
        assert [member.member_id for member in answer.members] == [first, second]


class TestSessionFacts:
    @pytest.mark.parametrize("how", ["heartbeat", "sync", "join", "commit"])
    def test_each_request_of_a_member_updates_its_last_request_time_and_connection(self, stage, how):
        (_, b), generation = stage.stable(2)
        stage.advance(5_000)
        if how == "heartbeat":
            stage.heartbeat(b, generation, connection=8)
        elif how == "sync":
            stage.sync(b, generation, connection=8)
        elif how == "join":
            stage.join(b, connection=8)
        else:
            stage.commit({("t", 1): 1}, member_id=b, generation=generation, connection=8)
        last_request_ms = stage.now
        stage.advance(2_000)
        stage.coordinator.connection_closed(8, stage.now)

        stage.leave(b, client_id="admin")

        vitals = stage.entries(MemberRemoved)[-1].vitals
        assert (vitals.last_seen_ms, vitals.longest_gap_ms) == (last_request_ms, 5_000)
        assert vitals.connection_closed_at_ms == stage.now


class TestRejoinChanges:
    def change(self, stage):
        return stage.entries(RoundOpened)[-1].trigger.change

    def test_member_with_unreadable_subscription_has_no_topics_in_the_journal(self, stage):
        (a,), _ = stage.stable(1)
        stage.join(a, protocols=(("range", b"\xff"),))
        unreadable = self.change(stage)
        assert (unreadable.topics_added, unreadable.topics_removed) == ((), ())
        assert (unreadable.owned_changed, unreadable.racks) == (False, None)

        stage.join(a)

        readable = self.change(stage)
        assert (readable.topics_added, readable.topics_removed) == ((), ())
        assert (readable.owned_changed, readable.racks) == (False, None)

    @pytest.mark.parametrize(("rack", "racks"), [("a", None), ("b", ("a", "b")), (None, ("a", None))])
    def test_journal_entry_of_a_rejoin_reports_a_changed_rack(self, stage, rack, racks):
        (a,), _ = stage.stable(1, protocols=(("range", subscription("t", rack="a")),))

        stage.join(a, protocols=(("range", subscription("t", rack=rack)),))

        assert self.change(stage).racks == racks

    def test_journal_entry_of_a_rejoin_compares_owned_partitions_regardless_of_order(self, stage):
        owned = [("t", 0), ("t", 1)]
        (a,), _ = stage.stable(1, protocols=(("range", subscription("t", owned=owned)),))

        stage.join(a, protocols=(("range", subscription("t", owned=owned[::-1])),))
        assert not self.change(stage).owned_changed
        stage.join(a, protocols=(("range", subscription("t", owned=owned[:1])),))
        assert self.change(stage).owned_changed

    @pytest.mark.parametrize("restarted", [False, True])
    def test_journal_entry_of_a_rejoin_reports_created_and_deleted_topics(self, stage, restarted):
        (a,), _ = stage.stable(1, protocols=(("range", subscription("t", "u", "later")),))
        if restarted:
            stage.restart()
        stage.topics.make("later", 3)
        stage.topics.delete("u")

        stage.join(a, protocols=(("range", subscription("t", "u", "later")),))

        assert self.change(stage).partitions_changed == {"later": (0, 3), "u": (2, 0)}


def test_request_of_a_stale_member_is_journaled_again_in_the_next_generation(stage):
    (a,), generation = stage.stable(1)
    for _ in range(2):
        stage.heartbeat("zombie", generation)

    stage.join(a)
    stage.heartbeat("zombie", generation)

    fenced = [(entry.member.member_id, entry.current) for entry in stage.entries(RequestFenced)]
    assert fenced == [("zombie", generation), ("zombie", generation + 1)]


def test_request_of_a_fenced_static_member_is_journaled_with_its_instance_id(stage):
    first = stage.answer(stage.join(instance_id="i")).member_id
    stage.sync(first, 1, {}, instance_id="i")
    stage.join(instance_id="i")

    stage.heartbeat(first, 1, instance_id="i")

    (entry,) = stage.entries(RequestFenced)
    assert (entry.member.instance_id, entry.error) == ("i", "FENCED_INSTANCE_ID")


def test_leave_group_request_with_pending_member_id_is_journaled_with_client_and_reason(stage):
    pending = stage.answer(stage.join()).member_id

    stage.leave(pending, reason="never mind", version=5, client_id="late", client_host="/10.0.0.1")

    (entry,) = stage.entries(MemberRemoved)
    assert (entry.member, entry.why) == (ClientIdentity(pending, "late", "/10.0.0.1"), "pending_left")
    assert (entry.reason, entry.api_version, entry.by, entry.vitals) == ("never mind", 5, None, None)


def test_removal_of_a_late_member_from_a_full_group_is_journaled_with_the_api_version():
    stage = CoordinatorStage(group_max_size=3)
    (a, b, c), _ = stage.stable(3)
    stage.config = CoordinatorStage(group_max_size=2).config
    stage.restart()
    for member_id in (a, b, c):
        stage.join(member_id, version=8)

    removed = stage.entries(MemberRemoved)[-1]
    assert (removed.member.member_id, removed.why, removed.reason, removed.api_version) == (c, "group_full", None, 8)


@pytest.mark.parametrize(
    ("session_ms", "taken"), [(5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False)]
)
def test_session_timeout_may_equal_the_configured_minimum_or_maximum(stage, session_ms, taken):
    code = stage.answer(stage.join(session_ms=session_ms)).error_code

    assert code == (ErrorCode.MEMBER_ID_REQUIRED if taken else ErrorCode.INVALID_SESSION_TIMEOUT)


def test_limit_of_member_metadata_is_the_larger_of_16_mib_and_message_max_bytes():
    small, large = CoordinatorStage(), CoordinatorStage(message_max_bytes=17 << 20)

    def join_code(stage: CoordinatorStage, size: int) -> int:
        code: int = stage.answer(stage.join(protocols=[("range", bytes(size))])).error_code
        return code

    taken, refused = ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_SERVER_ERROR
    assert [join_code(small, size) for size in (16 << 20, (16 << 20) + 1)] == [taken, refused]
    assert [join_code(large, size) for size in (17 << 20, (17 << 20) + 1)] == [taken, refused]


@pytest.mark.parametrize(
    ("group", "code"), [("g", ErrorCode.UNKNOWN_MEMBER_ID), ("other", ErrorCode.ILLEGAL_GENERATION)]
)
def test_offset_commit_with_generation_0_needs_a_valid_member_id(stage, group, code):
    stage.commit({("t", 0): 1})

    assert stage.commit({("t", 0): 2}, member_id="m", generation=0, group=group) == [code]
