"""Journal entries of refused offset commits from stale members."""

import pytest

from kohort.coordinator.journal import RequestFenced
from kohort.coordinator.journal_events import OffsetMove
from kohort.errors import ErrorCode
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from support.machines.coordinator_stage import GROUP, CoordinatorStage, Topics


@pytest.fixture
def stage():
    return CoordinatorStage(topics=Topics(t=30, u=30))


def fenced(stage) -> RequestFenced:
    (entry,) = stage.entries(RequestFenced)
    assert isinstance(entry, RequestFenced)
    return entry


def test_refused_offset_commit_is_journaled_with_generation_and_offsets(stage):
    (a,), generation = stage.stable(1)
    stage.commit({("t", 0): 7}, member_id=a, generation=generation)

    codes = stage.commit({("t", 0): 5, ("u", 1): 9}, member_id="zombie", generation=generation)

    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    entry = fenced(stage)
    assert (entry.api, entry.error, entry.generation) == ("OffsetCommit", "UNKNOWN_MEMBER_ID", generation)
    assert (entry.offsets, entry.more) == ((OffsetMove("t", 0, 5, 7), OffsetMove("u", 1, 9)), 0)
    assert stage.coordinator.fenced.by_group == {GROUP: {("OffsetCommit", "UNKNOWN_MEMBER_ID"): 1}}


@pytest.mark.parametrize(("count", "more"), [(19, 0), (20, 0), (21, 1), (30, 10)])
def test_refused_offset_commit_is_journaled_with_20_offsets_and_the_count_of_the_remaining_offsets(stage, count, more):
    _, generation = stage.stable(1)

    stage.commit({("t", partition): partition for partition in range(count)}, member_id="zombie", generation=generation)

    entry = fenced(stage)
    assert entry.offsets == tuple(OffsetMove("t", partition, partition) for partition in range(count - more))
    assert entry.more == more


def test_refused_offset_commit_with_topic_ids_is_journaled_with_topic_names_if_known(stage):
    stage.stable(1)
    unknown = b"\x09" * 16
    p = OffsetCommitRequestPartition(partition_index=0, committed_offset=2)
    topics = [OffsetCommitRequestTopic(topic_id=each, partitions=[p]) for each in (stage.topics.ids["u"], unknown)]

    message = OffsetCommitRequest(group_id=GROUP, member_id="zombie", generation_id_or_member_epoch=1, topics=topics)
    stage.ask(message, 10)

    assert [(move.topic, move.after) for move in fenced(stage).offsets] == [("u", 2), (unknown.hex(), 2)]


def test_refused_offset_commit_changes_neither_offsets_nor_member(stage):
    (a,), generation = stage.stable(1)
    stage.commit({("t", 0): 7}, member_id=a, generation=generation)

    assert stage.commit({("t", 0): 5}, member_id=a, generation=generation - 1) == [ErrorCode.ILLEGAL_GENERATION]

    committed = stage.coordinator.committed(GROUP)
    assert committed is not None
    assert committed.get("t", 0).offset == 7
    entry = fenced(stage)
    assert (entry.generation, entry.current) == (generation - 1, generation)


def test_offset_commit_that_moves_one_of_two_offsets_forward_is_progress(stage):
    (a, _), generation = stage.stable(2)
    stage.commit({("t", 0): 5, ("t", 1): 5}, member_id=a, generation=generation)
    stage.advance(1_000)
    stage.commit({("t", 0): 5, ("t", 1): 4}, member_id=a, generation=generation)
    groups = stage.coordinator.groups_in_partition_of(GROUP)
    assert groups is not None
    member = groups.by_id[GROUP].round.members[a]
    assert member.last_progress_ms == stage.now - 1_000

    stage.commit({("t", 0): 5, ("t", 1): 6}, member_id=a, generation=generation)

    assert member.last_progress_ms == stage.now
