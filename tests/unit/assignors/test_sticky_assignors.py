"""sticky and cooperative-sticky assignors: balanced assignments that move as few partitions as possible."""

from __future__ import annotations

from kohort.assignors import cooperative, sticky
from kohort.assignors.builtin import assignors_named, is_cooperative
from kohort.assignors.spec import Assignment, MemberSubscription, SubscribedTopics
from kohort.model import TopicPartition


def tps(text: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(name[:-2], int(name[-1])) for name in text.split())


def shown(assignment: Assignment) -> dict[str, str]:
    return {member: " ".join(sorted(map(str, partitions))) for member, partitions in assignment.items()}


def owner(name: str, owned: str = "", topics: str = "t", generation: int = 4, **options: object) -> MemberSubscription:
    return MemberSubscription(name, tuple(topics.split()), owned=tps(owned), generation=generation, **options)


def test_sticky_assignor_assigns_partitions_to_members_in_turn_in_the_first_assignment():
    found = cooperative.assign(SubscribedTopics({"t": 5}), [owner("b"), owner("a")])

    assert shown(found) == {"a": "t-0 t-2 t-4", "b": "t-1 t-3"}


def test_cooperative_assignor_withholds_moving_partitions_until_revoked():
    topics = SubscribedTopics({"t": 4})
    members = [owner("a", "t-0 t-1 t-2 t-3"), owner("b", generation=-1)]

    first = cooperative.assign(topics, members)

    assert shown(first) == {"a": "t-0 t-1", "b": ""}

    second = cooperative.assign(topics, [owner("a", "t-0 t-1", generation=5), owner("b", generation=5)])

    assert shown(second) == {"a": "t-0 t-1", "b": "t-2 t-3"}


def test_cooperative_assignor_assigns_partitions_of_a_departed_member_immediately():
    found = cooperative.assign(SubscribedTopics({"t": 4}), [owner("a", "t-0 t-1"), owner("b", "t-2")])

    assert shown(found) == {"a": "t-0 t-1", "b": "t-2 t-3"}


def test_sticky_assignor_uses_the_newer_generation_if_two_members_report_the_same_partition():
    members = [owner("a", "t-0 t-1", generation=5), owner("b", "t-0 t-1", generation=4)]

    assert shown(cooperative.assign(SubscribedTopics({"t": 2}), members)) == {"a": "t-0", "b": ""}


def test_partition_that_two_members_own_in_the_same_generation_stays_unassigned_for_one_rebalance():
    members = [owner("a", "t-0 t-1"), owner("b", "t-0 t-2")]

    found = cooperative.assign(SubscribedTopics({"t": 3}), members)

    assert shown(found) == {"a": "t-1", "b": "t-2"}


def test_sticky_assignor_ignores_owned_partitions_that_were_deleted():
    found = cooperative.assign(SubscribedTopics({"t": 1}), [owner("a", "t-0 t-9 gone-0", topics="t gone")])

    assert shown(found) == {"a": "t-0"}


def test_sticky_assignor_balances_different_subscriptions_as_far_as_possible():
    topics = SubscribedTopics({"t": 4, "u": 2})
    members = [owner("a", "t-0 t-1 t-2 t-3", topics="t"), owner("b", "u-0 u-1", topics="t u")]

    found = cooperative.assign(topics, members)

    assert shown(found)["b"].startswith("u-0 u-1")
    assert len(found["a"]) == 3, "the moving partition is withheld until its owner revokes it"


def test_sticky_assignor_revokes_partitions_of_an_unsubscribed_topic():
    members = [owner("a", "t-0 u-0", topics="t"), owner("b", "t-1", topics="t u")]

    assert shown(cooperative.assign(SubscribedTopics({"t": 2, "u": 1}), members)) == {"a": "t-0", "b": "t-1"}


def test_sticky_assignor_reads_previously_owned_partitions_from_user_data():
    data = sticky.user_data(tps("t-0 t-1"), 3)
    members = [MemberSubscription("a", ("t",), generation=-1, user_data=data), MemberSubscription("b", ("t",))]

    assert sticky.read_claim(members[0]) == ([("t", [0, 1])], 3)
    assert shown(sticky.assign(SubscribedTopics({"t": 4}), members)) == {"a": "t-0 t-1", "b": "t-2 t-3"}


def test_sticky_assignor_ignores_unreadable_user_data():
    assert sticky.user_data([], -1) is None
    assert sticky.read_claim(MemberSubscription("a", ("t",), user_data=b"\xff\xff\xff\xff")) == ((), None)
    old = b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + b"\0\0\0\0"
    assert sticky.read_claim(MemberSubscription("a", ("t",), user_data=old)) == ([("t", [0])], -1)


def test_sticky_assignor_ignores_owned_partitions_with_invalid_numbers():
    members = [owner("a", topics="t u", generation=3), owner("b", topics="t u", generation=3)]
    claimed = (TopicPartition("t", -1), TopicPartition("t", 2), TopicPartition("t", 1), TopicPartition("v", 0))
    members[0] = MemberSubscription("a", ("t", "u"), owned=claimed, generation=3)

    assert shown(cooperative.assign(SubscribedTopics({"t": 2, "u": 2}), members)) == {"a": "t-0 t-1", "b": "u-0 u-1"}


def test_sticky_assignor_for_mixed_subscriptions_moves_partitions_only_to_a_new_member():
    topics = SubscribedTopics({f"t{i}": 20 for i in range(50)})
    members = [MemberSubscription(f"m{i:02}", tuple(topics.counts)) for i in range(40)]
    members.append(MemberSubscription("one", ("t0",)))
    before = sticky.assign(topics, members)
    subscriptions = [
        MemberSubscription(m.member_id, m.topics, user_data=sticky.user_data(before[m.member_id], 1)) for m in members
    ]

    after = sticky.assign(topics, [*subscriptions, MemberSubscription("new", tuple(topics.counts))])

    assert {len(partitions) for partitions in after.values()} <= {19, 20, 23, 24}
    assert all(set(after[m]) <= set(before[m]) for m in before)


def test_cooperative_assignor_reads_generation_of_old_subscription_version_from_user_data():
    claim = cooperative.read_claim(MemberSubscription("a", ("t",), owned=tps("t-0"), user_data=b"\0\0\0\7"))

    assert claim == ([("t", [0])], 7)


def test_sticky_assignor_gives_partitions_to_members_in_the_racks_of_their_replicas():
    racks = {TopicPartition("t", i): frozenset({f"r{i % 2}"}) for i in range(4)}
    members = [MemberSubscription("a", ("t",), rack="r1"), MemberSubscription("b", ("t",), rack="r0")]

    assert shown(sticky.assign(SubscribedTopics({"t": 4}, racks), members)) == {"a": "t-1 t-3", "b": "t-0 t-2"}
    mixed = [MemberSubscription("a", ("t", "u"), rack="r1"), MemberSubscription("b", ("t",), rack="r0")]
    assert shown(sticky.assign(SubscribedTopics({"t": 4}, racks), mixed)) == {"a": "t-1 t-3", "b": "t-0 t-2"}


def test_member_is_cooperative_only_if_all_its_assignors_are_cooperative():
    assert not is_cooperative(assignors_named(["range", "cooperative-sticky"]))
    assert is_cooperative(assignors_named(["cooperative-sticky"]))


def test_sticky_assignor_gives_additional_partitions_to_members_in_the_order_of_javas_hash_map():
    members = [owner("consumer-1", "t-0 t-1"), owner("consumer-2", "t-2 t-3"), owner("consumer-3", generation=-1)]

    found = cooperative.assign(SubscribedTopics({"t": 4}), members)

    assert shown(found) == {"consumer-1": "t-0", "consumer-2": "t-2 t-3", "consumer-3": ""}


def test_sticky_assignor_for_different_subscriptions_prefers_balance_over_replicas_in_the_same_rack():
    near, far = frozenset({"r1"}), frozenset({"r2"})
    racks = dict.fromkeys(tps("a-0 a-1 a-2 b-0"), near) | dict.fromkeys(tps("a-3"), far)
    members = [MemberSubscription("x", ("a", "b"), rack="r1"), MemberSubscription("y", ("a",), rack="r2")]

    found = sticky.assign(SubscribedTopics({"a": 4, "b": 1}, racks), members)

    assert shown(found) == {"x": "a-1 a-2 b-0", "y": "a-0 a-3"}
