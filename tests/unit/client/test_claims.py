"""Claimed partitions of a group with handlers, on a simulated broker: inboxes, slow handlers, marked offsets."""

from __future__ import annotations

import pytest

from kohort.client.partition_claims import INBOX, Claims
from kohort.errors import UsageError
from kohort.model import OffsetAndMetadata, Record
from support.machines.consumer_stage import ConsumerStage, User, tp

PATIENCE_MS = 100


def begun(stage: ConsumerStage, **options: object) -> tuple[User, Claims]:
    user = stage.user("t", group_id="g", enable_auto_commit=False, **options)
    user.alive = False  # only the loop below polls
    while not is_stable(user):
        user.machine.enter_poll(stage.now_ms)
        while user.machine.advance(stage.now_ms) is not None:
            user.machine.acknowledge(stage.now_ms)
        stage.loop.settle()
        stage.loop.run(50)
    return user, Claims(user.machine, PATIENCE_MS)


def is_stable(user: User) -> bool:
    assigned = user.machine.subscription.assigned
    return user.machine.group.rebalance.is_stable and all(s.has_position for s in assigned.values())


def taken(claims: Claims, partition: str) -> list[Record]:
    return claims.by_partition[tp(partition)].inbox.popleft().decode_records(check_crcs=True)


def fill(stage: ConsumerStage, claims: Claims, partition: str, first: int) -> int:
    topic, number = tp(partition)
    count = 0
    while claims.by_partition[tp(partition)].has_room:
        stage.produce(topic, number, b"%d" % (first + count))
        count += 1
        stage.loop.run_until(lambda: claims.has_work() or None)
        claims.feed(stage.now_ms)
    return count


def test_each_claimed_partition_has_its_own_inbox():
    stage = ConsumerStage()
    stage.topic("t", 2)
    _, claims = begun(stage)
    stage.produce("t", 0, b"a")
    stage.produce("t", 1, b"b")

    stage.loop.run_until(lambda: claims.has_work() or None)
    fed, freed = claims.feed(stage.now_ms)
    while len(fed) < 2:
        stage.loop.run_until(lambda: claims.has_work() or None)
        fed += claims.feed(stage.now_ms)[0]

    assert freed
    assert [r.value for r in taken(claims, "t-0")] == [b"a"]
    assert [r.value for r in taken(claims, "t-1")] == [b"b"]


def test_slow_handler_pauses_only_its_own_partition():
    stage = ConsumerStage()
    stage.topic("t", 2)
    user, claims = begun(stage)
    slow, quick = claims.by_partition[tp("t-0")], claims.by_partition[tp("t-1")]
    assert fill(stage, claims, "t-0", 0) == INBOX
    assert claims.wake_at_ms == stage.now_ms + PATIENCE_MS
    assert not slow.held

    stage.loop.run(PATIENCE_MS)
    claims.feed(stage.now_ms)

    assert slow.held
    assert claims.wake_at_ms is None
    stage.produce("t", 0, b"later")
    fill(stage, claims, "t-1", 0)
    assert not quick.held
    assert slow.state.fetch_offset <= INBOX + 1, "only the fetch in flight added records of the paused partition"

    assert [r.value for r in taken(claims, "t-0")] == [b"0"]
    assert claims.has_work()
    _, freed = claims.feed(stage.now_ms)
    assert freed
    assert not slow.held
    while slow.has_room:
        stage.loop.run_until(lambda: claims.has_work() or None)
        claims.feed(stage.now_ms)
    assert [r.value for r in taken(claims, "t-0") + taken(claims, "t-0")] == [b"1", b"later"]
    assert user.machine.subscription.assigned[tp("t-0")] is slow.state


def test_marked_offset_decreases_only_by_reset_and_is_committed_once():
    stage = ConsumerStage()
    stage.topic("t", 1)
    _, claims = begun(stage)
    record = Record("t", 0, 4, 0, None, None, leader_epoch=0)

    assert claims.to_commit() == {}
    claims.mark_record(record, "five")
    claims.mark(tp("t-0"), OffsetAndMetadata(3))
    assert claims.to_commit() == {tp("t-0"): OffsetAndMetadata(5, "five", 0)}
    claims.committed(claims.to_commit())
    assert claims.to_commit() == {}
    claims.reset(tp("t-0"), OffsetAndMetadata(2))
    assert claims.to_commit() == {tp("t-0"): OffsetAndMetadata(2)}


def test_mark_of_unassigned_partition_is_rejected():
    stage = ConsumerStage()
    stage.topic("t", 1)
    _, claims = begun(stage)

    with pytest.raises(UsageError, match="t-7 is not assigned to this group session"):
        claims.mark(tp("t-7"), OffsetAndMetadata(1))
    with pytest.raises(UsageError, match="offset -1 of t-0 is negative"):
        claims.reset(tp("t-0"), OffsetAndMetadata(-1))


def test_next_group_session_starts_at_marked_offsets():
    stage = ConsumerStage()
    stage.topic("t", 2)
    user, claims = begun(stage)
    stage.produce("t", 0, b"a", b"b", b"c")
    stage.produce("t", 1, b"x")
    while not all(c.inbox for c in claims.by_partition.values()):
        stage.loop.run_until(lambda: claims.has_work() or None)
        claims.feed(stage.now_ms)
    claims.mark_record(taken(claims, "t-0")[0], "")

    claims.put_back()

    assert [user.machine.subscription.assigned[tp(p)].position.offset for p in ("t-0", "t-1")] == [1, 0]
    stage.loop.run_until(lambda: all(s.fetchable for s in user.machine.subscription.assigned.values()) or None)
    again = Claims(user.machine, PATIENCE_MS)
    while not all(c.inbox for c in again.by_partition.values()):
        stage.loop.run_until(lambda: again.has_work() or None)
        again.feed(stage.now_ms)
    assert [r.value for r in taken(again, "t-0")] == [b"b", b"c"]
    assert [r.value for r in taken(again, "t-1")] == [b"x"]
