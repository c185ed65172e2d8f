"""Transaction markers that commit or abort offsets of several groups."""

import pytest

from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import GroupOffsets, PendingOffsets
from kohort.coordinator.records import OffsetCommitted, TransactionEnded
from kohort.coordinator.replay import replay, replay_end
from kohort.wire.messages.group_records import OffsetCommitValue
from support.machines.coordinator_stage import CoordinatorStage

PRODUCER = 7


def groups_with(*group_ids: str) -> Groups:
    groups = Groups()
    for group_id in group_ids:
        replay(groups, OffsetCommitted(group_id, "t", 0, OffsetCommitValue(offset=5)), 0, PRODUCER)
    return groups


def offset_of(groups: Groups, group_id: str) -> int | None:
    offsets = groups.offsets.get(group_id)
    value = None if offsets is None else offsets.get("t", 0)
    return None if value is None else value.offset


@pytest.mark.parametrize("deleted", ["a", "b", "c"])
@pytest.mark.parametrize(("committed", "offset"), [(True, 5), (False, None)])
def test_transaction_marker_applies_to_other_groups_despite_a_deleted_group(deleted, committed, offset):
    groups = groups_with("a", "b", "c")
    replay(groups, OffsetCommitted(deleted, "t", 0, None), 0)
    assert deleted not in groups.offsets

    had = replay_end(groups, TransactionEnded(PRODUCER, committed))

    assert had == ["a", "b", "c"]
    assert {group_id: offset_of(groups, group_id) for group_id in "abc"} == {
        group_id: None if group_id == deleted else offset for group_id in "abc"
    }
    assert groups.open == {}


def test_offset_committed_after_the_deletion_of_its_group_is_kept():
    groups = groups_with("a", "b")
    replay(groups, OffsetCommitted("a", "t", 0, None), 0)
    replay(groups, OffsetCommitted("a", "t", 0, OffsetCommitValue(offset=9)), 0)

    replay_end(groups, TransactionEnded(PRODUCER, True))

    assert (offset_of(groups, "a"), offset_of(groups, "b")) == (9, 5)


def test_ended_transaction_has_no_pending_offsets():
    groups = groups_with("a")
    replay(groups, OffsetCommitted("a", "t", 1, OffsetCommitValue(offset=1)), 0)

    replay_end(groups, TransactionEnded(PRODUCER, False))

    offsets = groups.offsets["a"]
    assert offsets.pending is None
    assert not offsets.is_blank
    assert not offsets.is_pending("t", 0)


def test_deletable_partitions_are_distinct_and_those_with_only_a_pending_offset_come_last():
    groups = groups_with("a")
    for partition in (1, 0):
        replay(groups, OffsetCommitted("a", "t", partition, OffsetCommitValue(offset=1)), 0)
    for place in (("u", 1), ("u", 0), ("t", 1)):
        replay(groups, OffsetCommitted("a", *place, OffsetCommitValue(offset=2)), 0, PRODUCER)

    offsets = groups.offsets["a"]
    assert list(offsets.deletable()) == [("t", 1), ("t", 0), ("u", 0), ("u", 1)]
    assert len(offsets) == 2


def test_group_with_a_pending_offset_does_not_count_as_a_group_without_offsets():
    offsets = GroupOffsets()
    assert offsets.is_blank
    assert not offsets.is_pending("t", 0)

    offsets.pending = PendingOffsets()
    offsets.pending.put(PRODUCER, "t", 0, OffsetCommitValue(offset=1))

    assert not offsets.is_blank
    assert offsets.is_pending("t", 0)
    assert not offsets.is_pending("t", 1)
    offsets.remove("t", 0)
    assert offsets.is_blank


def test_transaction_abort_drops_pending_offsets_of_two_groups():
    stage = CoordinatorStage(offsets_topic_num_partitions=1)
    partition = stage.coordinator.partition_of("a")
    assert partition == stage.coordinator.partition_of("b") == 0
    stage.commit({("t", 0): 1}, group="a")

    stage.end_transaction(PRODUCER, commit=False, group="a")

    assert stage.coordinator.committed("a") is not None


def test_offsets_of_different_partitions_may_be_pending_in_two_transactions():
    pending = PendingOffsets()
    pending.put(PRODUCER, "t", 0, OffsetCommitValue(offset=1))
    pending.put(PRODUCER + 1, "u", 0, OffsetCommitValue(offset=1))

    assert [pending.holds(topic, 0) for topic in ("t", "u", "v")] == [True, True, False]
