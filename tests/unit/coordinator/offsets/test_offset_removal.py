"""Removal of offsets: OffsetDelete requests, deleted topics, expired offsets."""

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
    offsets = {(r.topic, r.partition): r.value for r in stage.records() if isinstance(r, OffsetCommitted)}
    return {at for at, value in offsets.items() if value is not None}


class TestOffsetDelete:
    def test_offset_delete_request_writes_tombstones_and_ignores_missing_offsets(self, stage):
        stage.commit({T: 1, U: 2})

        response = delete(stage, T, ("t", 1), ("nope", 0), ("t", 99), ("t", -1))

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes(response) == [ErrorCode.NONE, ErrorCode.NONE, unknown, unknown, unknown]
        assert stage.records()[-1] == OffsetCommitted(GROUP, "t", 0, None)
        assert committed(stage) == {U}

    @pytest.mark.parametrize(("group", "code"), [("", ErrorCode.INVALID_GROUP_ID), ("x", ErrorCode.GROUP_ID_NOT_FOUND)])
    def test_offset_delete_request_with_an_empty_or_unknown_group_id_is_refused(self, stage, group, code):
        assert delete(stage, T, group=group) == OffsetDeleteResponse(error_code=code)

    def test_offset_delete_request_removes_all_offsets_of_an_empty_group(self):
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
        assert stage.answer(waiting) is None, "no generation has begun since the member left"

    def test_offset_delete_request_for_subscribed_topics_is_refused(self, stage):
        (a,), generation = stage.stable(1)
        stage.commit({T: 1, U: 2}, member_id=a, generation=generation)

        assert codes(delete(stage, T, U)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
        assert committed(stage) == {T}

    def test_offset_delete_request_treats_an_unreadable_subscription_as_subscription_to_all_topics(self, stage):
        stage.stable(1, protocols=(("range", b"\xff"),))

        assert codes(delete(stage, U)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]

    def test_offset_delete_request_to_a_nonempty_group_of_another_protocol_type_is_refused(self, stage):
        stage.enter(protocol_type="connect")

        assert delete(stage, T) == OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)


class TestDeletedTopic:
    def test_deletion_of_a_topic_removes_its_offsets_in_every_group(self, stage):
        for group in ("a", "b", "c"):
            stage.commit({T: 1, U: 2}, group=group)
        stage.topics.delete("t")

        stage.coordinator.topics_deleted(["t"], stage.now)
        stage.check()

        assert committed(stage) == {U}

    def test_topic_deletion_keeps_offsets_of_the_recreated_topic(self, stage):
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

    def test_each_offset_of_a_group_without_members_expires_one_retention_time_after_its_commit(self, stage):
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

    def test_offsets_expire_one_retention_time_after_the_last_member_left(self, stage):
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

    def test_offsets_of_topics_that_no_member_subscribes_to_expire_in_a_stable_group(self, stage):
        (a,), generation = stage.stable(1, session_ms=1_800_000)
        stage.commit({T: 1, U: 1}, member_id=a, generation=generation)

        for _ in range(3):
            stage.advance(HOUR // 2 - 10)
            stage.heartbeat(a, generation)

        assert committed(stage) == {T}

    def test_offsets_of_a_rebalancing_group_do_not_expire(self, stage):
        both = {"session_ms": 1_800_000, "rebalance_ms": 2 * HOUR}
        (a, b), generation = stage.stable(2, **both)
        stage.commit({U: 1}, member_id=a, generation=generation)
        stage.join(a, **both)
        for _ in range(5):
            stage.advance(HOUR // 4)
            assert stage.heartbeat(b, generation) == ErrorCode.REBALANCE_IN_PROGRESS

        assert committed(stage) == {U}

    def test_offset_expires_at_the_expiry_time_in_its_commit(self, stage):
        stage.commit({T: 1}, version=4, retention_ms=5000)
        stage.commit({U: 1}, version=4, retention_ms=-1)

        stage.advance(CHECK)

        assert committed(stage) == {U}

    def test_empty_classic_group_without_offsets_expires_at_the_next_expiry_check(self, stage):
        (a,), _ = stage.stable(1)
        stage.leave(a)

        stage.advance(CHECK)

        assert stage.records()[-1] == GroupWritten(GROUP, None)
        assert stage.answer(stage.join(a)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_empty_group_with_pending_member_id_does_not_expire(self, stage):
        pending = stage.answer(stage.join(session_ms=1_800_000)).member_id

        stage.advance(2 * CHECK)

        assert stage.answer(stage.join(pending)).generation_id == 1


def test_committed_deleted_and_expired_offsets_are_counted(stage):
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
