"""range assignor: members receive consecutive partitions of each topic, preferably from their own rack."""

from __future__ import annotations

from kohort.assignors.range import RANGE, assign
from kohort.assignors.spec import MemberSubscription, SubscribedTopics
from kohort.model import TopicPartition


def members(*names: str, topics: str = "t", **options: object) -> list[MemberSubscription]:
    return [MemberSubscription(name, tuple(topics.split()), **options) for name in names]


def numbers(assignment: dict[str, list[TopicPartition]]) -> dict[str, list[str]]:
    return {member: [str(p) for p in partitions] for member, partitions in assignment.items()}


def test_range_assignor_gives_the_remaining_partitions_to_the_first_members():
    found = assign(SubscribedTopics({"t": 7}), members("c", "a", "b"))

    assert numbers(found) == {"a": ["t-0", "t-1", "t-2"], "b": ["t-3", "t-4"], "c": ["t-5", "t-6"]}


def test_range_assignor_co_partitions_topics_with_equal_partition_counts():
    found = assign(SubscribedTopics({"t1": 3, "t2": 3}), members("a", "b", topics="t1 t2"))

    assert numbers(found) == {"a": ["t1-0", "t1-1", "t2-0", "t2-1"], "b": ["t1-2", "t2-2"]}


def test_range_assignor_puts_static_members_before_dynamic_members():
    found = assign(
        SubscribedTopics({"t": 2}),
        [
            MemberSubscription("a", ("t",)),
            MemberSubscription("z", ("t",), instance_id="i9"),
            MemberSubscription("y", ("t",)),
        ],
    )

    assert numbers(found) == {"a": ["t-1"], "z": ["t-0"], "y": []}


def test_range_assignor_skips_topics_without_partitions_and_members_without_topics():
    found = assign(
        SubscribedTopics({"t": 1}),
        [MemberSubscription("a", ("gone",)), MemberSubscription("b", ("t", "gone")), MemberSubscription("c", ())],
    )

    assert numbers(found) == {"a": [], "b": ["t-0"], "c": []}


def test_range_assignor_gives_no_partition_to_the_last_members_if_partitions_are_too_few():
    assert numbers(assign(SubscribedTopics({"t": 1}), members("a", "b"))) == {"a": ["t-0"], "b": []}


def racks(topic: str, *per_partition: str) -> dict[TopicPartition, frozenset[str]]:
    return {TopicPartition(topic, i): frozenset(text.split()) for i, text in enumerate(per_partition)}


def test_range_assignor_gives_members_partitions_with_replicas_in_their_rack():
    topics = SubscribedTopics({"t": 4}, racks("t", "r2", "r1", "r2", "r1"))

    found = assign(topics, [MemberSubscription("a", ("t",), rack="r1"), MemberSubscription("b", ("t",), rack="r2")])

    assert numbers(found) == {"a": ["t-1", "t-3"], "b": ["t-0", "t-2"]}


def test_range_assignor_co_partitions_topics_if_members_have_racks():
    topics = SubscribedTopics({"t": 2, "u": 2}, racks("t", "r2", "r1") | racks("u", "r2", "r1"))

    found = assign(
        topics, [MemberSubscription("a", ("t", "u"), rack="r1"), MemberSubscription("b", ("t", "u"), rack="r2")]
    )

    assert numbers(found) == {"a": ["t-1", "u-1"], "b": ["t-0", "u-0"]}


def test_range_assignor_prefers_balance_over_replicas_in_the_same_rack():
    topics = SubscribedTopics({"t": 4}, racks("t", "r1", "r1", "r1", "r2"))

    found = assign(topics, [MemberSubscription("a", ("t",), rack="r1"), MemberSubscription("b", ("t",), rack="r2")])

    assert numbers(found) == {"a": ["t-0", "t-1"], "b": ["t-2", "t-3"]}


def test_range_assignor_ignores_racks_if_every_rack_has_every_partition():
    topics = SubscribedTopics({"t": 4}, racks("t", *["r1 r2"] * 4))

    found = assign(topics, [MemberSubscription("a", ("t",), rack="r2"), MemberSubscription("b", ("t",), rack="r1")])

    assert numbers(found) == {"a": ["t-0", "t-1"], "b": ["t-2", "t-3"]}


def test_range_assignor_is_eager_and_has_no_user_data():
    assert (RANGE.name, RANGE.cooperative, RANGE.user_data([], 3)) == ("range", False, None)
