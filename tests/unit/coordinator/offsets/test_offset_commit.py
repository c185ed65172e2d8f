"""OffsetCommit requests: accepted and refused commits in each group state, persisted values."""

import pytest

from kohort.coordinator.journal import ClientIdentity, RoundOpened
from kohort.coordinator.journal_events import CommitUnfenced, OffsetMove
from kohort.coordinator.journal_evidence import JOURNAL_BACKWARD_AGAIN_MS
from kohort.coordinator.records import OffsetCommitted
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_records import OffsetCommitValue
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from support.machines.coordinator_stage import GROUP, CoordinatorStage, Topics

T0 = {("t", 0): 5}


def test_offset_commit_by_a_non_member_is_journaled(stage):
    stage.commit(T0, group="nobodys")

    (entry,) = stage.entries(CommitUnfenced)
    assert [(move.topic, move.partition, move.after, move.before) for move in entry.offsets] == [("t", 0, 5, None)]


def test_backward_offset_commit_by_a_non_member_is_journaled_with_its_offsets():
    stage = CoordinatorStage(topics=Topics(t=30))
    stage.commit({("t", partition): 10 for partition in range(24)})
    stage.advance(JOURNAL_BACKWARD_AGAIN_MS)

    stage.commit({("t", partition): 9 + (partition % 3) for partition in range(25)})

    entry = stage.entries(CommitUnfenced)[-1]
    assert entry == CommitUnfenced(
        at_ms=stage.now,
        group=GROUP,
        member=ClientIdentity("", "app", "/127.0.0.1"),
        offsets=tuple(OffsetMove("t", partition, 9 + (partition % 3), 10) for partition in range(20)),
        more=5,
        backwards=8,
    )


class TestCommitChecks:
    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({}, ErrorCode.NONE),
            ({"generation": -1}, ErrorCode.ILLEGAL_GENERATION),
            ({"generation": 99}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"member_id": "", "generation": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"group": "nobody"}, ErrorCode.ILLEGAL_GENERATION),
            ({"group": "nobody", "version": 9}, ErrorCode.GROUP_ID_NOT_FOUND),
        ],
    )
    def test_offset_commit_to_a_stable_group_checks_member_id_and_generation(self, stage, change, code):
        (a,), generation = stage.stable(1)

        assert stage.commit(T0, **({"member_id": a, "generation": generation} | change)) == [code]

    def test_offset_commit_during_the_join_phase_is_accepted(self, stage):
        (a, b), generation = stage.stable(2)
        stage.join(a)

        assert stage.commit(T0, member_id=b, generation=generation) == [ErrorCode.NONE]

    def test_offset_commit_before_the_leaders_assignment_returns_rebalance_in_progress(self, stage):
        member_id, ticket = stage.enter()
        generation = stage.answer(ticket).generation_id

        assert stage.commit(T0, member_id=member_id, generation=generation) == [ErrorCode.REBALANCE_IN_PROGRESS]

    def test_offset_commit_of_a_static_member_needs_its_latest_member_id(self, stage):
        first = stage.answer(stage.join(instance_id="i")).member_id
        stage.sync(first, 1, {first: b""}, instance_id="i")
        second = stage.answer(stage.join(instance_id="i")).member_id

        assert stage.commit(T0, member_id=first, generation=1, instance_id="i") == [ErrorCode.FENCED_INSTANCE_ID]
        assert stage.commit(T0, member_id=second, generation=1, instance_id="i") == [ErrorCode.NONE]

    def test_empty_group_accepts_offset_commits_without_generation(self, stage):
        (a,), generation = stage.stable(1)
        stage.leave(a)

        assert stage.commit(T0) == [ErrorCode.NONE]
        assert stage.commit(T0, member_id=a, generation=generation) == [ErrorCode.UNKNOWN_MEMBER_ID]

    def test_offset_commit_to_unknown_group_creates_a_group_without_members(self, stage):
        assert stage.commit(T0, group="simple") == [ErrorCode.NONE]
        assert stage.commit(T0, group="simple", generation=3) == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert stage.commit({("t", 0): 6}, group="simple") == [ErrorCode.NONE]

    def test_offset_commit_accepts_the_empty_group_id(self, stage):
        assert stage.commit(T0, group="") == [ErrorCode.NONE]


class TestSessionRenewal:
    @pytest.fixture
    def pair(self, stage):
        return stage.stable(2)

    def test_offset_commit_renews_the_session_of_a_classic_member(self, stage, pair):
        (a, _), generation = pair
        stage.advance(9_000)
        stage.commit(T0, member_id=a, generation=generation)
        stage.advance(9_000)

        assert stage.heartbeat(a, generation) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_refused_offset_commit_does_not_renew_the_session(self, stage, pair):
        (a, b), generation = pair
        stage.join(a)
        stage.join(b)
        stage.advance(9_000)
        stage.commit(T0, member_id=a, generation=generation + 1)
        stage.heartbeat(b, generation + 1)
        stage.advance(1_000)

        assert stage.heartbeat(a, generation + 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_offset_commit_response_omits_a_topic_without_partitions(stage):
    topics = [OffsetCommitRequestTopic(name="t"), OffsetCommitRequestTopic(name="gone")]
    ticket = stage.ask(OffsetCommitRequest(group_id=GROUP, topics=topics), 8)

    assert stage.answer(ticket).topics == []
    assert stage.records() == []


class TestStoredOffset:
    def test_offset_commit_appends_one_record_per_partition_in_one_batch(self, stage):
        (a,), generation = stage.stable(1)
        before = len(stage.records())

        stage.commit({("t", 0): 5, ("u", 1): 7}, member_id=a, generation=generation, metadata="m", version=6)

        def value(offset: int, topic: str) -> OffsetCommitValue:
            return OffsetCommitValue(
                offset=offset, metadata="m", commit_timestamp=stage.now, topic_id=stage.topics.topic_id(topic)
            )

        assert stage.records()[before:] == [
            OffsetCommitted(GROUP, "t", 0, value(5, "t")),
            OffsetCommitted(GROUP, "u", 1, value(7, "u")),
        ]

    @pytest.mark.parametrize("version", [2, 3, 4])
    def test_offset_commit_v2_to_v4_sets_the_expiry_time(self, stage, version):
        stage.commit(T0, version=version, retention_ms=60_000)

        (record,) = stage.records()
        assert record.value.expire_timestamp == stage.now + 60_000

    def test_offset_commit_persists_the_leader_epoch(self, stage):
        p = OffsetCommitRequestPartition(partition_index=1, committed_offset=2, committed_leader_epoch=9)
        topics = [OffsetCommitRequestTopic(name="t", partitions=[p])]
        stage.ask(OffsetCommitRequest(group_id=GROUP, topics=topics), 8)

        (record,) = stage.records()
        assert (record.value.leader_epoch, record.value.metadata) == (9, "")


class TestPartitionErrors:
    def test_offset_commit_with_an_unknown_partition_refuses_only_that_partition(self, stage):
        codes = stage.commit({("t", 0): 1, ("t", 4): 1, ("t", -1): 1, ("nope", 0): 1, ("u", 1): 1})

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [ErrorCode.NONE, unknown, unknown, unknown, ErrorCode.NONE]
        assert [(r.topic, r.partition) for r in stage.records()] == [("t", 0), ("u", 1)]

    def test_unknown_partition_keeps_its_error_in_a_refused_offset_commit(self, stage):
        codes = stage.commit({("t", 0): 1, ("nope", 0): 1}, generation=5)

        assert codes == [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    @pytest.mark.parametrize(
        ("metadata", "fits"), [("é" * 10, True), ("é" * 11, False), ("😀" * 5, True), ("😀" * 6, False)]
    )
    def test_offset_metadata_limit_counts_utf_16_units(self, metadata, fits):
        stage = CoordinatorStage(offset_metadata_max_bytes=10)

        (code,) = stage.commit(T0, metadata=metadata)

        assert code == (ErrorCode.NONE if fits else ErrorCode.OFFSET_METADATA_TOO_LARGE)
        assert len(stage.records()) == int(fits)

    def test_offset_commit_uses_topic_ids_since_v10(self, stage):
        unknown = b"\x09" * 16
        p = OffsetCommitRequestPartition(partition_index=0, committed_offset=2)
        topics = [
            OffsetCommitRequestTopic(topic_id=topic_id, partitions=[p])
            for topic_id in (stage.topics.topic_id("u"), unknown)
        ]

        answer = stage.answer(stage.ask(OffsetCommitRequest(group_id=GROUP, topics=topics), 10))

        def answered(topic_id: bytes, code: ErrorCode) -> OffsetCommitResponseTopic:
            result = OffsetCommitResponsePartition(partition_index=0, error_code=code)
            return OffsetCommitResponseTopic(topic_id=topic_id, partitions=[result])

        assert answer == OffsetCommitResponse(
            topics=[answered(stage.topics.topic_id("u"), ErrorCode.NONE), answered(unknown, ErrorCode.UNKNOWN_TOPIC_ID)]
        )
        assert [r.topic for r in stage.records()] == ["u"]


class TestFailedAppend:
    @pytest.mark.parametrize(
        ("raw", "returned"),
        [
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
            (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            (ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION),
        ],
    )
    def test_failed_append_of_an_offset_commit_returns_an_error_for_each_valid_partition(self, stage, raw, returned):
        (a,), generation = stage.stable(1)
        stage.refuse_with = ApiError(raw)

        codes = stage.commit({("t", 0): 1, ("nope", 0): 1}, member_id=a, generation=generation)

        assert codes == [returned, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert stage.heartbeat(a, generation) == ErrorCode.NONE

    def test_failed_append_of_an_offset_commit_keeps_the_running_rebalance(self, stage):
        (a, b), generation = stage.stable(2)
        rejoin = stage.join(a)
        stage.refuse_with = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

        stage.commit(T0, member_id=b, generation=generation)

        assert stage.answer(rejoin) is None


def test_journal_entry_of_a_removed_member_has_its_commit_count_and_time_of_last_progress(stage):
    (a, _), generation = stage.stable(2)
    stage.commit({("t", 0): 5}, member_id=a, generation=generation)
    at_ms = stage.now
    stage.advance(1000)
    stage.commit({("t", 0): 5}, member_id=a, generation=generation)
    stage.leave(a)

    (opened,) = [e for e in stage.entries(RoundOpened) if e.trigger.event == "member_left"]
    assert (opened.trigger.vitals.commits, opened.trigger.vitals.last_progress_ms) == (2, at_ms)
