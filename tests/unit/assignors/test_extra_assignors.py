"""Assignors that exist only in kohort, and assignors that users define."""

from __future__ import annotations

import pytest

import kohort
from kohort.assignors import extras, sticky
from kohort.assignors.builtin import assignors_named, is_cooperative
from kohort.assignors.extras import REDUNDANT, redundant
from kohort.assignors.spec import Assignment, MemberSubscription, SubscribedTopics
from kohort.errors import ConfigError, UsageError
from kohort.model import TopicPartition


def tps(text: str) -> list[TopicPartition]:
    return [TopicPartition(name[:-2], int(name[-1])) for name in text.split()]


def shown(assignment: Assignment) -> dict[str, str]:
    return {member: " ".join(sorted(map(str, partitions))) for member, partitions in assignment.items()}


def members(*names: str, topics: str = "a b") -> list[MemberSubscription]:
    return [MemberSubscription(name, tuple(topics.split())) for name in names]


def remembering(found: Assignment, generation: int = 3) -> list[MemberSubscription]:
    return [MemberSubscription(m, ("a", "b"), user_data=sticky.user_data(had, generation)) for m, had in found.items()]


def test_co_partitioned_assignor_gives_partition_n_of_topics_of_different_sizes_to_one_member():
    found = extras.assign_together(SubscribedTopics({"a": 4, "b": 2}), members("x", "y"))

    assert shown(found) == {"x": "a-0 a-2 b-0", "y": "a-1 a-3 b-1"}


def test_co_partitioned_assignor_moves_partition_numbers_only_to_a_joining_member():
    topics = SubscribedTopics({"a": 6, "b": 6})
    before = extras.assign_together(topics, members("x", "y"))

    after = extras.assign_together(topics, [*remembering(before), *members("z")])

    assert all(set(after[m]) <= set(before[m]) for m in before)
    assert sorted(map(len, after.values())) == [4, 4, 4]
    numbers = [{t: {p.partition for p in had if p.topic == t} for t in "ab"} for had in after.values()]
    assert all(of["a"] == of["b"] for of in numbers)


def test_co_partitioned_assignor_assigns_topics_with_different_subscribers_separately():
    group = [MemberSubscription("x", ("a", "b")), MemberSubscription("y", ("a",)), MemberSubscription("z", ("b",))]

    found = extras.assign_together(SubscribedTopics({"a": 2, "b": 3}), group)

    assert shown(found) == {"x": "a-0 b-1", "y": "a-1", "z": "b-0 b-2"}


def test_rack_aware_assignor_prefers_members_in_the_same_rack_over_balance():
    racks = {tp: frozenset({"north"}) for tp in tps("a-0 a-1 a-2")} | {tps("a-3")[0]: frozenset({"south"})}
    group = [
        MemberSubscription("n", ("a",), rack="north"),
        MemberSubscription("s", ("a",), rack="south"),
        MemberSubscription("nowhere", ("a",)),
    ]

    found = extras.assign_by_rack(SubscribedTopics({"a": 4}, racks), group)

    assert shown(found) == {"n": "a-0 a-1 a-2", "s": "a-3", "nowhere": ""}


def test_rack_aware_assignor_gives_partition_to_least_loaded_member_if_no_member_is_in_its_racks():
    racks = {tps("a-0")[0]: frozenset({"north"})}
    group = [MemberSubscription("n", ("a",), rack="north"), MemberSubscription("m", ("a",))]

    assert shown(extras.assign_by_rack(SubscribedTopics({"a": 3}, racks), group)) == {"n": "a-0", "m": "a-1 a-2"}


def test_redundant_assignor_assigns_each_partition_to_two_members():
    assert shown(REDUNDANT.assign(SubscribedTopics({"a": 3}), members("x", "y", "z", topics="a"))) == {
        "x": "a-0 a-1",
        "y": "a-0 a-2",
        "z": "a-1 a-2",
    }
    assert shown(REDUNDANT.assign(SubscribedTopics({"a": 2}), members("x", topics="a"))) == {"x": "a-0 a-1"}
    assert redundant(3).name == "redundant-3"
    with pytest.raises(ConfigError, match="at least 1"):
        redundant(0)


@kohort.assignor("all-to-one")
def all_to_one(topics, members):
    chosen = min(m.member_id for m in members)
    return {chosen: [p for t in topics.counts for p in topics.partitions(t)]}


def test_decorated_function_becomes_an_assignor():
    found = all_to_one.assign(SubscribedTopics({"a": 2}), members("y", "x", topics="a"))

    assert shown(found) == {"x": "a-0 a-1", "y": ""}
    assert [a.name for a in assignors_named([all_to_one, "range", "co-partitioned"])] == [
        "all-to-one",
        "range",
        "co-partitioned",
    ]
    with pytest.raises(ConfigError, match="twice"):
        assignors_named([all_to_one, all_to_one])


def test_user_defined_cooperative_assignor_withholds_moving_partitions():
    cooperative = kohort.assignor("mine", cooperative=True)(lambda topics, members: {"x": tps("a-0"), "y": tps("a-1")})
    group = [
        MemberSubscription("x", ("a",), owned=tuple(tps("a-0 a-1")), generation=2),
        MemberSubscription("y", ("a",)),
    ]

    assert shown(cooperative.assign(SubscribedTopics({"a": 2}), group)) == {"x": "a-0", "y": ""}
    assert is_cooperative([cooperative])


@pytest.mark.parametrize(
    ("assign", "words"),
    [
        (lambda topics, members: 1 / 0, "failed: ZeroDivisionError"),
        (lambda topics, members: None, "returned NoneType"),
        (lambda topics, members: {"stranger": []}, "not a member of the group"),
        (lambda topics, members: {"x": tps("a-7")}, "does not exist"),
        (lambda topics, members: {"x": tps("b-0")}, "does not subscribe to b"),
    ],
)
def test_invalid_result_of_a_user_defined_assignor_raises_usage_error(assign, words):
    with pytest.raises(UsageError, match=f"assignor 'wrong' .*{words}"):
        kohort.assignor("wrong")(assign).assign(SubscribedTopics({"a": 1, "b": 1}), members("x", topics="a"))
