"""Bytes that groups, members and offsets add to the total that the memory limit checks."""

import pytest

from kohort.coordinator.memory_budget import Added, MemoryBudget, sizes_of
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.records import OffsetCommitted
from kohort.coordinator.replay import replay
from kohort.errors import ErrorCode
from kohort.wire.messages.group_records import OffsetCommitValue
from support.machines.coordinator_stage import CoordinatorStage, Topics, bytes_of


def taken(codes: list[int]) -> int:
    return [*codes, ErrorCode.COORDINATOR_NOT_AVAILABLE].index(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def commits(stage: CoordinatorStage, metadata: str | None = None, offsets: int = 1) -> list[int]:
    at = {("t", partition): 1 for partition in range(offsets)}
    return [stage.commit(at, group=f"g{i}", metadata=metadata)[0] for i in range(5)]


def joins(stage: CoordinatorStage, version: int) -> list[int]:
    protocols = [("range", b"12345")]
    return [stage.answer(stage.join(group=f"g{i}", version=version, protocols=protocols)).error_code for i in range(5)]


def arrivals(stage: CoordinatorStage) -> list[int]:
    return [stage.come(f"m{i}", "t", group=f"g{i}").error_code for i in range(5)]


KINDS = {
    "group with one offset": (commits, 3_400),
    "group with two offsets": (lambda stage: commits(stage, offsets=2), 3_800),
    "offset with five letters of metadata": (lambda stage: commits(stage, "12345"), 3_405),
    "offset with Cyrillic metadata": (lambda stage: commits(stage, "йцук"), 3_416),
    "pending member id": (lambda stage: joins(stage, 9), 3_500),
    "classic member": (lambda stage: joins(stage, 3), 4_510),
    "consumer-protocol member": (arrivals, 4_601),
}


@pytest.mark.parametrize(("ask", "size"), KINDS.values(), ids=KINDS.keys())
def test_memory_limit_accepts_exactly_the_groups_that_fit(ask, size):
    exact, less = (CoordinatorStage(group_coordinator_max_bytes=limit) for limit in (3 * size, 3 * size - 1))
    assert (taken(ask(exact)), taken(ask(less))) == (3, 2)


def test_memory_limit_counts_a_replaced_offset_once():
    stage = CoordinatorStage(group_coordinator_max_bytes=1_000_000)
    stage.commit({("t", 0): 1}, metadata="12345")
    so_far = stage.coordinator.budget.at_most

    stage.commit({("t", 0): 2}, metadata="1234567")
    assert stage.coordinator.budget.at_most == so_far + 2
    stage.commit({("t", 0): 3}, metadata="1")
    assert stage.coordinator.budget.at_most == so_far + 2
    stage.commit({("t", 1): 1})
    assert stage.coordinator.budget.at_most == so_far + 2 + 400


def test_memory_limit_does_not_count_an_existing_group_again_for_its_first_offset():
    stage = CoordinatorStage(group_coordinator_max_bytes=1_000_000)
    (a,), generation = stage.stable(1)
    so_far = stage.coordinator.budget.at_most

    stage.commit({("t", 0): 1}, member_id=a, generation=generation)

    assert stage.coordinator.budget.at_most == so_far + 400


def test_memory_of_groups_is_measured_when_it_has_grown_by_an_eighth_of_the_limit():
    budget = MemoryBudget(800)
    looked: list[str] = []

    def all_groups():
        looked.append("there")
        yield Groups()

    assert budget.admit(Added(100), all_groups(), 0)
    assert (budget.at_most, looked) == (100, [])
    assert budget.admit(Added(1), [Groups()], 0)
    assert budget.at_most == 1, "the group of the first request no longer exists"


def test_memory_measurement_costs_1_per_classic_member_2_per_consumer_member_and_1_per_20_offsets():
    stage = CoordinatorStage(offsets_topic_num_partitions=1)
    stage.stable(3, group="classic")
    stage.come("m1", group="modern")
    stage.come("m2", group="modern")
    stage.topics.make("many", 45)
    stage.commit({("many", partition): 1 for partition in range(45)}, group="offsets")

    groups = stage.coordinator.groups_in_partition_of("g")

    assert groups is not None
    efforts = [effort for _, effort in sizes_of(groups)]
    assert sorted(efforts) == sorted([1 + 45 // 20, 1 + 3, 1 + 0, 1 + 2 * 2])
    assert sum(size for size, _ in sizes_of(groups)) == bytes_of(groups)


@pytest.mark.parametrize(("letters", "size"), [(100, 3_400), (101, 3_416)])
def test_memory_limit_counts_no_extra_bytes_for_names_up_to_100_letters(letters, size):
    stage = CoordinatorStage()
    stage.commit({("t", 0): 1}, group="g" * letters)
    assert stage.coordinator.budget.at_most == size


def test_memory_limit_counts_offsets_with_their_metadata():
    stage = CoordinatorStage()
    stage.commit({("t", 0): 1, ("t", 1): 1, ("u", 0): 1}, metadata="12345")

    groups = stage.coordinator.groups_in_partition_of("g")

    assert groups is not None
    assert bytes_of(groups) == 3_000 + 3 * (400 + 5)


def test_memory_limit_counts_pending_offsets_with_their_metadata():
    groups = Groups()
    groups.ensure("g", 0)
    value = OffsetCommitValue(offset=1, metadata="12345")
    for partition in (0, 1):
        replay(groups, OffsetCommitted("g", "t", partition, value), 0, producer_id=7)
    assert bytes_of(groups) == 3_000 + 2 * (400 + 5)

    replay(groups, OffsetCommitted("g", "t", 1, OffsetCommitValue(offset=2)), 0)

    assert bytes_of(groups) == 3_000 + (400 + 5) + 400 + 400, "the second pending offset is replaced, without metadata"


@pytest.mark.parametrize(
    ("names", "size"),
    [
        ({"group": 100, "member_id": 100, "client_id": 100, "instance_id": 100, "rack_id": 100}, 0),
        ({"group": 101}, 16),
        ({"member_id": 102}, 32),
        ({"client_id": 103}, 48),
        ({"instance_id": 104}, 64),
        ({"rack_id": 105}, 80),
        ({"group": 101, "member_id": 101, "client_id": 101, "instance_id": 101, "rack_id": 101}, 80),
    ],
)
def test_memory_limit_counts_each_long_name_of_a_consumer_group(names, size):
    usual = dict.fromkeys(("group", "member_id", "client_id", "instance_id", "rack_id"), 1)
    stage = CoordinatorStage(topics=Topics(), offsets_topic_num_partitions=1)

    answer = stage.come(**{name: "x" * letters for name, letters in (usual | names).items()})

    assert answer.error_code == ErrorCode.NONE
    groups = stage.coordinator.groups_in_partition_of("g")
    assert groups is not None
    assert bytes_of(groups) == 3_000 + 1_500 + 100 + 1 + size, "one subscribed topic name of one letter"


def test_memory_limit_counts_each_refused_request_once():
    stage = CoordinatorStage(group_coordinator_max_bytes=3 * 3_400)
    commits(stage)
    assert stage.coordinator.budget.refused == 2


def test_memory_limit_counts_partitions_and_pattern_matches_of_consumer_groups():
    sizes = {}
    for regex, partitions in ((None, 1), (None, 3), ("t.*", 1)):
        stage = CoordinatorStage(topics=Topics(t=partitions), group_consumer_assignment_interval_ms=0)
        stage.come("m", subscribed_topic_names=[] if regex else ["t"], subscribed_topic_regex=regex)
        stage.beat("m", 2 if regex is None else 1)
        groups = stage.coordinator.groups_in_partition_of("g")
        assert groups is not None
        sizes[regex, partitions] = bytes_of(groups)
        subscription_bytes = 3 if regex else 1 + 100  # letters of the pattern, or the topic name with its overhead
        match_bytes = 100 + 500 + 3 + 8 if regex else 0  # matched topic name, pattern, list of matches
        assert sizes[regex, partitions] == 3_000 + 1_500 + subscription_bytes + match_bytes + 150 + 400 * partitions
