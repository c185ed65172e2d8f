"""Topic deleted, recreated and filled during a read: the consumer reads the new records from their start."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.client.partition_claims import Claims
from kohort.client.reading.subscription import Position
from kohort.errors import ApiError, LogTruncated, NoOffsetForPartition
from kohort.model import OffsetAndMetadata
from kohort.wire.messages.offsets import OffsetCommitRequest
from support.machines.consumer_stage import ConsumerStage, User, tp
from support.machines.scripted_group import ScriptedGroup

T0 = tp("t-0")
OLD = [b"old-%d" % n for n in range(10)]
NEW = [b"new-%d" % n for n in range(30)]
MEMBERS = [
    {"group_protocol": "classic"},
    {"group_protocol": "classic", "partition_assignment_strategy": ["cooperative-sticky"]},
    {"group_protocol": "consumer"},
]
SECONDS = 1_000


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage(auto_create_topics_enable=False)
    stage.topic("t", 1)
    stage.produce("t", 0, *OLD)
    return stage


def reader(stage: ConsumerStage, **options: Any) -> User:
    user = stage.user(**options)
    user.machine.subscription.assign([T0])
    user.machine.subscription.seek(T0, Position(0))
    stage.until(lambda: user.values() == OLD)
    return user


def member(stage: ConsumerStage, **options: Any) -> User:
    user = stage.user("t", group_id="g", **options)
    stage.until(lambda: user.values() == OLD)
    return user


def recreate(stage: ConsumerStage) -> None:
    stage.broker.state.topics.delete("t", stage.now_ms)
    stage.topic("t", 1)
    stage.produce("t", 0, *NEW)


def notes(user: User, containing: str) -> list[str]:
    return [note.text for note in user.machine.notes.take() if containing in note.text]


def test_consumer_with_manual_assignment_reads_all_records_of_recreated_topic(stage: ConsumerStage):
    user = reader(stage)

    recreate(stage)
    stage.until(lambda: len(user.records) == 40)

    assert user.values() == OLD + NEW
    (text,) = notes(user, "created again")
    assert text.startswith("t-0: read up to 10, but topic 't' was deleted and created again; its position is reset")


@pytest.mark.parametrize("options", MEMBERS)
def test_member_reads_all_new_records_of_recreated_topic(stage: ConsumerStage, options: dict[str, Any]):
    user = member(stage, **options)
    stage.polls(6 * SECONDS)

    recreate(stage)
    stage.until(lambda: len(user.records) >= 40)
    stage.polls(6 * SECONDS)

    assert user.values() == OLD + NEW
    assert stage.settled(user.machine.committed([T0], None))[T0].offset == 30


def test_recreated_topic_without_reset_policy_raises_error_until_seek(stage: ConsumerStage):
    user = reader(stage, auto_offset_reset="none")
    recreate(stage)

    with pytest.raises(LogTruncated, match="t-0: read up to 10, but the topic was deleted and created again"):
        stage.until(lambda: False, 5 * SECONDS)

    user.machine.subscription.seek(T0, Position(20))
    stage.until(lambda: len(user.records) == 20)
    assert user.values() == OLD + NEW[20:]


def test_position_after_seek_is_not_reset_by_earlier_recreation_of_topic(stage: ConsumerStage):
    user = reader(stage)
    recreate(stage)
    user.machine.subscription.seek(T0, Position(25))

    stage.until(lambda: len(user.records) == 15)

    assert user.values() == OLD + NEW[25:]


def test_paused_partition_of_recreated_topic_is_reset_and_stays_paused(stage: ConsumerStage):
    user = reader(stage)
    user.machine.subscription.set_paused([T0], paused=True)
    recreate(stage)
    user.machine.metadata.request_refresh()
    stage.polls(2 * SECONDS)
    assert user.values() == OLD

    user.machine.subscription.set_paused([T0], paused=False)
    stage.until(lambda: len(user.records) == 40)

    assert user.values() == OLD + NEW


@pytest.mark.parametrize("options", MEMBERS)
def test_offset_in_deleted_topic_is_not_committed_for_recreated_topic(stage: ConsumerStage, options: dict[str, Any]):
    user = member(stage, enable_auto_commit="false", **options)
    recreate(stage)

    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_ID: committing t-0 for group 'g'") as raised:
        stage.settled(user.machine.commit(None, stage.now_ms + 60 * SECONDS), 2 * SECONDS)

    assert not raised.value.retriable
    assert stage.settled(user.machine.committed([T0], stage.now_ms + 5 * SECONDS)) == {T0: None}


def test_offset_in_deleted_topic_is_not_committed_under_name_of_recreated_topic():
    stage = ScriptedGroup()
    low, _ = stage.one.ranges[OffsetCommitRequest.API_KEY]
    stage.one.ranges[OffsetCommitRequest.API_KEY] = (low, 9)
    user = stage.user("t", group_id="g", enable_auto_commit="false")
    stage.until(lambda: len(user.records) == 10)
    user.machine.subscription.state(T0).topic_id = b"e" * 16

    with pytest.raises(ApiError, match="the topic was deleted and created again"):
        stage.settled(user.machine.commit({T0: OffsetAndMetadata(3)}, stage.now_ms + 5 * SECONDS))

    assert stage.sent(OffsetCommitRequest) == []


def test_marked_offsets_of_handlers_are_dropped_for_recreated_topic(stage: ConsumerStage):
    user = stage.user("t", group_id="g", enable_auto_commit="false")
    stage.until(lambda: user.owned == "t-0" and user.machine.subscription.state(T0).has_position)
    claims = Claims(user.machine, 100)
    (claim,) = claims.by_partition.values()
    stage.loop.run_until(lambda: claims.feed(stage.now_ms)[0])
    claims.mark(T0, OffsetAndMetadata(7))
    assert claims.to_commit() == {T0: OffsetAndMetadata(7)}

    recreate(stage)
    stage.loop.run_until(lambda: user.machine.subscription.state(T0) is not claim.state)

    assert claims.to_commit() == {}
    stage.loop.run_until(lambda: claims.feed(stage.now_ms)[0])
    claims.mark(T0, OffsetAndMetadata(2))
    assert claims.to_commit() == {T0: OffsetAndMetadata(2)}
    assert [fetched.start_offset for fetched in claim.inbox] == [0]


# Log lines of offset resets


def test_reset_without_committed_offset_is_logged_with_policy(stage: ConsumerStage):
    user = member(stage)

    assert notes(user, "reset") == ["positions reset: t-0 to 0 (earliest)"]


def test_resets_of_many_partitions_are_logged_in_one_line():
    stage = ConsumerStage()
    stage.topic("t", 50)
    user = stage.user(auto_offset_reset="latest")
    user.machine.subscription.assign([tp(f"t-{n}") for n in range(50)])
    stage.polls(SECONDS)

    (text,) = notes(user, "reset")

    assert text.startswith("positions reset: t-0 to 0 (latest), t-1 to 0 (latest), ")
    assert text.endswith(" and 30 more")


def test_offset_out_of_range_is_logged_with_reset(stage: ConsumerStage):
    user = stage.user()
    user.machine.subscription.assign([T0])
    user.machine.subscription.seek(T0, Position(99))
    stage.until(lambda: user.values() == OLD)

    assert notes(user, "t-0") == [
        "offset 99 of t-0 is out of range; its position is reset (auto.offset.reset=earliest)",
        "positions reset: t-0 to 0 (earliest)",
    ]


def test_missing_offset_without_reset_policy_is_raised_and_not_logged(stage: ConsumerStage):
    user = stage.user(auto_offset_reset="none")
    user.machine.subscription.assign([T0])

    with pytest.raises(NoOffsetForPartition):
        stage.polls(SECONDS)

    assert notes(user, "reset") == []
