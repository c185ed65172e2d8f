"""Reconciliations between polls, with lost membership and unsubscribe."""

from __future__ import annotations

import pytest

from kohort.client.group.member_states import ConsumerMemberState
from kohort.errors import ErrorCode
from kohort.wire.messages.offsets import OffsetCommitRequest
from kohort_lab.machines.scripted import SILENCE
from support.machines.consumer_stage import User, tp
from support.machines.scripted_coordinator import INTERVAL_MS, Heartbeat, ScriptedCoordinator, owned_of

E = ErrorCode
S = ConsumerMemberState


@pytest.fixture
def stage() -> ScriptedCoordinator:
    return ScriptedCoordinator()


def gives_up_what_it_has_read(stage: ScriptedCoordinator, **options: object) -> User:
    user = stage.joined(**options)
    stage.until(lambda: len(user.records) == 10)
    stage.then(OffsetCommitRequest, *[E.COORDINATOR_LOAD_IN_PROGRESS] * 1000)
    stage.assign("t-1")
    stage.until(lambda: user.machine.subscription.assigned[tp("t-0")].pending_revocation)
    return user


def test_rebalance_ends_when_on_partitions_assigned_has_run(stage: ScriptedCoordinator):
    user = stage.member()
    rebalances = user.machine.metrics.rebalances
    user.poll()
    stage.loop.run_until(lambda: user.membership.state is S.RECONCILING)
    stage.loop.settle()
    assert rebalances.began_ms is not None
    stage.then(Heartbeat, SILENCE)

    user.poll()
    stage.loop.run(1_000)

    assert rebalances.began_ms is None
    assert rebalances.latency.summary(stage.now_ms).total_count == 1


def test_assignment_is_not_owned_before_next_poll(stage: ScriptedCoordinator):
    user = stage.joined()
    stage.then(Heartbeat, E.NONE, E.COORDINATOR_LOAD_IN_PROGRESS)  # after an error the heartbeat has all fields
    stage.assign("t-0 t-1")
    stage.loop.run_until(lambda: user.membership.state is S.RECONCILING)
    assert user.machine.needs_user, "poll() must handle the new assignment"
    before = len(stage.beats)

    stage.loop.run(2 * INTERVAL_MS)

    assert [owned_of(r) for r in stage.beats[before:]][:2] == [None, "t-0"]


def test_next_target_assignment_waits_for_acknowledgement(stage: ScriptedCoordinator):
    stage.hidden = {"u"}
    stage.assign("t-0 u-0")
    user = stage.member(["t", "u"], metadata_max_age_ms=1_000, request_timeout_ms=10_000)
    user.poll()
    stage.loop.run_until(lambda: user.membership.state is S.RECONCILING)
    stage.then(Heartbeat, SILENCE)
    stage.until(lambda: user.owned == "t-0" and len(stage.beats) == 2)

    stage.hidden = set()
    stage.polls(8_000)
    assert user.owned == "t-0", "u-0 waits: the heartbeat that acknowledges t-0 has no response"

    stage.until(lambda: user.owned == "t-0 u-0")
    assert user.callbacks == [("assigned", "t-0"), ("assigned", "u-0")]


def test_completed_reconciliation_needs_no_further_poll(stage: ScriptedCoordinator):
    user = stage.joined()
    stage.until(lambda: len(user.records) == 10)
    assert not user.machine.needs_user

    stage.assign("t-1")
    stage.until(lambda: user.owned == "t-1" and user.membership.is_stable)

    assert not user.machine.needs_user


def test_pending_commit_blocks_reconciliation_unless_membership_is_lost(stage: ScriptedCoordinator):
    user = gives_up_what_it_has_read(stage, retry_backoff_ms=30_000, retry_backoff_max_ms=30_000)
    stage.loop.settle()
    assert not user.machine.needs_user

    stage.then(Heartbeat, E.FENCED_MEMBER_EPOCH)
    stage.loop.run_until(lambda: user.membership.state is S.FENCED)

    assert user.machine.needs_user, "on_partitions_lost does not wait for the commit"
    user.poll()
    assert user.callbacks[-1] == ("lost", "t-0")


def test_unsubscribe_during_reconciliation_drops_its_callbacks(stage: ScriptedCoordinator):
    user = stage.joined(enable_auto_commit="false")
    stage.assign("t-1")
    stage.loop.run_until(lambda: user.membership.state is S.RECONCILING)
    user.machine.enter_poll(stage.now_ms)
    assert user.machine.advance(stage.now_ms) is not None, "on_partitions_revoked of t-0 is due"
    stage.settled(user.leave())
    assert user.callbacks[-1] == ("revoked", "t-0")
    user.alive = True
    user.callbacks.clear()

    user.machine.subscribe(["t"])
    stage.until(lambda: user.owned == "t-1" and user.membership.is_stable)

    assert user.callbacks == [("assigned", "t-1")]
