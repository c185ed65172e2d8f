"""Subscriptions of classic members. Equal subscriptions are parsed once, oversized ones are not parsed."""

from __future__ import annotations

from kohort.coordinator.classic.round import NAMES_PARSED_MAX
from kohort.coordinator.consumer.subscription import SUBSCRIBED_NAMES_MAX
from kohort.errors import ErrorCode
from support.calls import calls_of
from support.consumer_protocol import subscription
from support.machines.coordinator_stage import GROUP, CoordinatorStage


def names(count: int, prefix: str = "n") -> list[str]:
    return [f"{prefix}{number:05}" for number in range(count)]


def round_of(stage: CoordinatorStage):
    return stage.coordinator.groups_in_partition_of(GROUP).by_id[GROUP].round


def joined(*subscriptions: bytes) -> CoordinatorStage:
    stage = CoordinatorStage(group_initial_rebalance_delay_ms=100, group_coordinator_max_bytes=-1)
    for number, metadata in enumerate(subscriptions):
        stage.join(instance_id=f"i{number}", protocols=[("range", metadata)])
    stage.advance(1_000)
    return stage


def test_classic_group_subscribes_to_the_topics_of_all_its_members():
    stage = joined(subscription("a", "b"), subscription("b", "c", owned=[("c", 0)]), subscription("b", "c"))

    assert round_of(stage).subscribed_topics == {"a", "b", "c"}


def test_classic_group_with_too_many_topic_names_counts_as_subscribed_to_all_topics():
    half = NAMES_PARSED_MAX // 2
    fits = joined(subscription(*names(half, "a")), subscription(*names(half, "b")))
    assert len(round_of(fits).subscribed_topics) == NAMES_PARSED_MAX

    exceeds = joined(subscription(*names(half, "a")), subscription(*names(half + 1, "b")))

    assert round_of(exceeds).subscribed_topics is None
    assert round_of(exceeds).subscribes_to("any")


def test_subscriptions_that_differ_only_in_owned_partitions_share_one_parsed_result():
    def cost(members: int) -> int:
        topics = names(500)
        stage = joined(*(subscription(*topics, owned=[(topics[number], 0)]) for number in range(members)))
        return calls_of(round_of(stage).parse_subscriptions)

    assert cost(20) <= cost(2) + 20 * 20


def test_consumer_group_rejects_classic_member_that_subscribes_to_more_than_10000_topics():
    stage = CoordinatorStage()
    stage.come("m1")
    protocols = [("range", subscription(*names(SUBSCRIBED_NAMES_MAX + 1)))]
    member = stage.answer(stage.join(protocols=protocols)).member_id

    assert stage.answer(stage.join(member, protocols=protocols)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_classic_group_whose_member_subscribes_to_more_than_10000_topics_is_not_converted():
    stage = joined(subscription(*names(SUBSCRIBED_NAMES_MAX + 1)))

    answer = stage.come("m1")

    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "10001 topics; at most 10000" in answer.error_message
