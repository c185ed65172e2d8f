"""roundrobin assignor: partitions of all topics go to the members in turn."""

from __future__ import annotations

from kohort.assignors.roundrobin import assign
from kohort.assignors.spec import MemberSubscription, SubscribedTopics


def test_roundrobin_assignor_does_not_restart_with_the_first_member_at_the_next_topic():
    members = [MemberSubscription("b", ("t", "u")), MemberSubscription("a", ("t", "u"))]

    found = assign(SubscribedTopics({"t": 3, "u": 3}), members)

    assert [str(p) for p in found["a"]] == ["t-0", "t-2", "u-1"]
    assert [str(p) for p in found["b"]] == ["t-1", "u-0", "u-2"]


def test_roundrobin_assignor_skips_members_that_do_not_subscribe_to_the_topic():
    members = [
        MemberSubscription("a", ("t",)),
        MemberSubscription("b", ("t", "u")),
        MemberSubscription("c", ("t", "u", "v")),
    ]

    found = assign(SubscribedTopics({"t": 1, "u": 2, "v": 3}), members)

    assert {m: [str(p) for p in ps] for m, ps in found.items()} == {
        "a": ["t-0"],
        "b": ["u-0"],
        "c": ["u-1", "v-0", "v-1", "v-2"],
    }


def test_roundrobin_assignor_assigns_no_partition_if_no_member_subscribes_to_topics():
    assert assign(SubscribedTopics({"t": 3}), [MemberSubscription("a", ())]) == {"a": []}
