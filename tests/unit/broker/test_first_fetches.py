"""Journal entries of first fetches after a rebalance."""

import random

import pytest

from kohort.broker.first_fetches import AWAITED_MOST, GROUPS_MOST, OF_GROUPS_MOST, FirstFetches
from kohort.broker.io import Stalled
from kohort.config import BrokerConfig
from kohort.coordinator.journal import (
    AssignmentWritten,
    ClientIdentity,
    GivenPartition,
    MemberReconciled,
    Move,
    RoundClosed,
    RoundOpened,
    Trigger,
)
from kohort.coordinator.journal_events import ResumedPartition
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.log.storage import MemoryStorage
from kohort.log.topics import Topics
from kohort.wire.messages.group_records import OffsetCommitValue
from support.machines.broker_stage import BrokerStage

A, B = ClientIdentity("a-1", "a", "/h"), ClientIdentity("b-1", "b", "/h")


@pytest.fixture
def topics():
    topics = Topics(MemoryStorage(), BrokerConfig(), random.Random(1), 0)
    topics.create("t", 3, {}, 0)
    return topics


@pytest.fixture
def first(topics):
    return FirstFetches(topics)


def nothing_committed(_group):
    return None


def generation(*moves, group="g", number=2, members=(A, B)):
    return [
        RoundOpened(at_ms=1, group=group, trigger=Trigger(event="member_left"), from_generation=number - 1,
                    members=members, timeout_ms=1),
        RoundClosed(at_ms=2, group=group, generation=number, members=members, leader="a-1", protocol_type="consumer",
                    protocol="range", took_ms=1),
        AssignmentWritten(at_ms=3, group=group, generation=number, took_ms=0, partitions=None,
                          moves=tuple(Move("t", p, before, after) for p, before, after in moves)),
    ]  # fmt: skip


def test_first_fetch_by_the_new_owner_of_a_partition_is_journaled_once_with_the_lag(first):
    offsets = GroupOffsets()
    offsets.put("t", 0, OffsetCommitValue(offset=0, metadata="", commit_timestamp=0))
    first.follow(generation((0, "a-1", "b-1"), (1, None, "b-1"), (2, "a-1", None)), lambda _group: offsets)

    assert first.fetched("a", "/h", [("t", 0, 5)], 9) == []
    assert first.fetched("b", "/other", [("t", 0, 5)], 9) == []
    (entry,) = first.fetched("b", "/h", [("t", 0, 0), ("t", 1, 0), ("t", 2, 0), ("u", 0, 0)], 9)

    assert (entry.at_ms, entry.group, entry.member, entry.generation) == (9, "g", B, 2)
    assert entry.partitions == (ResumedPartition("t", 0, 0, 0, 0), ResumedPartition("t", 1, 0, 0, None))
    assert first.fetched("b", "/h", [("t", 0, 1)], 10) == []
    assert not first


def test_first_fetch_of_a_partition_that_moved_twice_is_awaited_from_its_latest_owner(first):
    first.follow(generation((0, "a-1", "b-1")), nothing_committed)
    first.follow(generation((0, "b-1", "a-1"), number=3), nothing_committed)

    assert first.fetched("b", "/h", [("t", 0, 0)], 9) == []
    (entry,) = first.fetched("a", "/h", [("t", 0, 0)], 9)
    assert entry.generation == 3


def test_first_fetch_of_a_consumer_group_member_is_awaited(first):
    partitions = (GivenPartition("t", 2, 5), GivenPartition("gone", 7))
    entry = MemberReconciled(
        at_ms=1, group="m", member=B, epoch=4, from_epoch=3, target_epoch=4, state="stable", given=partitions
    )
    first.follow([entry], nothing_committed)

    (resumed,) = first.fetched("b", "/h", [("t", 2, 0), ("gone", 7, 3), ("t", -1, 0), ("t", 1 << 30, 0)], 9)

    assert [(p.topic, p.partition, p.lag) for p in resumed.partitions] == [("t", 2, 0), ("gone", 7, None)]


@pytest.mark.heavy
def test_number_of_partitions_that_await_their_first_fetch_is_limited(first):
    for number in range(3):
        moves = [(p, None, "a-1") for p in range(number * AWAITED_MOST, (number + 1) * AWAITED_MOST)]
        first.follow(generation(*moves, number=number + 2), nothing_committed)
    for i in range(GROUPS_MOST * 2):
        first.follow(generation(group=f"g{i}")[:2], nothing_committed)

    entries = first.fetched("a", "/h", [("t", p, 0) for p in range(3 * AWAITED_MOST)], 9)

    assert sum(len(entry.partitions) for entry in entries) == AWAITED_MOST


def test_number_of_stored_joining_members_is_limited_over_all_groups(first):
    crowd = tuple(ClientIdentity(f"m-{i}", "a", "/h") for i in range(OF_GROUPS_MOST // 2))
    for i in range(3):
        first.follow(generation((i, None, "m-1"), group=f"g{i}", members=crowd)[:2], nothing_committed)
    for i in range(3):
        first.follow(generation((i, None, "m-1"), group=f"g{i}", members=crowd)[2:], nothing_committed)

    entries = first.fetched("a", "/h", [("t", p, 0) for p in range(3)], 9)

    assert [entry.group for entry in entries] == ["g1", "g2"], "the members of group g0 were dropped"


def test_first_fetch_of_a_member_with_a_very_long_id_is_not_awaited(first):
    long = ClientIdentity("m-" + "x" * 30_000, "a", "/h")
    first.follow(generation((0, None, long.member_id), members=(long,)), nothing_committed)
    entry = MemberReconciled(
        at_ms=1, group="m", member=long, epoch=4, from_epoch=3, target_epoch=4, state="stable",
        given=(GivenPartition("t", 1, 5),),
    )  # fmt: skip
    first.follow([entry], nothing_committed)

    assert not first


def test_stalled_broker_is_logged():
    stage = BrokerStage()
    since_ms = stage.now_ms
    stage.clock.advance(5_000)
    stage.give(Stalled(since_ms))

    assert any("this broker stalled for 5.0 s" in line for line in stage.log_lines())
