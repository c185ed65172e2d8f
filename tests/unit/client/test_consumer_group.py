"""Classic groups against a simulated broker: join, leave, dead members, callbacks."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kohort.errors import ApiError, CommitFailed, ErrorCode, UsageError
from kohort.model import OffsetAndMetadata
from support.machines.consumer_stage import ConsumerStage, names, tp

EAGER = {"partition_assignment_strategy": "range"}
COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}


def covered(stage: ConsumerStage, topic: str, partitions: int) -> bool:
    owned = sorted(p for u in stage.users if u.alive for p in u.machine.subscription.assigned)
    return owned == [tp(f"{topic}-{i}") for i in range(partitions)]


def test_single_consumer_reads_all_records():
    stage = ConsumerStage()
    stage.topic("t", 2)
    stage.produce("t", 0, b"a", b"b")
    stage.produce("t", 1, b"c")
    user = stage.user("t", group_id="g")

    stage.until(lambda: len(user.records) == 3)

    assert sorted(user.values()) == [b"a", b"b", b"c"]
    assert user.callbacks == [("assigned", "t-0 t-1")]
    assert user.machine.lag() == {tp("t-0"): 0, tp("t-1"): 0}


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_three_consumers_share_partitions_and_take_over_from_dead_member(strategy: str):
    stage = ConsumerStage()
    stage.topic("t", 6)
    users = [stage.user("t", group_id="g", partition_assignment_strategy=strategy) for _ in range(2)]
    stage.until(lambda: covered(stage, "t", 6) and all(len(u.machine.subscription.assigned) == 3 for u in users))

    users.append(stage.user("t", group_id="g", partition_assignment_strategy=strategy))
    stage.until(lambda: covered(stage, "t", 6) and all(len(u.machine.subscription.assigned) == 2 for u in users))

    users[0].die()
    died_at_ms = stage.now_ms
    stage.until(lambda: covered(stage, "t", 6), limit_ms=120_000)

    assert 44_000 <= stage.now_ms - died_at_ms <= 52_000, "session timeout 45 s, plus a heartbeat interval of 3 s"


def test_eager_rebalance_revokes_all_partitions():
    stage = ConsumerStage()
    stage.topic("t", 4)
    first = stage.user("t", group_id="g", **EAGER)
    stage.until(lambda: first.owned == "t-0 t-1 t-2 t-3")

    second = stage.user("t", group_id="g", **EAGER)
    stage.until(lambda: covered(stage, "t", 4) and second.owned != "")

    assert first.callbacks == [
        ("assigned", "t-0 t-1 t-2 t-3"),
        ("revoked", "t-0 t-1 t-2 t-3"),
        ("assigned", first.owned),
    ]
    assert first.owned in ("t-0 t-1", "t-2 t-3"), "the member with the smaller member id gets the first partitions"


def test_cooperative_rebalance_revokes_only_moved_partitions():
    stage = ConsumerStage()
    stage.topic("t", 4)
    first = stage.user("t", group_id="g", **COOPERATIVE)
    stage.until(lambda: first.owned == "t-0 t-1 t-2 t-3")
    second = stage.user("t", group_id="g", **COOPERATIVE)

    stage.until(lambda: covered(stage, "t", 4) and second.owned != "")
    stage.polls(5000)

    assert first.callbacks[:3] == [("assigned", "t-0 t-1 t-2 t-3"), ("revoked", "t-2 t-3"), ("assigned", "")]
    assert second.callbacks == [("assigned", ""), ("assigned", "t-2 t-3")]
    assert all(kind != "lost" for user in stage.users for kind, _ in user.callbacks)


def test_cooperative_member_reads_during_rebalance():
    stage = ConsumerStage()
    stage.topic("t", 2)
    first, slow = (stage.user("t", group_id="g", **COOPERATIVE) for _ in range(2))
    stage.until(lambda: covered(stage, "t", 2) and first.owned and slow.owned)
    owned = first.owned
    third = stage.user("t", group_id="g", **COOPERATIVE)
    stage.polls(10_000, only=[first, third])
    assert first.membership.state.name == "PREPARING_REBALANCE"

    stage.produce("t", tp(owned).partition, b"meanwhile")
    stage.until(lambda: b"meanwhile" in first.values(), only=[first, third])

    assert first.owned == owned
    assert first.membership.state.name == "PREPARING_REBALANCE"


def test_leaving_member_releases_its_partitions_at_once():
    stage = ConsumerStage()
    stage.topic("t", 2)
    first, second = (stage.user("t", group_id="g", **COOPERATIVE) for _ in range(2))
    stage.until(lambda: covered(stage, "t", 2) and first.owned and second.owned)
    leave_ms = stage.now_ms

    stage.settled(first.leave())
    stage.until(lambda: second.owned == "t-0 t-1")

    assert stage.now_ms - leave_ms < 4000, "the next heartbeat reports the rebalance"
    assert first.callbacks[-1][0] == "revoked"
    assert first.owned == ""


def test_positions_are_committed_before_partitions_move():
    stage = ConsumerStage()
    stage.topic("t", 2)
    first = stage.user("t", group_id="g", **EAGER)
    stage.until(lambda: first.owned == "t-0 t-1")
    stage.produce("t", 0, *[b"x%d" % i for i in range(10)])
    stage.produce("t", 1, *[b"y%d" % i for i in range(10)])
    stage.until(lambda: len(first.records) == 20)
    second = stage.user("t", group_id="g", **EAGER)

    stage.until(lambda: covered(stage, "t", 2) and second.owned != "")
    stage.polls(3000)

    assert second.records == []
    assert len(first.records) == 20


def test_listener_can_commit_during_revocation():
    stage = ConsumerStage()
    stage.topic("t", 2)
    first = stage.user("t", group_id="g", enable_auto_commit="false", **EAGER)
    stage.produce("t", 0, b"a", b"b", b"c")
    stage.until(lambda: len(first.records) == 3)
    results: list[object] = []

    def commit(callback) -> None:
        if callback.kind == "revoked":
            promise = first.machine.commit({tp("t-0"): OffsetAndMetadata(2, "by hand")}, stage.now_ms + 1000)
            stage.loop.run_until(lambda: promise.done)
            results.append(promise.result())

    first.on_callback = commit
    second = stage.user("t", group_id="g", **EAGER)
    stage.until(lambda: covered(stage, "t", 2) and second.owned != "")

    assert results == [{tp("t-0"): OffsetAndMetadata(2, "by hand")}]
    found = stage.settled(second.machine.committed([tp("t-0"), tp("t-1")], stage.now_ms + 1000))
    assert found == {tp("t-0"): OffsetAndMetadata(2, "by hand"), tp("t-1"): None}


def test_restarted_consumer_resumes_at_committed_offset():
    stage = ConsumerStage()
    stage.topic("t", 1)
    stage.produce("t", 0, *[b"%d" % i for i in range(10)])
    first = stage.user("t", group_id="g", enable_auto_commit="false")
    stage.until(lambda: len(first.records) == 10)
    stage.settled(first.machine.commit({tp("t-0"): OffsetAndMetadata(7)}, stage.now_ms + 1000))
    stage.settled(first.leave())
    first.die()

    second = stage.user("t", group_id="g")
    stage.until(lambda: len(second.records) == 3)

    assert second.values() == [b"7", b"8", b"9"]


def test_auto_commit_commits_records_returned_by_earlier_polls():
    stage = ConsumerStage()
    stage.topic("t", 1)
    user = stage.user("t", group_id="g", auto_commit_interval_ms=1000)
    stage.produce("t", 0, b"a", b"b")
    stage.until(lambda: len(user.records) == 2)

    stage.polls(1500)

    found = stage.settled(user.machine.committed([tp("t-0")], stage.now_ms + 1000))
    assert found[tp("t-0")].offset == 2


def test_consumer_leaves_after_max_poll_interval_and_rejoins_at_next_poll():
    stage = ConsumerStage()
    stage.topic("t", 2)
    options = {"max_poll_interval_ms": 10_000, "session_timeout_ms": 9000, **COOPERATIVE}
    busy, other = (stage.user("t", group_id="g", **options) for _ in range(2))
    stage.until(lambda: covered(stage, "t", 2) and busy.owned and other.owned)
    owned = busy.owned

    stage.until(lambda: other.owned == "t-0 t-1", only=[other])

    assert busy.membership.state.name == "UNJOINED"
    assert busy.owned == owned, "the listener was not called yet"
    busy.callbacks.clear()
    stage.until(lambda: covered(stage, "t", 2) and busy.owned != "")
    assert busy.callbacks[0] == ("lost", owned)


def test_commit_after_lost_membership_fails():
    stage = ConsumerStage()
    stage.topic("t", 1)
    user = stage.user("t", group_id="g", max_poll_interval_ms=10_000, session_timeout_ms=9000)
    stage.until(lambda: user.owned == "t-0")
    stage.loop.run(20_000)

    promise = user.machine.commit({tp("t-0"): OffsetAndMetadata(0)}, stage.now_ms + 1000)
    with pytest.raises(CommitFailed, match=r"no longer a member .* max\.poll\.interval\.ms"):
        stage.settled(promise)


def test_max_poll_interval_excludes_time_inside_poll():
    stage = ConsumerStage()
    stage.topic("t", 1)
    user = stage.user("t", group_id="g", max_poll_interval_ms=10_000, session_timeout_ms=9000)
    stage.until(lambda: user.owned == "t-0")

    user.machine.enter_poll(stage.now_ms)
    stage.loop.run(60_000)

    assert user.membership.state.name == "STABLE"


def test_group_leader_starts_rebalance_when_topic_gets_more_partitions():
    stage = ConsumerStage()
    stage.topic("t", 1)
    user = stage.user("t", group_id="g", metadata_max_age_ms=5000)
    stage.until(lambda: user.owned == "t-0")

    stage.broker.state.topics.add_partitions("t", 3)
    stage.until(lambda: user.owned == "t-0 t-1 t-2", limit_ms=10_000)


def test_changed_subscription_makes_the_member_rejoin():
    stage = ConsumerStage()
    stage.topic("t", 1)
    stage.topic("u", 1)
    user = stage.user("t", group_id="g", **COOPERATIVE)
    stage.until(lambda: user.owned == "t-0")

    user.machine.subscribe(["u"])
    stage.until(lambda: user.owned == "u-0")

    assert user.callbacks == [("assigned", "t-0"), ("revoked", "t-0"), ("assigned", "u-0")]


def test_pattern_subscription_includes_topics_created_later():
    stage = ConsumerStage()
    stage.topic("flights.jfk", 1)
    stage.topic("weather", 1)
    user = stage.user(group_id="g", metadata_max_age_ms=5000, **COOPERATIVE)
    user.machine.subscribe(re.compile(r"flights\..*"))
    stage.until(lambda: user.owned == "flights.jfk-0")

    generation = user.membership.generation.generation_id
    stage.topic("flights.lga", 1)
    stage.until(lambda: user.owned == "flights.jfk-0 flights.lga-0", limit_ms=15_000)
    stage.polls(15_000)

    assert user.membership.generation.generation_id == generation + 1, "one new topic causes one rebalance"
    assert user.callbacks == [("assigned", "flights.jfk-0"), ("assigned", "flights.lga-0")]


def test_group_continues_after_broker_restart():
    stage = ConsumerStage()
    stage.topic("t", 2)
    users = [stage.user("t", group_id="g", **COOPERATIVE) for _ in range(2)]
    stage.until(lambda: covered(stage, "t", 2) and all(u.owned for u in users))
    before = [u.owned for u in users]
    generation = users[0].membership.generation

    stage.restart()
    stage.produce("t", 0, b"after")
    stage.until(lambda: any(b"after" in u.values() for u in users))

    assert [u.owned for u in users] == before
    assert users[0].membership.generation == generation, "the restarted coordinator has loaded the members"


def test_static_member_returns_without_a_rebalance():
    stage = ConsumerStage()
    stage.topic("t", 2)
    stays = stage.user("t", group_id="g", group_instance_id="i1", **EAGER)
    goes = stage.user("t", group_id="g", group_instance_id="i2", **EAGER)
    stage.until(lambda: covered(stage, "t", 2) and goes.owned == "t-1")
    stage.settled(goes.leave())
    goes.die()
    stays.callbacks.clear()

    returns = stage.user("t", group_id="g", group_instance_id="i2", **EAGER)
    stage.until(lambda: returns.owned == "t-1")
    stage.polls(10_000)

    assert stays.callbacks == []


def test_second_member_with_same_instance_id_fences_first_member():
    stage = ConsumerStage()
    stage.topic("t", 1)
    first = stage.user("t", group_id="g", group_instance_id="i")
    stage.until(lambda: first.owned == "t-0")
    second = stage.user("t", group_id="g", group_instance_id="i")
    stage.until(lambda: second.owned == "t-0", only=[second])

    with pytest.raises(ApiError) as caught:
        stage.until(lambda: False, 10_000)

    assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_subscribe_and_assign_cannot_be_combined():
    stage = ConsumerStage()
    user = stage.user("t", group_id="g")

    with pytest.raises(UsageError, match=r"subscribed to topics: call unsubscribe\(\) before changing to partitions"):
        user.machine.subscription.assign([tp("t-0")])

    user.leave()
    user.machine.subscription.assign([tp("t-0")])
    with pytest.raises(UsageError, match="before changing to a pattern"):
        user.machine.subscribe(re.compile("x"))


def test_subscribe_without_group_id_is_rejected():
    stage = ConsumerStage()
    user = stage.user()

    with pytest.raises(UsageError, match=r"no group\.id"):
        user.machine.subscribe(["t"])


def test_manually_assigned_partitions_are_read_without_a_group():
    stage = ConsumerStage()
    stage.topic("t", 2)
    stage.produce("t", 1, b"a")
    user = stage.user()
    user.machine.subscription.assign([tp("t-1")])

    stage.until(lambda: user.values() == [b"a"])

    assert names(user.machine.subscription.assigned) == "t-1"


def test_offsets_of_manual_assignment_can_be_committed():
    stage = ConsumerStage()
    stage.topic("t", 1)
    stage.produce("t", 0, b"a", b"b")
    user = stage.user(group_id="g", enable_auto_commit="false")
    user.machine.subscription.assign([tp("t-0")])
    stage.until(lambda: len(user.records) == 2)

    stage.settled(user.machine.commit(None, stage.now_ms + 1000))

    found = stage.settled(user.machine.committed([tp("t-0")], stage.now_ms + 1000))
    assert found[tp("t-0")].offset == 2


def test_offset_reset_by_duration_starts_at_first_record_within_duration():
    stage = ConsumerStage()
    stage.topic("t", 1)
    stage.produce("t", 0, b"old")
    stage.loop.run(3_600_000)
    stage.produce("t", 0, b"new")
    user = stage.user("t", group_id="g", auto_offset_reset="by_duration:PT10M")

    stage.until(lambda: user.records)
    assert user.values() == [b"new"]


def test_due_rebalance_wakes_waiting_poll():
    stage = ConsumerStage()
    stage.topic("t", 2)
    first = stage.user("t", group_id="g", **EAGER)
    stage.until(lambda: first.owned == "t-0 t-1")
    assert not first.machine.needs_user

    second = stage.user("t", group_id="g", **EAGER)
    stage.until(lambda: first.machine.needs_user, only=[second])
    assert first.membership.rejoin_reason == "group is already rebalancing"


def test_membership_lost_by_late_poll_is_logged():
    stage = ConsumerStage()
    stage.topic("t", 1)
    user = stage.user("t", group_id="g", max_poll_interval_ms=10_000)
    stage.until(lambda: user.owned == "t-0")
    assert list(user.notes_besides_resets()) == []

    stage.loop.run(11_000)

    note = next(user.notes_besides_resets()).text
    assert note.startswith("the member left group 'g': consumer poll timeout has expired")
    stage.until(lambda: user.callbacks[-1] == ("assigned", "t-0") and len(user.callbacks) > 1)
    assert [kind for kind, _ in user.callbacks] == ["assigned", "lost", "assigned"]


def test_consumer_with_stable_assignment_creates_no_work_for_request_engine():
    stage = ConsumerStage()
    stage.topic("t", 2)
    stage.produce("t", 0, b"a")
    user = stage.user("t", group_id="g", enable_auto_commit="false", **COOPERATIVE)
    machine = user.machine
    assert not machine.is_quiet, "the member must join"

    stage.until(lambda: user.values() == [b"a"] and machine.is_quiet)

    machine.commit(None, None)
    assert not machine.is_quiet, "a commit waits to be sent"
    stage.until(lambda: machine.is_quiet)

    membership: Any = machine.group.membership
    membership.request_rejoin("the test says so")
    assert not machine.is_quiet, "a rejoin is due"
    stage.until(lambda: machine.is_quiet)

    machine.subscription.assign_from_group([tp("t-0")])
    assert not machine.is_quiet, "the request engine has not seen the assignment"
