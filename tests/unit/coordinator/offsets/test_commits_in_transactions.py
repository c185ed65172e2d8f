"""TxnOffsetCommit requests, and pending offsets of open transactions."""

import pytest

from kohort.coordinator.journal import ClientIdentity, RoundOpened
from kohort.coordinator.journal_events import CommitUnfenced, OffsetMove
from kohort.coordinator.journal_evidence import JOURNAL_AGAIN_MS
from kohort.coordinator.records import OffsetCommitted
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_admin import DeleteGroupsRequest
from kohort.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from kohort.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.machines.coordinator_stage import GROUP, CoordinatorStage

T, U = ("t", 0), ("u", 0)
NO_SUCH_ID = b"\1" * 16
WEEK_MS = 7 * 24 * 3_600_000


def commit(stage, offsets, producer=7, version=3, client_id="app", **who):
    topics = [
        TxnOffsetCommitRequestTopic(
            name=topic,
            topic_id=stage.topics.topic_id(topic) or NO_SUCH_ID,
            partitions=[
                TxnOffsetCommitRequestPartition(partition_index=p, committed_offset=offset, committed_metadata="")
            ],
        )
        for (topic, p), offset in offsets.items()
    ]
    message = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=who.pop("group", GROUP),
        producer_id=producer,
        producer_epoch=0,
        topics=topics,
        **who,
    )
    answer = stage.answer(stage.ask(message, version, client_id=client_id))
    return [p.error_code for topic in answer.topics for p in topic.partitions]


def fetch(stage, *places, stable=False):
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[p]) for name, p in places]
    answer = stage.answer(stage.ask(OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=stable), 7))
    return [(p.error_code, p.committed_offset) for topic in answer.topics for p in topic.partitions]


def test_pending_offsets_of_two_producers_in_one_group_are_separate(stage):
    commit(stage, {T: 5}, producer=7)
    commit(stage, {U: 6}, producer=8)

    stage.end_transaction(7, commit=True)

    assert fetch(stage, T, U, stable=True) == [(0, 5), (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)]
    stage.end_transaction(8, commit=False)
    assert fetch(stage, T, U, stable=True) == [(0, 5), (0, -1)]


def test_txn_offset_commit_with_member_id_but_no_generation_needs_an_empty_group(stage):
    commit(stage, {T: 5})

    assert commit(stage, {T: 6}, member_id="nobody") == [0]
    assert commit(stage, {T: 6}, group_instance_id="nobody") == [0]
    assert commit(stage, {T: 6}, member_id="nobody", generation_id=3) == [ErrorCode.UNKNOWN_MEMBER_ID]
    stage.stable(1)
    assert commit(stage, {T: 6}, member_id="nobody") == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("first", [7, 8])
def test_offset_written_last_by_two_transactions_remains_regardless_of_their_commit_order(stage, first):
    commit(stage, {T: 5}, producer=7)
    commit(stage, {T: 6}, producer=8)

    stage.end_transaction(first, commit=True)
    stage.end_transaction(15 - first, commit=True)

    assert fetch(stage, T, stable=True) == [(0, 6)]


def test_offset_written_last_in_a_transaction_is_committed(stage):
    commit(stage, {T: 5})
    commit(stage, {T: 6})

    stage.end_transaction(7, commit=True)

    assert fetch(stage, T) == [(0, 6)]


def test_group_whose_only_offset_commit_was_aborted_is_dropped(stage):
    commit(stage, {T: 5})
    assert stage.coordinator.committed(GROUP) is not None

    stage.end_transaction(7, commit=False)

    assert stage.coordinator.committed(GROUP) is None


@pytest.mark.parametrize("committed", [True, False])
def test_pending_transactional_offsets_survive_a_failover(stage, committed):
    stage.commit({T: 1})
    commit(stage, {T: 5, U: 6})
    stage.restart()

    assert fetch(stage, T, stable=True) == [(ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)]
    stage.end_transaction(7, commit=committed)
    stage.restart()

    assert fetch(stage, T, U, stable=True) == ([(0, 5), (0, 6)] if committed else [(0, 1), (0, -1)])


def test_transaction_marker_of_another_producer_keeps_pending_offsets(stage):
    stage.commit({T: 1})

    stage.end_transaction(99, commit=True)

    assert fetch(stage, T, stable=True) == [(0, 1)]


def test_pending_transactional_offsets_do_not_expire(stage):
    stage.commit({T: 1, U: 2})
    commit(stage, {T: 5})

    stage.advance(2 * WEEK_MS)

    assert fetch(stage, T, U) == [(0, 1), (0, -1)]
    stage.end_transaction(7, commit=False)
    stage.advance(WEEK_MS)
    assert fetch(stage, T) == [(0, -1)]


def test_deletion_of_a_group_removes_pending_transactional_offsets(stage):
    stage.commit({T: 1})
    commit(stage, {T: 5, U: 6})

    answer = stage.answer(stage.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2))
    assert answer.results[0].error_code == 0
    stage.end_transaction(7, commit=True)

    assert fetch(stage, T, U, stable=True) == [(0, -1), (0, -1)]
    assert OffsetCommitted(GROUP, "u", 0, None) in stage.records()


def test_deletion_of_an_offset_removes_its_pending_transactional_offset(stage):
    commit(stage, {T: 5, U: 6})
    topics = [OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]

    stage.answer(stage.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics), 0))
    stage.end_transaction(7, commit=True)

    assert fetch(stage, T, U, stable=True) == [(0, -1), (0, 6)]


def test_deletion_of_a_topic_removes_its_pending_transactional_offsets(stage):
    commit(stage, {T: 5, U: 6})
    stage.topics.delete("t")

    stage.coordinator.topics_deleted(["t"], stage.now)
    stage.end_transaction(7, commit=True)

    assert fetch(stage, T, U, stable=True) == [(0, -1), (0, 6)]


def test_failed_append_of_txn_offset_commit_adds_no_pending_offsets(stage):
    stage.refuse_with = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "full")

    assert commit(stage, {T: 5, ("nope", 0): 1}) == [ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    stage.refuse_with = None
    assert fetch(stage, T, stable=True) == [(0, -1)]


def test_txn_offset_commit_rejects_empty_group_id():
    assert commit(CoordinatorStage(), {T: 5}, group="") == [ErrorCode.INVALID_GROUP_ID]


def test_txn_offset_commit_v6_uses_topic_ids_and_returns_group_id_not_found(stage):
    assert commit(stage, {T: 5}, version=6, generation_id=3) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert commit(stage, {T: 5}, version=5, generation_id=3) == [ErrorCode.ILLEGAL_GENERATION]
    assert commit(stage, {T: 5, ("gone", 0): 5, ("t", 9): 5}, version=6) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]

    stage.end_transaction(7, commit=True)

    assert fetch(stage, T) == [(0, 5)]


def test_txn_offset_commit_counts_as_progress_of_its_member(stage):
    (a, _), generation = stage.stable(2)
    commit(stage, {T: 5}, member_id=a, generation_id=generation)
    at_ms = stage.now
    stage.advance(1000)
    commit(stage, {T: 5}, producer=8, member_id=a, generation_id=generation)
    stage.leave(a)

    (opened,) = [e for e in stage.entries(RoundOpened) if e.trigger.event == "member_left"]
    vitals = opened.trigger.vitals
    assert (vitals.commits, vitals.last_commit_ms, vitals.last_progress_ms) == (2, at_ms + 1000, at_ms + 1000)


def test_txn_offset_commit_without_member_id_is_journaled(stage):
    stage.commit({T: 9})
    stage.advance(JOURNAL_AGAIN_MS)
    stage.journal.clear()

    commit(stage, {T: 5, U: 6}, client_id="pump")

    (entry,) = stage.entries(CommitUnfenced)
    assert entry == CommitUnfenced(
        at_ms=stage.now,
        group=GROUP,
        member=ClientIdentity("", "pump", "/127.0.0.1"),
        offsets=(OffsetMove("t", 0, 5, 9), OffsetMove("u", 0, 6)),
        backwards=1,
        in_transaction=True,
    )


def test_txn_offset_commit_with_member_id_is_not_journaled(stage):
    assert commit(stage, {T: 5}, member_id="nobody") == [0]
    (a,), generation = stage.stable(1)
    assert commit(stage, {T: 5}, member_id=a, generation_id=generation) == [0]
    assert commit(stage, {T: 5}, generation_id=generation) == [ErrorCode.UNKNOWN_MEMBER_ID]

    assert stage.entries(CommitUnfenced) == []
