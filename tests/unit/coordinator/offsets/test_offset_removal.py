"""OffsetDelete, deleted topics, and offsets that expire."""

import pytest

from kohort.coordinator.journal import GroupDeleted
from kohort.coordinator.records import GroupWritten, OffsetCommitted
from kohort.errors import ErrorCode
from kohort.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from support.machines.coordinator_stage import GROUP, CoordinatorStage

T, U = ("t", 0), ("u", 0)
HOUR = 3_600_000
CHECK = HOUR // 12


def delete(stage, *partitions: tuple[str, int], group: str = GROUP):
    topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=p)])
        for name, p in partitions
    ]
    return stage.answer(stage.ask(OffsetDeleteRequest(group_id=group, topics=topics), 0))


def codes(response: OffsetDeleteResponse) -> list[int]:
    return [p.error_code for topic in response.topics for p in topic.partitions]


def committed(stage) -> set[tuple[str, int]]:
    """What the log still has."""
    offsets = {(r.topic, r.partition): r.value for r in stage.records() if isinstance(r, OffsetCommitted)}
    return {at for at, value in offsets.items() if value is not None}


class TestOffsetDelete:
    def test_writes_a_tombstone_and_minds_nothing_that_is_not_there(self, stage):
        stage.commit({T: 1, U: 2})

        response = delete(stage, T, ("t", 1), ("nope", 0), ("t", 99), ("t", -1))

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes(response) == [ErrorCode.NONE, ErrorCode.NONE, unknown, unknown, unknown]
        assert stage.records()[-1] == OffsetCommitted(GROUP, "t", 0, None)
        assert committed(stage) == {U}

    @pytest.mark.parametrize(("group", "code"), [("", ErrorCode.INVALID_GROUP_ID), ("x", ErrorCode.GROUP_ID_NOT_FOUND)])
    def test_needs_a_group(self, stage, group, code):
        assert delete(stage, T, group=group) == OffsetDeleteResponse(error_code=code)

    def test_spares_nothing_that_only_members_of_before_the_group_was_empty_worked_on(self):
        stage = CoordinatorStage(group_initial_rebalance_delay_ms=3_000)
        member_id, joining = stage.enter()
        stage.advance(3_000)
        generation = stage.answer(joining).generation_id
        stage.sync(member_id, generation, {member_id: b""})
        stage.commit({T: 1}, member_id=member_id, generation=generation)
        assert codes(delete(stage, T)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
        stage.leave(member_id)

        _, waiting = stage.enter()

        assert codes(delete(stage, T)) == [ErrorCode.NONE]
        assert stage.answer(waiting) is None, "no generation has begun since"

    def test_spares_what_the_members_work_on(self, stage):
        (a,), generation = stage.stable(1)
        stage.commit({T: 1, U: 2}, member_id=a, generation=generation)

        assert codes(delete(stage, T, U)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
        assert committed(stage) == {T}

    def test_takes_a_subscription_that_it_cannot_read_for_everything(self, stage):
        stage.stable(1, protocols=(("range", b"\xff"),))

        assert codes(delete(stage, U)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]

    def test_refuses_a_group_of_another_kind_that_has_members(self, stage):
        stage.enter(protocol_type="connect")

        assert delete(stage, T) == OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)


class TestADeletedTopic:
    def test_takes_its_offsets_with_it_in_every_group(self, stage):
        for group in ("a", "b", "c"):
            stage.commit({T: 1, U: 2}, group=group)
        stage.topics.delete("t")

        stage.coordinator.topics_deleted(["t"], stage.now)
        stage.check()

        assert committed(stage) == {U}

    def test_leaves_alone_what_was_committed_since_it_was_made_anew(self, stage):
        stage.commit({T: 1})
        stage.topics.ids["t"] = b"\x07" * 16
        stage.commit({("t", 1): 2})

        stage.coordinator.topics_deleted(["t"], stage.now)
        stage.check()

        assert committed(stage) == {("t", 1)}


class TestExpiry:
    @pytest.fixture
    def stage(self):
        return CoordinatorStage(offsets_retention_minutes=60, offsets_retention_check_interval_ms=CHECK)

    def test_of_a_simple_group_counts_from_each_commit(self, stage):
        stage.commit({T: 1})
        stage.advance(HOUR // 2)
        stage.commit({U: 1})

        stage.advance(HOUR // 2 - CHECK)
        assert committed(stage) == {T, U}
        stage.advance(2 * CHECK)
        assert committed(stage) == {U}
        stage.advance(HOUR // 2)

        assert committed(stage) == set()
        assert [(e.group, e.why) for e in stage.entries(GroupDeleted)] == [(GROUP, "expired")]

    def test_of_a_group_with_members_waits_until_they_are_gone_for_as_long(self, stage):
        (a,), generation = stage.stable(1, session_ms=1_800_000)
        stage.commit({T: 1}, member_id=a, generation=generation)
        for _ in range(4):
            stage.advance(HOUR // 2 - 10)
            stage.heartbeat(a, generation)
        stage.leave(a)

        stage.advance(HOUR - CHECK)
        assert committed(stage) == {T}
        stage.advance(2 * CHECK)

        assert committed(stage) == set()
        assert stage.records()[-1] == GroupWritten(GROUP, None)

    def test_of_a_stable_consumer_group_takes_topics_that_nobody_subscribes_to(self, stage):
        (a,), generation = stage.stable(1, session_ms=1_800_000)
        stage.commit({T: 1, U: 1}, member_id=a, generation=generation)

        for _ in range(3):
            stage.advance(HOUR // 2 - 10)
            stage.heartbeat(a, generation)

        assert committed(stage) == {T}

    def test_of_a_group_that_rebalances_takes_nothing(self, stage):
        both = {"session_ms": 1_800_000, "rebalance_ms": 2 * HOUR}
        (a, b), generation = stage.stable(2, **both)
        stage.commit({U: 1}, member_id=a, generation=generation)
        stage.join(a, **both)
        for _ in range(5):
            stage.advance(HOUR // 4)
            assert stage.heartbeat(b, generation) == ErrorCode.REBALANCE_IN_PROGRESS

        assert committed(stage) == {U}

    def test_at_the_time_that_the_commit_asked_for(self, stage):
        stage.commit({T: 1}, version=4, retention_ms=5000)
        stage.commit({U: 1}, version=4, retention_ms=-1)

        stage.advance(CHECK)

        assert committed(stage) == {U}

    def test_of_an_empty_group_without_offsets_is_at_the_next_sweep(self, stage):
        (a,), _ = stage.stable(1)
        stage.leave(a)

        stage.advance(CHECK)

        assert stage.records()[-1] == GroupWritten(GROUP, None)
        assert stage.answer(stage.join(a)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_spares_a_group_that_someone_is_about_to_join(self, stage):
        pending = stage.answer(stage.join(session_ms=1_800_000)).member_id

        stage.advance(2 * CHECK)

        assert stage.answer(stage.join(pending)).generation_id == 1


def test_offsets_are_counted_as_committed_deleted_or_expired(stage):
    counters = stage.coordinator.counters

    def counted() -> tuple[int, int, int]:
        return counters.committed, counters.deleted, counters.expired

    assert counted() == (0, 0, 0)
    stage.commit({T: 1, U: 2, ("u", 1): 3})
    assert counted() == (3, 0, 0)
    delete(stage, T)
    assert counted() == (3, 1, 0)

    stage.advance(8 * 24 * HOUR)

    assert counted() == (3, 1, 2)
