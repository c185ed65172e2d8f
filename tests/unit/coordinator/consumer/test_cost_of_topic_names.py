"""Topic names in heartbeats to consumer groups: limits, and their cost for other members' heartbeats."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.coordinator.consumer.subscribed_topics import hash_of_topics
from kohort.coordinator.consumer.subscription import OWNED_TOPICS_MAX, SUBSCRIBED_NAMES_MAX
from kohort.coordinator.outcome import GroupRequest
from kohort.coordinator.records import EpochWritten
from kohort.errors import ErrorCode, StorageError
from kohort.wire.messages.group_consumer import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from support.calls import calls_of
from support.machines.coordinator_stage import GROUP, CoordinatorStage, Topics
from support.machines.written_groups import epochs, member, write

NEWEST = {"group_consumer_assignment_interval_ms": 0}


def names(count: int, prefix: str = "n") -> list[str]:
    return [f"{prefix}{number:05}" for number in range(count)]


def group_of(stage: CoordinatorStage):
    return stage.coordinator.groups_in_partition_of(GROUP).consumer[GROUP]


def test_heartbeat_rejects_more_than_10000_topic_names():
    stage = CoordinatorStage()

    answer = stage.come("m1", *names(SUBSCRIBED_NAMES_MAX + 1))

    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "10001 names; at most 10000" in answer.error_message
    assert stage.records() == []


def test_heartbeat_rejects_more_than_100000_owned_topics():
    stage = CoordinatorStage()
    epoch = stage.come("m1").member_epoch
    owned = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=bytes(16), partitions=[0])] * (OWNED_TOPICS_MAX + 1)

    message = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m1", member_epoch=epoch, topic_partitions=owned)
    answer = stage.answer(stage.ask(message, 1))

    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "100001 topics; at most 100000" in answer.error_message


def test_heartbeat_that_names_an_owned_topic_twice_merges_the_partitions_of_both_entries():
    stage = CoordinatorStage(**NEWEST)
    stage.come("m1")
    stage.come("m2")
    kept = stage.assignment_in(stage.beat("m1", 2))
    pending = [number for number in range(4) if ("t", number) not in kept]
    twice = [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=stage.topics.ids["t"], partitions=[number])
        for number in (*(number for _, number in kept), pending[0])
    ]

    message = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m1", member_epoch=2, topic_partitions=twice)
    answer = stage.answer(stage.ask(message, 1))

    assert answer.member_epoch == 2, "the member still owns a partition that it must revoke"


@pytest.mark.parametrize("what", ["join", "leave", "heartbeat after topics changed"])
def test_cost_of_a_heartbeat_does_not_depend_on_topic_names_of_other_members(what):
    def cost(count: int) -> int:
        stage = CoordinatorStage(**NEWEST)
        write(stage, epochs(5), member("many", 5, names=["t", *names(count)]), member("m1", 5))
        stage.coordinator.check = None
        stage.beat("m1", 5)
        stage.come("m2", "t")
        if what == "join":
            return calls_of(lambda: beaten(stage, "m3", 0, names=["t"]))
        if what == "leave":
            return calls_of(lambda: beaten(stage, "m2", -1))
        stage.topics.make("new", 1)
        return calls_of(lambda: beaten(stage, "m1", group_of(stage).members["m1"].epoch))

    assert cost(9_000) <= cost(2_000) + 20


def beaten(stage: CoordinatorStage, member_id: str, epoch: int, names: list[str] | None = None) -> None:
    message = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if names else -1,
        subscribed_topic_names=names,
        topic_partitions=[] if names else None,
    )
    reply: Any = stage.coordinator.handle(GroupRequest(message, 1, "app", "/127.0.0.1", 1), stage.now)[0]
    assert reply.message.error_code == ErrorCode.NONE


def test_topic_hash_of_a_group_changes_with_its_topics_and_subscriptions():
    stage = CoordinatorStage(topics=Topics(a=1, b=2, c=3), **NEWEST)
    subscribed: dict[str, list[str]] = {}

    def check() -> None:
        topic_names = {name for topics in subscribed.values() for name in topics}
        assert group_of(stage).metadata_hash == hash_of_topics(topic_names, stage.topics)

    for member_id, topics in (
        ("m1", ["a", "none"]),
        ("m2", ["a", "b"]),
        ("m1", ["b"]),
        ("m3", ["later"]),
        ("m2", ["c"]),
        ("m1", ["a", "b", "c"]),
    ):
        subscribed[member_id] = topics
        assert stage.come(member_id, *topics).error_code == ErrorCode.NONE
        check()
    stage.topics.make("later", 4)
    stage.beat("m1", group_of(stage).members["m1"].epoch)
    check()
    stage.topics.delete("a")
    stage.beat("m1", group_of(stage).members["m1"].epoch)
    check()
    for member_id in ("m1", "m3", "m2"):
        del subscribed[member_id]
        stage.beat(member_id, -1)
        check()


def test_topic_hash_of_a_group_is_correct_after_a_failed_append():
    stage = CoordinatorStage(topics=Topics(a=1, b=2), **NEWEST)
    stage.come("m1", "a")
    stage.refuse_with = StorageError("disk is full")
    assert stage.come("m2", "b").error_code != ErrorCode.NONE
    stage.refuse_with = None

    stage.come("m3", "a", "none")

    (*_, last) = [record for record in stage.records() if isinstance(record, EpochWritten)]
    assert last.value.metadata_hash == hash_of_topics(["a"], stage.topics)
