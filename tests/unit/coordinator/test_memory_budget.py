"""Memory limit for all groups together: ``group.coordinator.max.bytes``."""

import pytest

from kohort.coordinator.memory_budget import (
    GROUP_BYTES,
    MEASURE_EVERY_MS,
    MEASURED_AT_ONCE,
    Added,
    MemoryBudget,
)
from kohort.coordinator.offsets.groups import Groups
from kohort.errors import ErrorCode
from kohort.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.consumer_protocol import subscription
from support.machines.coordinator_stage import RANGE, CoordinatorStage, Topics, bytes_of

LARGE = [("range", bytes(200_000))]
LONG = "x" * 30_000
REFUSED = ErrorCode.COORDINATOR_NOT_AVAILABLE


def join_code(stage: CoordinatorStage, **options: object) -> int:
    return stage.answer(stage.join(**options)).error_code


def test_memory_limit_refuses_new_groups_and_serves_existing_ones():
    stage = CoordinatorStage(group_coordinator_max_bytes=30_000)
    (member,), generation = stage.stable(1)

    codes = [join_code(stage, group=f"g{i}") for i in range(100)]

    assert codes.index(ErrorCode.COORDINATOR_NOT_AVAILABLE) >= 2
    assert set(codes) == {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert stage.heartbeat(member, generation) == ErrorCode.NONE
    assert stage.commit({("t", 0): 5}, member_id=member, generation=generation) == [0]
    assert "group.coordinator.max.bytes" in stage.coordinator.take_notes()[0].text


def test_expired_member_ids_release_their_share_of_the_memory_limit():
    stage = CoordinatorStage(group_coordinator_max_bytes=30_000)
    codes = [join_code(stage, group=f"g{i}") for i in range(20)]
    assert codes[-1] == ErrorCode.COORDINATOR_NOT_AVAILABLE

    stage.advance(60_000 + MEASURE_EVERY_MS)  # the pending member ids have expired

    assert join_code(stage, group="new") == ErrorCode.MEMBER_ID_REQUIRED


def test_memory_limit_counts_member_metadata():
    stage = CoordinatorStage(group_coordinator_max_bytes=1_000_000)
    ids = [stage.answer(stage.join(group=f"g{i}", protocols=LARGE)).member_id for i in range(20)]
    assert all(ids), "each first JoinGroup leaves only a pending member id"

    codes = [join_code(stage, member_id=each, group=f"g{i}", protocols=LARGE) for i, each in enumerate(ids)]

    assert codes == [ErrorCode.NONE] * 4 + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 16


def test_memory_limit_refuses_offset_commits_to_new_groups():
    stage = CoordinatorStage(group_coordinator_max_bytes=10_000)
    codes = [stage.commit({("t", 0): 1}, group=f"g{i}")[0] for i in range(20)]

    assert codes[0] == 0
    assert codes[-1] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.commit({("t", 0): 2}, group="g0") == [0], "the group exists"


def test_coordinator_without_memory_limit_refuses_no_request():
    stage = CoordinatorStage(group_coordinator_max_bytes=-1)

    assert {join_code(stage, group=f"g{i}", protocols=RANGE) for i in range(100)} == {ErrorCode.MEMBER_ID_REQUIRED}


def test_memory_limit_counts_pending_member_ids_with_long_client_ids():
    stage = CoordinatorStage(group_coordinator_max_bytes=4_000_000)

    codes = [join_code(stage, client_id=LONG) for _ in range(20)]

    assert codes == [ErrorCode.MEMBER_ID_REQUIRED] * 8 + [REFUSED] * 12


def test_memory_limit_counts_long_group_and_instance_ids():
    stage = CoordinatorStage(group_coordinator_max_bytes=4_000_000)
    groups = [stage.commit({("t", 0): 1}, group=f"{LONG}{i}")[0] for i in range(20)]
    assert groups == [ErrorCode.NONE] * 8 + [REFUSED] * 12

    stage = CoordinatorStage(group_coordinator_max_bytes=4_000_000)
    joins = [stage.join(group=f"g{i}", instance_id=f"{LONG}{i}") for i in range(20)]
    assert [stage.answer(join).error_code for join in joins] == [ErrorCode.NONE] * 4 + [REFUSED] * 16


def test_memory_limit_counts_long_names_of_consumer_group_members():
    stage = CoordinatorStage(group_coordinator_max_bytes=4_000_000)

    codes = [stage.come(f"m{i}", client_id=LONG, group=f"g{i}").error_code for i in range(20)]

    assert codes == [ErrorCode.NONE] * 8 + [REFUSED] * 12


def test_memory_limit_counts_and_refuses_large_assignments_of_a_leader():
    stage = CoordinatorStage(group_coordinator_max_bytes=1_000_000)

    def sync_code(group: str) -> int:
        (member,), generation = stage.stable(1, group=group)
        join = stage.join(member, group=group, protocols=[("range", b"says something else")])
        generation = stage.answer(join).generation_id
        code: int = stage.answer(stage.sync(member, generation, {member: bytes(300_000)}, group=group)).error_code
        return code

    assert [sync_code(f"g{i}") for i in range(5)] == [ErrorCode.NONE] * 3 + [REFUSED] * 2


def test_memory_measurement_includes_growth_by_requests_that_the_limit_never_refuses():
    stage = CoordinatorStage(group_coordinator_max_bytes=400_000)
    new, protocols = REFUSED, [("range", bytes(16_000))]

    for group in (f"g{i}" for i in range(20)):
        stage.advance(MEASURE_EVERY_MS)
        joined = stage.answer(stage.join(group=group, version=3, session_ms=300_000))
        new, member = joined.error_code, joined.member_id
        if new == REFUSED:
            break
        again = stage.join(member, group=group, protocols=protocols, session_ms=300_000)
        generation = stage.answer(again).generation_id
        stage.sync(member, generation, {member: bytes(16_000)}, group=group)

    assert new == REFUSED, "20 groups would need 640,000 bytes"
    assert stage.coordinator.budget.at_most < 500_000


def test_memory_limit_refuses_txn_offset_commits_to_new_groups():
    stage = CoordinatorStage(group_coordinator_max_bytes=10_000)

    def commit_code(group: str) -> int:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        message = TxnOffsetCommitRequest(
            transactional_id="pump",
            group_id=group,
            producer_id=7,
            producer_epoch=0,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        code: int = stage.answer(stage.ask(message, 3)).topics[0].partitions[0].error_code
        return code

    codes = [commit_code(f"g{i}") for i in range(20)]

    assert codes[0] == ErrorCode.NONE
    assert codes[-1] == REFUSED
    assert commit_code("g0") == ErrorCode.NONE, "the group exists"


@pytest.mark.heavy
def test_offsets_of_an_existing_group_may_reach_twice_the_memory_limit():
    stage = CoordinatorStage(topics=Topics(t=10_000), group_coordinator_max_bytes=100_000)
    assert stage.commit({("t", 0): 1}) == [0]

    codes = [stage.commit({("t", partition): 1})[0] for partition in range(1_000)]

    assert 400 < codes.index(REFUSED) < 500, "400 bytes per offset"
    assert set(codes[codes.index(REFUSED) :]) == {REFUSED}
    assert stage.commit({("t", 0): 2, ("t", 1): 2}) == [0, 0], "the group may replace its own offsets"
    assert stage.coordinator.budget.at_most <= 200_000
    assert "twice" in stage.coordinator.take_notes()[0].text


@pytest.mark.heavy
def test_memory_limit_refuses_long_offset_metadata_and_serves_other_commits():
    stage = CoordinatorStage(topics=Topics(t=10_000), group_coordinator_max_bytes=1_000_000)
    (member,), generation = stage.stable(1)
    text, own = "x" * 4_000, {("t", 9_999): 1}
    assert stage.commit(own, member_id=member, generation=generation) == [0]

    codes = [stage.commit({("t", partition): 1}, group="s", metadata=text)[0] for partition in range(2_000)]

    assert 400 < codes.index(REFUSED) < 500, "4,400 bytes per offset"
    assert stage.commit(own, member_id=member, generation=generation) == [0]
    assert stage.heartbeat(member, generation) == 0
    assert stage.commit({("t", 0): 2}, group="s", metadata="y" * 4_000) == [0], (
        "the new metadata is as long as the replaced one"
    )
    assert stage.commit({("t", 1_999): 3}, group="s", metadata=text) == [REFUSED]


@pytest.mark.heavy
def test_memory_limit_counts_pending_offsets_until_the_transaction_ends():
    stage = CoordinatorStage(topics=Topics(t=10_000), group_coordinator_max_bytes=100_000)
    assert stage.commit({("t", 0): 1}, group="g0") == [0]

    def commit_code(partition: int, producer_id: int) -> int:
        request_partition = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=1, committed_metadata="x" * 600
        )
        message = TxnOffsetCommitRequest(
            transactional_id="pump",
            group_id="g0",
            producer_id=producer_id,
            producer_epoch=0,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[request_partition])],
        )
        code: int = stage.answer(stage.ask(message, 3)).topics[0].partitions[0].error_code
        return code

    codes = [commit_code(number % 50, 7 + number // 50) for number in range(1_000)]

    assert 150 < codes.index(REFUSED) < 250, "1,000 bytes per producer and partition"
    assert commit_code(0, 7) == ErrorCode.NONE, "the producer may replace its pending offset"
    groups = stage.coordinator.groups_in_partition_of("g0")
    assert groups is not None
    assert 180_000 < bytes_of(groups) <= 200_000


def test_memory_limit_refuses_repeated_small_growth_of_member_metadata():
    stage = CoordinatorStage(group_coordinator_max_bytes=100_000)
    joined = [stage.answer(stage.join(group=f"g{i}", version=3, session_ms=300_000)) for i in range(16)]
    members = [(f"g{i}", answer.member_id) for i, answer in enumerate(joined) if not answer.error_code]
    stage.advance(MEASURE_EVERY_MS)

    codes = [
        join_code(stage, member_id=member, group=group, protocols=[("range", bytes(16_000))], session_ms=300_000)
        for group, member in members
    ]

    assert codes[0] == ErrorCode.NONE
    assert codes[-1] == REFUSED
    assert all(stage.heartbeat(member, 1, group=group) != REFUSED for group, member in members)


def test_memory_measurement_includes_growth_during_the_measurement():
    groups, there = Groups(), 2 * MEASURED_AT_ONCE
    limit = GROUP_BYTES * there * 100
    budget = MemoryBudget(limit)
    groups.ensure("g", 0)
    groups.by_id.update({f"g{i}": groups.by_id["g"] for i in range(there - 1)})
    before = limit // 8
    assert budget.admit(Added(before), [groups], 0)

    assert budget.admit(Added(10), [groups], 0)
    assert budget.admit(Added(0, 200), [groups], 0)
    assert budget.at_most == before + 210
    assert budget.admit(Added(3_000), [groups], 0)

    assert budget.at_most == GROUP_BYTES * there + 3_210


def test_memory_measurement_of_many_groups_takes_several_steps():
    groups, there = Groups(), 2 * MEASURED_AT_ONCE
    limit = GROUP_BYTES * there * 4
    budget = MemoryBudget(limit)
    assert budget.admit(Added(limit), [groups], 0)
    groups.ensure("g", 0)
    groups.by_id.update({f"g{i}": groups.by_id["g"] for i in range(there - 1)})

    answers = [budget.admit(Added(GROUP_BYTES), [groups], MEASURE_EVERY_MS) for _ in range(3)]

    assert answers == [False, False, True], "the measurement is complete after the third step"
    assert budget.at_most == GROUP_BYTES * (there + 1)


LETTERS = 32_000
FIELDS_OF_A_MEMBER = {
    "rack": {"rack_id": "r" * LETTERS},
    "client id": {"client_id": "c" * LETTERS},
    "instance id": {"instance_id": "i" * LETTERS},
    "topic names": {"subscribed_topic_names": ["t" * LETTERS]},
    "expression": {"subscribed_topic_regex": "e" * 10_000},
}


@pytest.mark.parametrize("field", FIELDS_OF_A_MEMBER.values(), ids=FIELDS_OF_A_MEMBER.keys())
def test_memory_limit_counts_each_changed_field_of_a_consumer_group_member(field):
    stage = CoordinatorStage()
    stage.come("m1")
    before, size_before = stage.coordinator.budget.at_most, size_of(stage)

    assert stage.come("m1", **field).error_code == ErrorCode.NONE

    growth = size_of(stage) - size_before
    assert growth >= len(next(iter(field.values())))
    assert stage.coordinator.budget.at_most - before >= growth


@pytest.mark.parametrize("field", [{"client_id": "c" * LETTERS}, {"protocols": [("range", bytes(LETTERS))]}])
def test_memory_limit_counts_each_changed_field_of_a_classic_member(field):
    stage = CoordinatorStage()
    (member,), _ = stage.stable(1)
    before, size_before = stage.coordinator.budget.at_most, size_of(stage)

    stage.join(member, **field)

    assert stage.coordinator.budget.at_most - before >= size_of(stage) - size_before


def test_repeated_rack_changes_of_members_stay_within_the_memory_limit():
    limit = 4_000_000
    stage = CoordinatorStage(group_coordinator_max_bytes=limit)
    epochs = {f"m{i}": stage.come(f"m{i}", group=f"g{i}").member_epoch for i in range(20)}

    codes = [stage.beat(f"m{i}", epochs[f"m{i}"], group=f"g{i}", rack_id="r" * LETTERS).error_code for i in range(20)]

    assert codes == [ErrorCode.NONE] * 7 + [REFUSED] * 13
    assert size_of(stage) <= stage.coordinator.budget.at_most <= limit
    assert stage.beat("m19", epochs["m19"], group="g19").error_code == ErrorCode.NONE
    assert stage.beat("m0", epochs["m0"], group="g0", rack_id="s" * LETTERS).error_code == ErrorCode.NONE


def test_rejoining_static_member_is_accepted_at_the_memory_limit():
    stage = CoordinatorStage(group_coordinator_max_bytes=20_000)
    first = stage.come("m1", instance_id="i")
    stage.beat("m1", -2, instance_id="i")
    codes = [stage.come(f"o{i}", group=f"g{i}").error_code for i in range(10)]
    assert (first.error_code, codes[-1]) == (ErrorCode.NONE, REFUSED)

    assert stage.come("m2", instance_id="i").error_code == ErrorCode.NONE


def test_memory_limit_counts_topic_names_of_a_classic_join_to_a_consumer_group():
    stage = CoordinatorStage()
    stage.come("m1")
    names = [f"topic-{number}" for number in range(100)]
    protocols = [("range", subscription(*names))]
    member = stage.answer(stage.join(protocols=protocols)).member_id
    before, size_before = stage.coordinator.budget.at_most, size_of(stage)

    stage.join(member, protocols=protocols)

    assert size_of(stage) - size_before > 100 * 100
    assert stage.coordinator.budget.at_most - before >= size_of(stage) - size_before - 1_000, (
        "the bytes of partitions are not counted at the join"
    )


def size_of(stage: CoordinatorStage) -> int:
    return sum(bytes_of(groups) for _, groups in stage.coordinator.all_groups())
