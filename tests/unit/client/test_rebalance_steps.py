"""Rebalances inside poll(), for both group protocols: when they can continue."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.client.group.membership import CallbackNeeded
from kohort.wire.messages.offsets import OffsetCommitRequest
from kohort_lab.machines.scripted import SILENCE
from support.machines.consumer_stage import User
from support.machines.scripted_coordinator import ScriptedCoordinator

LIMIT_MS = 8_000


@pytest.fixture
def stage() -> ScriptedCoordinator:
    return ScriptedCoordinator()


def member(stage: ScriptedCoordinator, protocol: str, **options: Any) -> User:
    if protocol == "classic":
        options |= {"session_timeout_ms": 60_000, "heartbeat_interval_ms": 20_000}
    stage.assign("t-0 t-1 t-2 t-3")
    user = stage.user("t", group_id="g", group_protocol=protocol, auto_commit_interval_ms=60_000, **options)
    stage.until(lambda: user.owned == "t-0 t-1 t-2 t-3" and user.machine.is_stable)
    return user


def give_up(stage: ScriptedCoordinator, user: User, protocol: str) -> None:
    if protocol == "classic":
        user.machine.enforce_rebalance("as a test")
    else:
        stage.assign("t-0")
        stage.loop.run_until(lambda: user.machine.group.rebalance.is_due)


PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@PROTOCOLS
def test_rebalance_is_not_due_during_callback(stage: ScriptedCoordinator, protocol: str):
    user = member(stage, protocol, enable_auto_commit="false")
    rebalance = user.machine.group.rebalance
    observed: list[tuple[str, bool, bool]] = []

    def observe(callback: CallbackNeeded) -> None:
        observed.append((callback.kind, rebalance.is_due, rebalance.is_stable))

    user.on_callback = observe
    assert (rebalance.is_due, rebalance.is_stable) == (False, True)
    give_up(stage, user, protocol)
    assert rebalance.is_due
    stage.until(lambda: user.machine.is_stable)

    assert observed == [("revoked", False, False), ("assigned", False, False)]


@PROTOCOLS
def test_rebalance_is_not_due_after_unsubscribe(stage: ScriptedCoordinator, protocol: str):
    user = member(stage, protocol, enable_auto_commit="false")

    stage.settled(user.leave())

    assert not user.machine.group.rebalance.is_due


@PROTOCOLS
def test_rebalance_is_due_when_its_offset_commit_is_complete(stage: ScriptedCoordinator, protocol: str):
    user = member(stage, protocol)
    rebalance = user.machine.group.rebalance
    stage.until(lambda: all(state.position is not None for state in user.machine.subscription.assigned.values()))
    give_up(stage, user, protocol)
    stage.loop.holding_answers = True
    user.poll()
    stage.loop.settle()
    assert len(stage.sent(OffsetCommitRequest)) == 1
    assert (rebalance.is_due, rebalance.is_stable) == (False, False), "the commit is in flight"

    stage.loop.release_answers()
    stage.loop.settle()

    assert (rebalance.is_due, rebalance.is_stable) == (True, False)


@PROTOCOLS
def test_unanswered_commit_delays_rebalance_for_max_poll_interval(stage: ScriptedCoordinator, protocol: str):
    user = member(stage, protocol, max_poll_interval_ms=LIMIT_MS)
    stage.until(lambda: all(state.position is not None for state in user.machine.subscription.assigned.values()))
    callback_count = len(user.callbacks)
    stage.then(OffsetCommitRequest, SILENCE)
    give_up(stage, user, protocol)
    stage.until(lambda: stage.sent(OffsetCommitRequest))
    stage.polls(LIMIT_MS - 50)

    stage.loop.run(49)
    user.poll()
    assert len(user.callbacks) == callback_count

    stage.loop.run(1)
    user.poll()
    assert user.callbacks[callback_count][0] == "revoked"
