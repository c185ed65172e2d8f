"""Tombstones of deleted and expired offsets, and failed appends of tombstones."""

import pytest

from kohort.coordinator.records import OffsetCommitted
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.offsets import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from support.machines.coordinator_stage import GROUP, CoordinatorStage

FULL = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)


def committed(stage) -> list[tuple[str, int]]:
    offsets = stage.coordinator.committed(GROUP)
    return [] if offsets is None else sorted((topic, partition) for topic, partition, _ in offsets)


def delete(stage, topic: str, *partitions: int) -> list[int]:
    request_partitions = [OffsetDeleteRequestPartition(partition_index=each) for each in partitions]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=request_partitions)]
    answer = stage.answer(stage.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics), 0))
    return [p.error_code for topic in answer.topics for p in topic.partitions]


def test_offset_delete_request_returns_an_error_for_a_nonexistent_partition(stage):
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    stage.commit({("t", 3): 1})

    assert delete(stage, "t", -1, 0, 3, 4) == [unknown, 0, 0, unknown]
    assert committed(stage) == []


@pytest.mark.parametrize("deleted", ["a", "b", "c"])
def test_topic_deletion_keeps_offsets_of_other_topics(stage, deleted):
    for topic in ("a", "b", "c"):
        stage.topics.make(topic, 2)
    stage.commit({(topic, partition): 1 for topic in ("a", "b", "c") for partition in (0, 1)})
    stage.topics.delete(deleted)

    stage.coordinator.topics_deleted([deleted], stage.now)

    assert committed(stage) == [
        (topic, partition) for topic in ("a", "b", "c") if topic != deleted for partition in (0, 1)
    ]


def test_failed_append_of_an_offset_deletion_does_not_rebalance_the_group(stage):
    (a, b), generation = stage.stable(2)
    stage.commit({("u", 0): 1, ("u", 1): 1}, member_id=a, generation=generation)
    rejoin = stage.join(a)
    stage.refuse_with = FULL

    delete(stage, "u", 0)
    assert stage.answer(rejoin) is None
    stage.topics.delete("u")
    stage.coordinator.topics_deleted(["u"], stage.now)
    stage.check()

    assert stage.answer(rejoin) is None
    assert committed(stage) == [("u", 0), ("u", 1)]
    stage.refuse_with = None
    stage.join(b)
    assert stage.answer(rejoin).generation_id == generation + 1


def test_failed_append_of_an_offset_expiry_is_retried_without_rebalance():
    stage = CoordinatorStage(offsets_retention_minutes=5, offsets_retention_check_interval_ms=300_000)
    (a, b), generation = stage.stable(2, session_ms=1_800_000, rebalance_ms=1_800_000)
    stage.commit({("u", 0): 1}, member_id=a, generation=generation, version=4, retention_ms=1_000)
    rejoin = stage.join(a, session_ms=1_800_000, rebalance_ms=1_800_000)
    stage.refuse_with = FULL
    stage.advance(300_000)
    assert stage.answer(rejoin) is None
    assert committed(stage) == [("u", 0)]

    stage.refuse_with = None
    stage.advance(300_000)

    assert committed(stage) == []
    assert stage.answer(rejoin) is None
    tombstones = [record for record in stage.records() if isinstance(record, OffsetCommitted) and record.value is None]
    assert [(record.topic, record.partition) for record in tombstones] == [("u", 0)]
    stage.join(b, session_ms=1_800_000, rebalance_ms=1_800_000)
    assert stage.answer(rejoin).generation_id == generation + 1


def test_group_without_members_is_dropped_with_its_last_offset():
    stage = CoordinatorStage(offsets_retention_check_interval_ms=300_000)
    stage.commit({("t", 0): 1, ("t", 1): 1}, version=4, retention_ms=1_000)
    stage.commit({("t", 2): 1}, version=4, retention_ms=400_000)

    stage.advance(300_000)
    assert committed(stage) == [("t", 2)]
    stage.advance(300_000)

    assert stage.coordinator.committed(GROUP) is None
