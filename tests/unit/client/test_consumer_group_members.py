"""Consumer groups (KIP-848) against a simulated broker: join, leave, dead members, callbacks."""

from __future__ import annotations

import pytest

from kohort.errors import CommitFailed
from kohort.model import OffsetAndMetadata
from support.machines.consumer_stage import ConsumerStage, User, tp

SIX = [tp(f"t-{n}") for n in range(6)]


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.topic("t", 6)
    return stage


def member(stage: ConsumerStage, protocol: str = "consumer", **options: object) -> User:
    return stage.user("t", group_id="g", group_protocol=protocol, **options)


def shared(stage: ConsumerStage, *shares: int) -> bool:
    living = [u for u in stage.users if u.alive]
    owned = sorted(p for u in living for p in u.machine.subscription.assigned)
    sizes = sorted(len(u.machine.subscription.assigned) for u in living)
    return owned == SIX and sizes == sorted(shares) and all(u.machine.is_stable for u in living)


@pytest.mark.heavy
def test_three_members_share_partitions_and_take_over_from_dead_member(stage: ConsumerStage):
    first = member(stage)
    stage.until(lambda: shared(stage, 6))
    member(stage)
    stage.until(lambda: shared(stage, 3, 3))
    member(stage)
    stage.until(lambda: shared(stage, 2, 2, 2))

    first.die()
    died_at_ms = stage.now_ms
    stage.until(lambda: shared(stage, 3, 3), limit_ms=120_000)

    assert 39_000 <= stage.now_ms - died_at_ms <= 60_000, "session timeout 45 s, plus a heartbeat interval of 5 s"


def test_rebalance_revokes_only_moved_partitions(stage: ConsumerStage):
    first = member(stage)
    stage.until(lambda: shared(stage, 6))

    second = member(stage)
    stage.until(lambda: shared(stage, 3, 3))

    moved = second.owned
    assert first.callbacks == [("assigned", "t-0 t-1 t-2 t-3 t-4 t-5"), ("revoked", moved), ("assigned", "")]
    assert second.callbacks == [("assigned", ""), ("assigned", moved)]


def test_offsets_are_committed_before_revocation_so_no_record_is_read_twice(stage: ConsumerStage):
    for n in range(6):
        stage.produce("t", n, b"%d" % n)
    first = member(stage, auto_commit_interval_ms=3_600_000)
    stage.until(lambda: len(first.records) == 6)

    second = member(stage)
    stage.until(lambda: shared(stage, 3, 3))
    stage.produce("t", 0, b"more")
    stage.until(lambda: len(first.records) + len(second.records) == 7)
    stage.polls(3000)

    assert len(first.records) + len(second.records) == 7


def test_members_of_classic_and_consumer_protocol_share_one_group(stage: ConsumerStage):
    classic = member(stage, "classic", partition_assignment_strategy="cooperative-sticky")
    stage.until(lambda: shared(stage, 6))
    modern = member(stage)
    stage.until(lambda: shared(stage, 3, 3))

    stage.settled(classic.leave())
    stage.until(lambda: shared(stage, 6))

    assert modern.machine.group_metadata().generation_id > 1
    assert ("lost", modern.owned) not in modern.callbacks


def test_member_that_does_not_poll_is_removed_and_rejoins(stage: ConsumerStage):
    slow = member(stage, max_poll_interval_ms=8000)
    stage.until(lambda: shared(stage, 6))
    other = member(stage)
    stage.until(lambda: shared(stage, 3, 3))
    lost = slow.owned

    stage.until(lambda: len(other.machine.subscription.assigned) == 6, only=[other])
    with pytest.raises(CommitFailed):
        stage.settled(slow.machine.commit({tp(lost.split()[0]): OffsetAndMetadata(1)}, stage.now_ms + 1000))
    stage.until(lambda: shared(stage, 3, 3))

    assert ("lost", lost) in slow.callbacks


def test_static_member_gets_its_partitions_again_after_return(stage: ConsumerStage):
    member(stage)
    static = member(stage, group_instance_id="i")
    stage.until(lambda: shared(stage, 3, 3))
    before = static.owned
    stage.settled(static.leave())
    stage.polls(10_000)

    again = member(stage, group_instance_id="i")
    stage.until(lambda: again.owned == before)

    assert shared(stage, 3, 3)


def test_members_continue_after_broker_restart(stage: ConsumerStage):
    first, second = member(stage), member(stage)
    stage.until(lambda: shared(stage, 3, 3))
    before = (first.owned, second.owned, first.membership.generation)

    stage.restart()
    stage.polls(20_000)

    assert (first.owned, second.owned, first.membership.generation) == before
    assert shared(stage, 3, 3)
