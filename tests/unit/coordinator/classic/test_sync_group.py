"""SyncGroup requests. The coordinator persists the leader's assignment before it responds."""

from typing import Any

import pytest

from kohort.coordinator.classic.evidence import EVIDENCE_BYTES
from kohort.coordinator.classic.sync import decide_sync
from kohort.coordinator.journal import AssignmentWritten, MemberRemoved, Move, RoundOpened, RoundSettled
from kohort.coordinator.outcome import GroupRequest
from kohort.coordinator.records import GroupWritten
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_classic import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata
from support.consumer_protocol import assignment
from support.machines.coordinator_stage import GROUP, RANGE

MINE, YOURS = assignment(("t", 0), ("t", 1)), assignment(("t", 2), ("t", 3))


@pytest.fixture
def joined(stage):
    (a, b), generation = stage.stable(2)
    stage.join(a)
    stage.join(b)
    stage.journal.clear()
    return a, b, generation + 1


def sync_response(blob: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=blob)


class TestRefusals:
    @pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
    def test_sync_group_request_requires_protocol_type_and_name_since_v5(self, stage, joined, missing):
        a, _, generation = joined

        answer = stage.answer(stage.sync(a, generation, **{missing: None}))

        assert answer == SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def test_sync_group_request_needs_no_protocol_type_and_name_before_v5(self, stage, joined):
        a, _, generation = joined

        ticket = stage.sync(a, generation, {a: MINE}, version=4, protocol_type=None, protocol_name=None)

        assert stage.answer(ticket).assignment == MINE

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
            ({"group": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation": 1}, ErrorCode.ILLEGAL_GENERATION),
            ({"generation": 99}, ErrorCode.ILLEGAL_GENERATION),
            ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ],
    )
    def test_sync_group_request_with_wrong_member_id_generation_or_protocol_is_rejected(
        self, stage, joined, change, code
    ):
        a, _, generation = joined

        ticket = stage.sync(**({"member_id": a, "generation": generation} | change))

        assert stage.answer(ticket) == SyncGroupResponse(error_code=code)

    def test_sync_group_request_during_join_phase_returns_rebalance_in_progress(self, stage):
        (a, b), generation = stage.stable(2)
        stage.join(a)

        assert stage.answer(stage.sync(b, generation)).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def test_sync_group_request_in_empty_group_returns_unknown_member_id(self, stage):
        (a,), generation = stage.stable(1)
        stage.leave(a)

        assert stage.answer(stage.sync(a, generation)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


class TestLeaderAssignment:
    def test_leaders_assignment_completes_waiting_and_later_sync_group_requests(self, stage):
        (a, b, c), generation = stage.stable(3)
        for member in (a, b, c):
            stage.join(member)
        early = stage.sync(b, generation + 1)
        assert stage.answer(early) is None

        leader = stage.sync(a, generation + 1, {a: MINE, b: YOURS})
        late = stage.sync(c, generation + 1)

        assert [stage.answer(t) for t in (early, leader, late)] == [
            sync_response(YOURS),
            sync_response(MINE),
            sync_response(b""),
        ]

    def test_leaders_assignment_is_persisted_before_responses_to_sync_group_requests(self, stage, joined):
        a, b, generation = joined

        stage.sync(a, generation, {a: MINE, b: YOURS, "made-up": b"x"})

        def member(member_id: str, blob: bytes) -> MemberMetadata:
            return MemberMetadata(
                member_id=member_id,
                client_id="app",
                client_host="/127.0.0.1",
                rebalance_timeout=60_000,
                session_timeout=10_000,
                subscription=RANGE[0][1],
                assignment=blob,
            )

        written = GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol="range",
            leader=a,
            current_state_timestamp=stage.now,
            members=[member(a, MINE), member(b, YOURS)],
        )
        assert stage.records()[-1] == GroupWritten(GROUP, written)

    def test_assignments_in_a_followers_sync_group_request_are_ignored(self, stage, joined):
        a, b, generation = joined
        follower = stage.sync(b, generation, {a: b"", b: MINE})

        stage.sync(a, generation, {a: MINE, b: YOURS})

        assert stage.answer(follower) == sync_response(YOURS)

    def test_leaders_assignment_may_consist_of_any_bytes(self, stage, joined):
        a, _, generation = joined

        assert stage.answer(stage.sync(a, generation, {a: b"\xff"})) == sync_response(b"\xff")
        assert stage.entries(AssignmentWritten)[-1].partitions is None

    def test_repeated_sync_group_request_returns_the_same_assignment(self, stage, joined):
        a, _, generation = joined
        stage.sync(a, generation, {a: MINE})

        assert stage.answer(stage.sync(a, generation)) == sync_response(MINE)


def test_repeated_sync_group_request_refuses_the_waiting_one_with_rebalance_in_progress(stage, joined):
    a, b, generation = joined
    older = stage.sync(b, generation)

    newer = stage.sync(b, generation, connection=2)
    stage.sync(a, generation, {b: YOURS})

    assert stage.answer(older).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.answer(newer) == sync_response(YOURS)


class TestMissingSync:
    def test_member_without_sync_group_request_is_removed_after_the_rebalance_timeout(self, stage):
        (a, b), generation = stage.stable(2, rebalance_ms=5000, session_ms=30_000)
        for member in (a, b):
            stage.join(member, rebalance_ms=5000, session_ms=30_000)
        stage.sync(a, generation + 1, {a: MINE, b: YOURS})

        stage.advance(5000)

        assert stage.heartbeat(a, generation + 1) == ErrorCode.REBALANCE_IN_PROGRESS
        assert stage.heartbeat(b, generation + 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert [(e.member.member_id, e.why) for e in stage.entries(MemberRemoved)] == [(b, "sync_timeout")]
        assert not stage.entries(RoundOpened)[-1].trigger.leader_lost

    def test_leader_without_sync_group_request_is_replaced_by_the_first_member_that_sent_one(self, stage):
        (a, b), generation = stage.stable(2, rebalance_ms=5000, session_ms=30_000)
        for member in (a, b):
            stage.join(member, rebalance_ms=5000, session_ms=30_000)
        waiting = stage.sync(b, generation + 1)

        stage.advance(5000)

        assert stage.answer(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert stage.entries(RoundOpened)[-1].trigger.leader_lost
        assert stage.answer(stage.join(b)).leader == b
        assert stage.heartbeat(a, generation + 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_sync_timer_is_cancelled_after_every_member_sent_sync_group_request(self, stage):
        (a, b), generation = stage.stable(2, rebalance_ms=5000, session_ms=30_000)

        stage.advance(20_000)

        assert [stage.heartbeat(m, generation) for m in (a, b)] == [ErrorCode.NONE] * 2


class TestJournal:
    def test_journal_entries_of_a_rebalance_have_assignment_moved_partitions_and_last_sync_group_request(
        self, stage, joined
    ):
        a, b, generation = joined
        stage.advance(40)
        stage.sync(a, generation, {a: MINE, b: YOURS})
        stage.advance(7)
        stage.sync(b, generation)

        written, settled = stage.journal
        assert isinstance(written, AssignmentWritten)
        assert (written.generation, written.took_ms) == (generation, 40)
        assert written.partitions == {a: {"t": (0, 1)}, b: {"t": (2, 3)}}
        assert set(written.moves) == {Move("t", 1, b, a), Move("t", 2, None, b), Move("t", 3, None, b)}
        assert isinstance(settled, RoundSettled)
        assert (settled.generation, settled.last.member_id, settled.took_ms) == (generation, b, 7)

    def test_journal_entry_of_a_rebalance_end_names_the_leader_if_its_sync_group_request_is_the_last(
        self, stage, joined
    ):
        a, b, generation = joined
        stage.sync(b, generation)
        stage.sync(a, generation, {a: MINE, b: YOURS})

        (settled,) = stage.entries(RoundSettled)
        assert (settled.last.member_id, settled.took_ms) == (a, 0)


class TestAssignmentEvidence:
    def test_leaders_assignment_is_parsed_only_after_its_append(self, stage, joined):
        a, _, generation = joined
        assigned = [SyncGroupRequestAssignment(member_id=a, assignment=MINE)]
        message = SyncGroupRequest(group_id=GROUP, member_id=a, generation_id=generation, assignments=assigned)
        groups = stage.coordinator.groups_in_partition_of(GROUP)
        ctx = stage.coordinator._at(stage.now)

        outcome = decide_sync(groups, GroupRequest(message, 4, "app", "/127.0.0.1", 1), ctx)

        assert not [entry for entry in outcome.journal if isinstance(entry, AssignmentWritten)]
        evidence: Any = outcome.evidence()
        assert evidence.partitions[a] == {"t": (0, 1)}

    def test_assignment_whose_append_failed_is_not_journaled(self, stage, joined):
        a, _, generation = joined
        stage.refuse_with = ApiError(ErrorCode.MESSAGE_TOO_LARGE)

        stage.sync(a, generation, {a: MINE})

        assert stage.entries(AssignmentWritten) == []

    def test_assignments_above_the_size_limit_are_journaled_without_partitions(self, stage, joined):
        a, b, generation = joined
        large = assignment(*(("t", p) for p in range(EVIDENCE_BYTES // 4)))

        ticket = stage.sync(a, generation, {a: large, b: YOURS})

        (written,) = stage.entries(AssignmentWritten)
        assert (written.partitions, written.moves) == (None, ())
        assert stage.answer(ticket).assignment == large
