"""Invariants of assignments for any group, and a comparison with kafka-python's assignors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.assignors import cooperative, sticky
from kohort.assignors.builtin import ASSIGNORS, EXTRAS
from kohort.assignors.range import assign as assign_range
from kohort.assignors.roundrobin import assign as assign_roundrobin
from kohort.assignors.spec import Assignment, MemberSubscription, SubscribedTopics, in_order
from kohort.config import options_of
from kohort.config.client import ConsumerConfig
from kohort.model import TopicPartition

calm = settings(max_examples=60)
"""A busy machine is no finding."""
TOPICS = ["a", "b", "c", "d"]
RACKS = ["", "r1", "r2", "r3"]


@st.composite
def groups(
    draw: st.DrawFn, *, equal: bool | None = None, with_racks: bool = False
) -> tuple[SubscribedTopics, list[MemberSubscription]]:
    counts = {t: draw(st.integers(0, 7)) for t in TOPICS}
    racks = {}
    if with_racks:
        for topic, count in counts.items():
            for number in range(count):
                racks[TopicPartition(topic, number)] = draw(st.frozensets(st.sampled_from(RACKS[1:]), max_size=2))
    size = draw(st.integers(1, 6))
    same = draw(st.booleans()) if equal is None else equal
    shared = tuple(draw(st.lists(st.sampled_from(TOPICS), min_size=1, unique=True)))
    members = []
    for i in range(size):
        topics = shared if same else tuple(draw(st.lists(st.sampled_from(TOPICS), min_size=1, unique=True)))
        instance = draw(st.none() | st.just(f"i{9 - i}"))
        rack = draw(st.sampled_from(RACKS)) if with_racks else ""
        members.append(MemberSubscription(f"m{i}", topics, instance_id=instance, rack=rack))
    return SubscribedTopics(counts, racks), members


def check_whole(topics: SubscribedTopics, members: list[MemberSubscription], found: Assignment) -> None:
    """Everybody has an entry; every partition of a wanted topic has one owner, which wants it."""
    assert found.keys() == {m.member_id for m in members}
    assigned = [p for partitions in found.values() for p in partitions]
    subscribed = {t for m in members for t in m.topics}
    assert sorted(assigned) == sorted(p for t in subscribed for p in topics.partitions(t))
    for member in members:
        assert all(p.topic in member.topics for p in found[member.member_id])


def test_the_option_takes_every_assignor_there_is():
    (option,) = [o for o in options_of(ConsumerConfig) if o.name == "partition.assignment.strategy"]
    assert set(option.choices) == {*ASSIGNORS, *EXTRAS}


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "co-partitioned", "rack-aware"])
@calm
@given(group=groups(with_racks=True))
def test_each_partition_has_one_subscribed_owner(name: str, group: tuple[SubscribedTopics, list[MemberSubscription]]):
    topics, members = group

    check_whole(topics, members, (ASSIGNORS | EXTRAS)[name].assign(topics, members))


@pytest.mark.parametrize("name", [*ASSIGNORS, *EXTRAS])
@calm
@given(group=groups(with_racks=True), seed=st.randoms(use_true_random=False))
def test_order_of_members_is_irrelevant(name: str, group: tuple[SubscribedTopics, list[MemberSubscription]], seed: Any):
    topics, members = group
    shuffled = list(members)
    seed.shuffle(shuffled)

    assign = (ASSIGNORS | EXTRAS)[name].assign

    assert assign(topics, members) == assign(topics, shuffled)


@calm
@given(group=groups(equal=True, with_racks=True))
def test_with_equal_subscriptions_sticky_leaves_a_difference_of_one_at_most(
    group: tuple[SubscribedTopics, list[MemberSubscription]],
):
    topics, members = group
    sizes = [len(p) for p in sticky.assign(topics, members).values()]

    assert max(sizes) - min(sizes) <= 1


def next_round(members: list[MemberSubscription], found: Assignment, generation: int) -> list[MemberSubscription]:
    """Return the members of the next round, with their assignment as owned partitions."""
    return [
        MemberSubscription(
            m.member_id,
            m.topics,
            m.instance_id,
            tuple(found.get(m.member_id, ())),
            generation,
            m.rack,
            sticky.user_data(found.get(m.member_id, ()), generation),
        )
        for m in members
    ]


@calm
@given(group=groups())
def test_rebalance_without_change_moves_no_partition(group: tuple[SubscribedTopics, list[MemberSubscription]]):
    topics, members = group
    found = sticky.assign(topics, members)

    again = sticky.assign(topics, next_round(members, found, 1))

    assert {m: set(p) for m, p in again.items()} == {m: set(p) for m, p in found.items()}


@calm
@given(group=groups(equal=True))
def test_departed_member_moves_only_its_own_partitions(group: tuple[SubscribedTopics, list[MemberSubscription]]):
    topics, members = group
    if len(members) < 2:
        return
    found = sticky.assign(topics, members)

    again = sticky.assign(topics, next_round(members[1:], found, 1))

    for member in members[1:]:
        assert set(found[member.member_id]) <= set(again[member.member_id])


def rounds(
    group: tuple[SubscribedTopics, list[MemberSubscription]], *, newcomer: bool, leaver: bool
) -> Iterator[tuple[bool, Assignment]]:
    """A cooperative group after somebody came or went, round after round: whether it is at rest, and its assignment."""
    topics, members = group
    members = next_round(members, sticky.assign(topics, members), 1)
    if leaver and len(members) > 1:
        members = members[1:]
    if newcomer:
        members = [*members, MemberSubscription("new", members[0].topics)]
    for generation in range(2, 6):
        found = cooperative.assign(topics, members)
        owned_by = {p: m.member_id for m in members for p in m.owned}
        taken = {str(p): member_id for member_id, partitions in found.items() for p in partitions}
        assert len(taken) == sum(map(len, found.values())), "two owners"
        handed_over = {p: m for m, partitions in found.items() for p in partitions if owned_by.get(p, m) != m}
        assert handed_over == {}, "their owners have not given them up"
        at_rest = all(set(m.owned) == set(found[m.member_id]) for m in members)
        members = next_round(members, found, generation)
        yield at_rest, found
        if at_rest:
            check_whole(topics, members, found)
            return


@calm
@given(group=groups(with_racks=True), newcomer=st.booleans(), leaver=st.booleans())
def test_cooperative_never_hands_over_what_is_still_owned(
    group: tuple[SubscribedTopics, list[MemberSubscription]], newcomer: bool, leaver: bool
):
    for _ in rounds(group, newcomer=newcomer, leaver=leaver):
        pass


@calm
@given(group=groups(equal=True), newcomer=st.booleans(), leaver=st.booleans())
def test_a_cooperative_group_is_at_rest_after_two_rounds_and_one_that_shows_it(
    group: tuple[SubscribedTopics, list[MemberSubscription]], newcomer: bool, leaver: bool
):
    outcomes = [at_rest for at_rest, _ in rounds(group, newcomer=newcomer, leaver=leaver)]

    assert outcomes[-1]
    assert len(outcomes) <= 3


# kafka-python's assignors, on the same groups


class Cluster:
    """As much of kafka-python's metadata as its assignors look at."""

    def __init__(self, topics: SubscribedTopics) -> None:
        self._counts = {t: n for t, n in topics.counts.items() if n}

    def topics(self) -> set[str]:
        return set(self._counts)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self._counts[topic])) if topic in self._counts else None


def ask_kafka_python(
    assignor: type, topics: SubscribedTopics, members: list[MemberSubscription]
) -> dict[str, set[tuple[str, int]]]:
    from kafka.protocol.consumer.group import JoinGroupResponse
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription as Subscription

    members_metadata = []
    for m in in_order(members):  # its range takes static members for one run
        by_topic: dict[str, list[int]] = {}
        for topic, number in m.owned:
            by_topic.setdefault(topic, []).append(number)
        owned = [Subscription.TopicPartition(topic=t, partitions=sorted(n)) for t, n in by_topic.items()]
        subscription = Subscription(
            version=3, topics=list(m.topics), user_data=m.user_data or b"", owned_partitions=owned,
            generation_id=-1 if m.generation is None else m.generation, rack_id=None,
        )  # fmt: skip
        members_metadata.append(
            JoinGroupResponse.JoinGroupResponseMember(
                version=5, member_id=m.member_id, group_instance_id=m.instance_id, metadata=subscription
            )
        )
    answer = assignor().assign(Cluster(topics), members_metadata)
    return {
        member: {(topic, p) for topic, numbers in map(tuple, assignment.assigned_partitions) for p in numbers}
        for member, assignment in answer.items()
    }


def as_sets(found: Assignment) -> dict[str, set[tuple[str, int]]]:
    return {member: {tuple(p) for p in partitions} for member, partitions in found.items()}


@calm
@given(group=groups())
def test_range_is_kafka_pythons(group: tuple[SubscribedTopics, list[MemberSubscription]]):
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    topics, members = group
    assert as_sets(assign_range(topics, members)) == ask_kafka_python(RangePartitionAssignor, topics, members)


@calm
@given(group=groups(equal=True))  # with unequal subscriptions its round robin fails at the first member that it skips
def test_roundrobin_is_kafka_pythons_where_all_subscribe_alike(
    group: tuple[SubscribedTopics, list[MemberSubscription]],
):
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    topics, members = group
    assert as_sets(assign_roundrobin(topics, members)) == ask_kafka_python(RoundRobinPartitionAssignor, topics, members)


@calm
@given(group=groups())
def test_sticky_is_as_balanced_as_kafka_pythons_which_has_only_the_general_algorithm(
    group: tuple[SubscribedTopics, list[MemberSubscription]],
):
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    topics, members = group
    ours, theirs = as_sets(sticky.assign(topics, members)), ask_kafka_python(StickyPartitionAssignor, topics, members)

    assert Counter(len(p) for p in ours.values()) == Counter(len(p) for p in theirs.values())


@calm
@given(group=groups(equal=True))
def test_cooperative_moves_no_more_than_kafka_pythons_when_a_member_joins(
    group: tuple[SubscribedTopics, list[MemberSubscription]],
):
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    topics, members = group
    members = next_round(members, sticky.assign(topics, members), 3)
    members.append(MemberSubscription("new", members[0].topics, generation=-1))

    ours = as_sets(cooperative.assign(topics, members))
    theirs = ask_kafka_python(CooperativeStickyAssignor, topics, members)

    assert sum(map(len, ours.values())) >= sum(map(len, theirs.values())), "more is withheld"
    assert all(ours[m.member_id] <= set(map(tuple, m.owned)) for m in members[:-1])
