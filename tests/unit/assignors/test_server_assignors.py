"""Server-side assignors uniform and range (KIP-848): test cases from Apache Kafka and from kohort."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping

import pytest

from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.assignors.server.iteration import (
    in_group_order,
    in_member_order,
    in_name_order,
    in_owned_order,
    in_partition_order,
    in_topic_order,
    topic_rank,
)
from kohort.assignors.server.range import RANGE
from kohort.assignors.server.spec import MemberSpec, Targets
from kohort.assignors.server.uniform import UNIFORM
from kohort.errors import UsageError

# Topic ids in Kafka's tests: the hash codes of the ids determine the order of assignment.
IDS = {
    "T1": base64.urlsafe_b64decode("T1-A4s3VTwiI5CTbEp6POw=="),
    "T2": base64.urlsafe_b64decode("T2-B4s3VTwiI5YHbPp6YUe=="),
    "T3": base64.urlsafe_b64decode("T3-CU8fVTLCz5YMkLoDQsa=="),
    "T4": base64.urlsafe_b64decode("T4-Tw9fVTLCz5HbPp6YQsa=="),
}
NAMES = {topic_id: name for name, topic_id in IDS.items()}


def wants(topics: str, had: str = "", **options: str) -> MemberSpec:
    owned = {}
    for part in had.split():
        name, _, numbers = part.partition(":")
        owned[IDS[name]] = frozenset(map(int, numbers.split(",")))
    return MemberSpec(frozenset(IDS[name] for name in topics.split()), owned, **options)


def counts(**partitions: int) -> dict[bytes, int]:
    return {IDS[name]: count for name, count in partitions.items()}


def shown(targets: Targets) -> dict[str, str]:
    return {
        member: " ".join(
            f"{name}:{','.join(map(str, sorted(partitions)))}"
            for name, partitions in sorted((NAMES[topic], p) for topic, p in target.items())
        )
        for member, target in targets.items()
    }


def uniform(members: Mapping[str, MemberSpec], **partitions: int) -> dict[str, str]:
    return shown(UNIFORM.assign(members, counts(**partitions)))


def ranged(members: Mapping[str, MemberSpec], **partitions: int) -> dict[str, str]:
    return shown(RANGE.assign(members, counts(**partitions)))


def again(members: Mapping[str, MemberSpec], targets: Targets) -> dict[str, MemberSpec]:
    return {member: spec._replace(owned=targets.get(member, {})) for member, spec in members.items()}


def test_default_server_assignor_is_uniform():
    assert list(SERVER_ASSIGNORS) == ["uniform", "range"]
    assert [assignor.name for assignor in SERVER_ASSIGNORS.values()] == ["uniform", "range"]


@pytest.mark.parametrize("assignor", SERVER_ASSIGNORS.values(), ids=SERVER_ASSIGNORS)
class TestBothAssignors:
    def test_server_assignor_returns_no_target_assignments_for_an_empty_group(self, assignor):
        assert assignor.assign({}, counts(T1=3)) == {}

    def test_server_assignor_assigns_no_partition_to_members_without_topics(self, assignor):
        assert assignor.assign({"A": wants(""), "B": wants("")}, counts(T1=3)) == {"A": {}, "B": {}}

    def test_server_assignor_raises_usage_error_for_a_missing_partition_count(self, assignor):
        with pytest.raises(UsageError, match=IDS["T2"].hex()):
            assignor.assign({"A": wants("T2")}, counts(T1=3))

    @pytest.mark.parametrize("b_wants", ["T1 T2 T3", "T2 T3"])
    def test_server_assignor_keeps_a_balanced_target_assignment_regardless_of_member_order(self, assignor, b_wants):
        members = {"A": wants("T1 T2 T3"), "B": wants(b_wants), "C": wants("T1 T2 T3")}
        partitions = counts(T1=2, T2=5, T3=7)
        first = assignor.assign(members, partitions)

        for order in itertools.permutations(members):
            second = assignor.assign(again({m: members[m] for m in order}, first), partitions)

            assert second == first
            assert all(second[m][topic] is first[m][topic] for m in members for topic in first[m])


class TestUniformEqualSubscriptions:
    def test_uniform_assignor_with_equal_subscriptions_fills_the_members_one_by_one(self):
        assert uniform({"A": wants("T1 T3"), "B": wants("T1 T3")}, T1=3, T3=2) == {"A": "T3:0,1", "B": "T1:0,1,2"}

    def test_uniform_assignor_treats_subscriptions_with_one_common_pattern_as_equal(self):
        of_all = {"A": wants("T1 T3", regex="T.*"), "B": wants("T1 T3", regex="T.*")}
        assert uniform(of_all, T1=3, T3=2) == {"A": "T3:0,1", "B": "T1:0,1,2"}

        both = {member: spec._replace(names=frozenset(["T1"])) for member, spec in of_all.items()}
        other = of_all | {"B": wants("T1 T3", regex="T+.*")}
        assert uniform(both, T1=3, T3=2) == uniform(other, T1=3, T3=2) == {"A": "T1:0,2", "B": "T1:1 T3:0,1"}

    def test_uniform_assignor_gives_no_partition_to_the_first_members_if_partitions_are_too_few(self):
        assert uniform(dict.fromkeys("ABC", wants("T3")), T3=2) == {"A": "", "B": "T3:0", "C": "T3:1"}

    def test_uniform_assignor_assigns_100_topics_evenly(self):
        topics = {bytes([7] * 15 + [i]): 3 for i in range(100)}
        found = UNIFORM.assign({f"member{i}": MemberSpec(frozenset(topics)) for i in range(49)}, topics)

        sizes = [sum(map(len, target.values())) for target in found.values()]
        assert sorted(set(sizes)) == [6, 7]
        assert sum(sizes) == 300
        assert len({(t, p) for target in found.values() for t, ps in target.items() for p in ps}) == 300

    def test_uniform_assignor_revokes_the_last_partitions_of_an_overloaded_member(self):
        members = {"A": wants("T1 T2", "T1:0,1 T2:0,1"), "B": wants("T1 T2", "T1:2 T2:2")}

        assert uniform(members, T1=3, T2=3) == {"A": "T1:0 T2:0,1", "B": "T1:1,2 T2:2"}

    def test_uniform_assignor_gives_new_partitions_to_least_loaded_members(self):
        members = {"A": wants("T1 T2", "T1:0,2 T2:0"), "B": wants("T1 T2", "T1:1 T2:1,2")}

        assert uniform(members, T1=6, T2=5) == {"A": "T1:0,2 T2:0,3,4", "B": "T1:1,3,4,5 T2:1,2"}

    def test_uniform_assignor_moves_one_partition_of_each_member_to_a_new_member(self):
        members = {"A": wants("T1 T2", "T1:0,2 T2:0"), "B": wants("T1 T2", "T1:1 T2:1,2"), "C": wants("T1 T2")}

        found = uniform(members, T1=3, T2=3)

        assert found == {"A": "T1:0 T2:0", "B": "T2:1,2", "C": "T1:1,2"}

    def test_uniform_assignor_divides_partitions_of_a_departed_member_among_the_others(self):
        members = {"A": wants("T1 T2", "T1:0 T2:0"), "B": wants("T1 T2", "T1:1 T2:1")}

        assert uniform(members, T1=3, T2=3) == {"A": "T1:0 T2:0,2", "B": "T1:1,2 T2:1"}

    def test_uniform_assignor_drops_an_unsubscribed_topic_from_the_targets(self):
        members = {"A": wants("T2", "T1:0 T2:0"), "B": wants("T2", "T1:1 T2:1")}

        assert uniform(members, T1=2, T2=2) == {"A": "T2:0", "B": "T2:1"}

    def test_uniform_assignor_moves_no_partition_if_partition_counts_differ_by_one(self):
        members = {"A": wants("T1", "T1:0"), "B": wants("T1", "T1:1"), "C": wants("T1", "T1:2,3")}

        assert uniform(members, T1=4) == {"A": "T1:0", "B": "T1:1", "C": "T1:2,3"}

    def test_uniform_assignor_ignores_deleted_and_doubly_assigned_partitions_in_the_previous_target(self):
        members = {"A": wants("T1", "T1:0,9"), "B": wants("T1", "T1:0,1")}

        assert uniform(members, T1=4) == {"A": "T1:0,2", "B": "T1:1,3"}


class TestUniformDifferentSubscriptions:
    def test_uniform_assignor_assigns_no_partition_to_a_member_without_topics(self):
        assert uniform({"A": wants("T1"), "B": wants("")}, T1=3) == {"A": "T1:0,1,2", "B": ""}

    def test_uniform_assignor_gives_the_sole_subscriber_of_a_topic_fewer_partitions_of_other_topics(self):
        found = uniform({"A": wants("T1 T3"), "B": wants("T3")}, T1=3, T3=6)

        assert found == {"A": "T1:0,1,2 T3:4", "B": "T3:0,1,2,3,5"}

    def test_uniform_assignor_for_mixed_subscriptions_gives_the_only_partition_of_a_topic_to_the_first_member(self):
        found = uniform({"A": wants("T3"), "B": wants("T3"), "C": wants("T1")}, T1=2, T3=1)

        assert found == {"A": "T3:0", "B": "", "C": "T1:0,1"}

    def test_uniform_assignor_for_mixed_subscriptions_moves_partitions_to_the_least_loaded_members(self):
        members = {
            "A": wants("T1", "T1:0,1,2"),
            "B": wants("T1 T2", "T1:3 T2:0"),
            "C": wants("T1 T2 T3", "T1:4,5 T2:1,2,3 T3:0,1,2,3"),
        }

        found = uniform(members, T1=6, T2=4, T3=4)

        assert found == {"A": "T1:0,1,2,5", "B": "T1:3 T2:0,1,2,3", "C": "T1:4 T3:0,1,2,3"}

    def test_uniform_assignor_for_mixed_subscriptions_gives_new_partitions_to_subscribers(self):
        members = {"A": wants("T1 T3", "T1:0,1,2,3 T3:0,1"), "B": wants("T1 T2 T3 T4", "T2:0,1,2 T4:0,1,2")}

        found = uniform(members, T1=6, T2=5, T3=3, T4=3)

        assert found == {"A": "T1:0,1,2,3,4,5 T3:0,1,2", "B": "T2:0,1,2,3,4 T4:0,1,2"}

    def test_uniform_assignor_for_mixed_subscriptions_gives_new_partitions_to_a_new_member(self):
        members = {"A": wants("T1", "T1:0,2 T2:0"), "B": wants("T1 T2", "T1:1 T2:1,2"), "C": wants("T1 T2")}

        found = uniform(members, T1=6, T2=7)

        assert found == {"A": "T1:0,2,3,4,5", "B": "T1:1 T2:1,2,6", "C": "T2:0,3,4,5"}

    def test_uniform_assignor_for_mixed_subscriptions_gives_a_departed_members_partitions_to_subscribers(self):
        members = {"A": wants("T1 T3", "T1:0,1,2 T3:0,1"), "B": wants("T2", "T2:3,4,5,6")}

        found = uniform(members, T1=3, T2=8, T3=3)

        assert found == {"A": "T1:0,1,2 T3:0,1,2", "B": "T2:0,1,2,3,4,5,6,7"}

    def test_uniform_assignor_compensates_a_member_for_partitions_of_an_unsubscribed_topic(self):
        members = {"A": wants("T1", "T1:0,2 T2:1,3"), "B": wants("T1 T2", "T1:1 T2:0,2,4")}

        assert uniform(members, T1=3, T2=5) == {"A": "T1:0,1,2", "B": "T2:0,1,2,3,4"}

    def test_uniform_assignor_for_mixed_subscriptions_skips_topics_without_movable_partitions(self):
        members = {"A": wants("T1 T2 T3", "T1:0,1 T2:0,1 T3:0,1"), "B": wants("T1 T2 T3"), "C": wants("")}

        found = uniform(members, T1=2, T2=2, T3=2)

        assert found == {"A": "T2:0 T3:0,1", "B": "T1:0,1 T2:1", "C": ""}


class TestRange:
    def test_server_range_assignor_co_partitions_topics_of_equal_subscriptions(self):
        found = ranged({"A": wants("T1 T3"), "B": wants("T1 T3")}, T1=3, T3=2)

        assert found == {"A": "T1:0,1 T3:0", "B": "T1:2 T3:1"}

    def test_server_range_assignor_divides_each_topic_among_its_subscribers(self):
        members = {"A": wants("T1 T2"), "B": wants("T3"), "C": wants("T2 T3")}

        found = ranged(members, T1=3, T2=3, T3=2)

        assert found == {"A": "T1:0,1,2 T2:0,1", "B": "T3:0", "C": "T2:2 T3:1"}

    def test_server_range_assignor_gives_the_last_members_no_partition_of_small_topics(self):
        found = ranged(dict.fromkeys("ABC", wants("T1 T3")), T1=3, T3=2)

        assert found == {"A": "T1:0 T3:0", "B": "T1:1 T3:1", "C": "T1:2"}

    def test_server_range_assignor_puts_static_members_in_order_of_instance_id_before_dynamic_members(self):
        members = {"A": wants("T1", instance_id="i-a"), "B": wants("T1"), "C": wants("T1", instance_id="i-c")}
        returned = {"Z": members["A"], "B": members["B"], "C": members["C"]}

        assert ranged(members, T1=5) == {"A": "T1:0,1", "C": "T1:2,3", "B": "T1:4"}
        assert ranged(returned, T1=5) == {"Z": "T1:0,1", "C": "T1:2,3", "B": "T1:4"}

    def test_server_range_assignor_ignores_previous_targets(self):
        members = {"A": wants("T1 T2", "T1:0,1 T2:0,1"), "B": wants("T1 T2", "T1:2 T2:2"), "C": wants("T1 T2")}

        assert ranged(members, T1=3, T2=3) == {"A": "T1:0 T2:0", "B": "T1:1 T2:1", "C": "T1:2 T2:2"}

    def test_server_range_assignor_gives_no_partition_to_the_last_members_if_partitions_are_too_few(self):
        members = {"A": wants("T1 T2", "T1:0 T2:0"), "B": wants("T1 T2", "T1:1 T2:1"), "C": wants("T1 T2")}

        assert ranged(members, T1=2, T2=2) == {"A": "T1:0 T2:0", "B": "T1:1 T2:1", "C": ""}

    def test_server_range_assignor_computes_a_new_assignment_after_subscriptions_change(self):
        members = {"A": wants("T1", "T1:0,1,2 T2:0"), "B": wants("T1 T2 T3", "T2:1"), "C": wants("T2", "T2:2 T3:0,1")}

        found = ranged(members, T1=3, T2=3, T3=2)

        assert found == {"A": "T1:0,1", "B": "T1:2 T2:0,1 T3:0,1", "C": "T2:2"}


class TestIteration:
    def test_member_ids_are_sorted_by_hash_bucket_and_keep_their_given_order_within_a_bucket(self):
        # "Aa" and "BB" have the same hash code in Java.
        assert in_member_order(["B", "BB", "A", "Aa"]) == ["BB", "Aa", "A", "B"]
        assert in_member_order(["Aa", "BB"]) == ["Aa", "BB"]

    def test_member_ids_in_one_slot_of_the_member_table_are_in_reverse_order(self):
        assert in_group_order(["Aa", "BB"]) == ["BB", "Aa"]

    def test_member_order_depends_on_the_maximum_member_count_so_far(self):
        assert in_group_order(["m0", "m2"]) == ["m2", "m0"]  # m0 and m2 share a slot in a table of four slots
        assert in_group_order(["m0", "m2"], 5) == [
            "m0",
            "m2",
        ]

    def test_partition_numbers_are_sorted_by_number_modulo_bucket_count(self):
        assert in_partition_order(frozenset(range(12, 20))) == [16, 17, 18, 19, 12, 13, 14, 15]

    def test_java_hash_set_of_12_elements_has_32_buckets(self):
        assert in_partition_order(frozenset(range(10, 22))) == list(range(10, 22))

    def test_topic_ids_are_compared_as_two_signed_numbers_as_in_java(self):
        low, high = b"\xff" + bytes(15), bytes(16)
        assert topic_rank(low) < topic_rank(high)

    def test_topic_ids_in_one_hash_bucket_keep_the_given_order(self):
        one, other = bytes(15) + b"\x10", bytes(15) + b"\x20"
        assert in_topic_order([other, one]) == [other, one]
        assert in_topic_order([one, other]) == [one, other]
        assert in_owned_order([other, one]) == [other, one]

    def test_uniform_assignor_places_new_topics_of_a_member_first_within_their_hash_bucket(self):
        one, other, third = (bytes(15) + bytes([n]) for n in (16, 32, 48))
        first = UNIFORM.assign({"A": MemberSpec(frozenset([one, other]))}, {one: 1, other: 1})
        assert list(first["A"]) == [other, one]

        then = UNIFORM.assign(
            {"A": MemberSpec(frozenset([one, other, third]), first["A"])}, dict.fromkeys([one, other, third], 1)
        )
        assert list(then["A"]) == [third, other, one]

    def test_uniform_assignor_revokes_the_last_topic_of_a_hash_bucket_first(self):
        one, other = bytes(15) + b"\x10", bytes(15) + b"\x20"
        members = {"A": MemberSpec(frozenset([one, other]), {other: frozenset([0, 1]), one: frozenset([0, 1])})}
        members["B"] = MemberSpec(frozenset([one, other]))

        assert UNIFORM.assign(members, {one: 2, other: 2}) == {"A": {other: {0, 1}}, "B": {one: {0, 1}}}

    def test_topic_names_are_sorted_by_hash_bucket_and_alphabetically_within_a_bucket(self):
        assert in_name_order(["b", "BB", "a", "Aa"]) == ["Aa", "BB", "a", "b"]
