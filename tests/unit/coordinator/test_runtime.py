"""Runtime of the coordinator: failed appends, and loading and unloading of partitions."""

from typing import Any

import pytest

from kohort.coordinator.journal import (
    AssignmentWritten,
    GroupLoaded,
    RoundClosed,
    RoundDropped,
    RoundOpened,
    RoundSettled,
)
from kohort.coordinator.records import GroupWritten, OffsetCommitted, build_record
from kohort.coordinator.replay import Skipped
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.notes import Level
from kohort.wire.messages.group_classic import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from support.consumer_protocol import assignment
from support.machines.coordinator_stage import GROUP, RANGE, CoordinatorStage, load

FULL = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)


class TestFailedFirstJoin:
    def test_failed_append_of_the_first_join_group_request_creates_no_group(self, stage):
        stage.refuse_with = FULL

        answer = stage.answer(stage.join())

        assert (answer.error_code, answer.generation_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        stage.refuse_with = None
        assert stage.answer(stage.leave("x")).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert stage.coordinator.wake_at_ms > stage.now + 100_000  # only the timer that expires offsets is set

    def test_first_join_group_v0_request_is_refused_after_a_failed_append(self):
        stage = CoordinatorStage(group_initial_rebalance_delay_ms=3000)
        stage.refuse_with = FULL

        answer = stage.answer(stage.join(version=3))

        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


class TestFailedAssignment:
    @pytest.fixture
    def dropped(self, stage):
        (a, b), generation = stage.stable(2)
        stage.join(a)
        stage.join(b)
        waiting = stage.sync(b, generation + 1)
        stage.journal.clear()
        stage.refuse_with = FULL
        leader = stage.sync(a, generation + 1, {a: assignment(("t", 0))})
        stage.refuse_with = None
        return a, b, generation, waiting, leader

    def test_failed_append_of_the_assignment_refuses_all_sync_group_requests(self, stage, dropped):
        *_, waiting, leader = dropped

        assert [stage.answer(t).error_code for t in (waiting, leader)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2

    def test_generation_does_not_decrease_after_a_failed_append_of_the_assignment(self, stage, dropped):
        a, b, generation, *_ = dropped

        assert stage.heartbeat(a, generation + 1) == ErrorCode.ILLEGAL_GENERATION
        first, second = stage.join(a), stage.join(b)

        assert [stage.answer(t).generation_id for t in (first, second)] == [generation + 2] * 2

    def test_failed_append_of_the_assignment_is_journaled_as_a_dropped_rebalance(self, stage, dropped):
        assert stage.entries(AssignmentWritten, RoundSettled) == []
        (entry,) = stage.entries(RoundDropped)
        assert entry.error == "COORDINATOR_NOT_AVAILABLE"
        assert stage.entries(RoundOpened)[-1].trigger.event == "append_failed"

    def test_members_expire_after_a_failed_append_of_the_assignment(self, stage, dropped):
        stage.advance(200_000)

        assert stage.records()[-1].value.members == []


class TestFailedEmptyGeneration:
    def test_failed_append_of_an_empty_generation_is_retried(self, stage):
        (a,), generation = stage.stable(1)
        stage.refuse_with = StorageError("disk full")

        assert stage.answer(stage.leave(a)).error_code == ErrorCode.NOT_COORDINATOR
        stage.advance(60_000)
        stage.refuse_with = None
        stage.advance(60_000)

        last = stage.records()[-1].value
        assert (last.members, last.generation > generation) == ([], True)


class TestPartitionLoading:
    def test_request_to_a_group_of_an_unloaded_partition_returns_not_coordinator(self, stage):
        stage.unload()

        assert stage.answer(stage.join()).error_code == ErrorCode.NOT_COORDINATOR
        assert stage.heartbeat("m", 1) == ErrorCode.NOT_COORDINATOR
        assert stage.commit({("t", 0): 1, ("nope", 0): 1}) == [ErrorCode.NOT_COORDINATOR] * 2

    def test_heartbeat_to_a_loading_group_succeeds(self, stage):
        stage.unload()
        stage.coordinator.start_loading(stage.coordinator.partition_of(GROUP))

        assert stage.answer(stage.join()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert stage.answer(stage.ask(HeartbeatRequest(group_id=GROUP), 4)) == HeartbeatResponse()

    def test_unloading_a_partition_refuses_waiting_requests(self, stage):
        (a, b), generation = stage.stable(2)
        joining = stage.join(a)
        (c, d), other = stage.stable(2, group="h")
        stage.join(c, group="h")
        stage.join(d, group="h")
        syncing = stage.sync(d, other + 1, group="h")

        stage.unload()

        assert stage.answer(joining).error_code == ErrorCode.NOT_COORDINATOR
        assert stage.answer(syncing).error_code == ErrorCode.NOT_COORDINATOR
        assert stage.coordinator.wake_at_ms is None
        assert stage.heartbeat(b, generation) == ErrorCode.NOT_COORDINATOR

    def test_request_to_a_group_of_an_unreadable_partition_returns_not_coordinator(self, stage):
        stage.unload()
        partition = stage.coordinator.partition_of(GROUP)

        stage.coordinator.start_loading(partition)
        stage.coordinator.refuse_loading(partition)

        assert stage.answer(stage.join()).error_code == ErrorCode.NOT_COORDINATOR
        assert load(stage.coordinator, partition, [], stage.now) == []
        assert stage.answer(stage.join()).error_code == ErrorCode.MEMBER_ID_REQUIRED

    def test_replay_skips_only_the_unreadable_record(self, stage):
        (member,), generation = stage.stable(1)
        partition = stage.coordinator.partition_of(GROUP)
        unreadable = (b"\x00\x02\x00\x01g", b"\x00\x63")
        skipped = Skipped()

        stage.unload()
        stage.coordinator.start_loading(partition)
        stage.coordinator.load_some(partition, [unreadable, *stage.log[partition], unreadable], stage.now, skipped)
        stage.coordinator.finish_loading(partition, stage.now)

        assert stage.heartbeat(member, generation) == ErrorCode.NONE
        (note,) = skipped.notes("__consumer_offsets-0")
        assert note.level is Level.WARNING
        assert note.text.startswith("__consumer_offsets-0: skipped 2 unreadable records: a record of")


class TestRestart:
    def test_stable_group_survives_a_restart(self, stage):
        (a, b), generation = stage.stable(2)
        stage.commit({("t", 0): 5}, member_id=a, generation=generation)
        stage.advance(9_999)

        stage.restart()
        stage.advance(9_999)

        assert [stage.heartbeat(m, generation) for m in (a, b)] == [ErrorCode.NONE] * 2
        assert stage.answer(stage.sync(b, generation)).assignment == assignment(("t", 1))
        assert stage.answer(stage.join(b)).generation_id == generation
        (loaded,) = stage.entries(GroupLoaded)
        assert (loaded.generation, [w.member_id for w in loaded.members]) == (generation, [a, b])
        assert loaded.partitions == {a: {"t": (0,)}, b: {"t": (1,)}}

    def test_generation_after_the_largest_int32_is_0(self, stage):
        last = GroupMetadataValue(protocol_type="consumer", generation=2**31 - 1, protocol=None, leader=None)
        stage.log[stage.coordinator.partition_of(GROUP)].append(build_record(GroupWritten(GROUP, last)))
        stage.restart()

        (_,), generation = stage.stable(1)

        assert generation == 0

    def test_generation_may_be_the_largest_int32(self, stage):
        last_but_one = GroupMetadataValue(protocol_type="consumer", generation=2**31 - 2, protocol=None, leader=None)
        stage.log[stage.coordinator.partition_of(GROUP)].append(build_record(GroupWritten(GROUP, last_but_one)))
        stage.restart()

        (_,), generation = stage.stable(1)

        assert generation == 2**31 - 1

    def test_silent_members_expire_after_a_restart(self, stage):
        stage.stable(2)
        stage.restart()

        stage.advance(100_000)

        assert stage.records()[-1].value.members == []

    def test_restart_drops_a_running_rebalance(self, stage):
        (a, b), generation = stage.stable(2)
        stage.join(a)

        stage.restart()

        assert stage.heartbeat(b, generation) == ErrorCode.NONE

    def test_group_above_the_size_limit_rebalances_after_a_restart(self, stage):
        (a, _, _), generation = stage.stable(3)
        stage.config = CoordinatorStage(group_max_size=2).config

        stage.restart()

        assert stage.heartbeat(a, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        assert stage.entries(RoundOpened)[-1].trigger.event == "over_capacity"

    def test_members_loaded_from_the_oldest_record_version_use_the_session_timeout_for_rebalances(self, stage):
        member = MemberMetadata(member_id="m", session_timeout=7000, subscription=RANGE[0][1])
        value = GroupMetadataValue(
            protocol_type="consumer", generation=3, protocol="range", leader="m", members=[member]
        )
        stage.log[stage.coordinator.partition_of(GROUP)] = [build_record(GroupWritten(GROUP, value))]

        stage.restart()
        stage.join("m", protocols=(*RANGE, ("s", b"")), rebalance_ms=9000)

        (opened, closed) = stage.entries(RoundOpened, RoundClosed)
        assert (opened.from_generation, opened.timeout_ms, closed.generation) == (3, 9000, 4)

    def test_replay_keeps_the_last_record_of_each_key(self, stage):
        offset = OffsetCommitValue(offset=1)
        records: list[Any] = [
            OffsetCommitted("a", "t", 0, offset),
            OffsetCommitted("a", "t", 0, None),
            OffsetCommitted("a", "t", 1, None),
            GroupWritten("b", GroupMetadataValue(generation=1, protocol=None, leader=None)),
            GroupWritten("b", None),
            GroupWritten("c", None),
        ]
        stage.unload()
        for partition in stage.log:
            stage.log[partition] = [
                build_record(r) for r in records if stage.coordinator.partition_of(r.group_id) == partition
            ]

        stage.restart()

        assert stage.answer(stage.leave("x", group="b")).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert stage.coordinator.take_journal() == []


def test_timer_of_a_deleted_group_has_no_effect(stage):
    (a,), _ = stage.stable(1)
    stage.refuse_with = FULL
    stage.leave(a)
    stage.refuse_with = None
    stage.leave(a)
    stage.advance(400_000)

    assert stage.records()[-1].value.members == []


def test_failed_append_of_a_member_removal_leaves_no_timer(stage):
    stage.enter(session_ms=60_000, rebalance_ms=10_000)
    assert {key.kind for key in stage.coordinator.timers_of(GROUP)} == {"session", "sync"}
    stage.refuse_with = FULL

    stage.advance(10_000)  # the member sends no SyncGroup in time

    assert stage.coordinator.timers_of(GROUP) == []
