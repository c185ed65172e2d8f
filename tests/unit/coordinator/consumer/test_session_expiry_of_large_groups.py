"""Sessions of many members that expire simultaneously. The coordinator removes the members in several ticks."""

from __future__ import annotations

import pytest

from kohort.coordinator.journal import EpochRaised
from kohort.coordinator.outcome import TimerKey
from kohort.coordinator.runtime import Coordinator
from kohort.errors import StorageError
from support.calls import calls_of
from support.machines.coordinator_stage import GROUP, CoordinatorStage
from support.machines.written_groups import epochs, member, write

SESSION_MS = 45_000


def loaded(members: int, *, classic: int = 0) -> CoordinatorStage:
    stage = CoordinatorStage()
    names = [f"m{number:04}" for number in range(members)]
    write(stage, epochs(5), *(member(name, 5) for name in names))
    write(stage, *(member(f"classic-{number}", 5, classic=True) for number in range(classic)))
    stage.coordinator.take_journal()
    return stage


def unchecked(stage: CoordinatorStage) -> Coordinator:
    stage.coordinator.check = None
    return stage.coordinator


def members_of(coordinator: Coordinator) -> list[str]:
    groups = coordinator.groups_in_partition_of(GROUP)
    assert groups is not None
    group = groups.consumer.get(GROUP)
    return [] if group is None else list(group.members)


def test_session_timers_of_1000_members_fire_in_several_ticks_in_order():
    stage = loaded(1_000)
    coordinator, names = stage.coordinator, members_of(stage.coordinator)
    stage.clock.advance(SESSION_MS)
    unchecked(stage)
    removed_per_tick = []

    while (remaining := members_of(coordinator)) and coordinator.wake_at_ms == stage.now:
        coordinator.tick(stage.now)
        removed_per_tick.append(len(remaining) - len(members_of(coordinator)))

    assert sum(removed_per_tick) == 1_000
    assert all(0 < removed <= 150 for removed in removed_per_tick)
    causes = [entry.cause for entry in coordinator.take_journal() if isinstance(entry, EpochRaised)]
    assert [cause.member.member_id for cause in causes] == names
    assert {cause.event for cause in causes} == {"session_expired"}


def test_heartbeat_is_answered_between_two_ticks_of_session_timers():
    stage = loaded(400)
    unchecked(stage)
    stage.clock.advance(SESSION_MS)
    stage.coordinator.tick(stage.now)
    last = members_of(stage.coordinator)[-1]

    answer = stage.beat(last, 5)

    assert answer.error_code == 0
    assert members_of(stage.coordinator) == [last], "its heartbeat renewed the session before the timer fired"


@pytest.mark.heavy
@pytest.mark.parametrize("classic", [0, 1], ids=["no classic member", "one classic member"])
def test_cost_of_an_expired_session_is_the_same_in_a_group_ten_times_as_large(classic):
    def cost(members: int) -> int:
        stage = loaded(members, classic=classic)
        coordinator = unchecked(stage)
        stage.clock.advance(SESSION_MS)
        (first, *_) = members_of(coordinator)
        for key in coordinator.timers_of(GROUP):
            if key != TimerKey("member_session", GROUP, first):
                coordinator.timers.cancel((coordinator.partition_of(GROUP), key))
        calls = calls_of(lambda: coordinator.tick(stage.now))
        assert first not in members_of(coordinator)
        return calls

    assert cost(500) <= cost(50) + 5


def test_removal_of_expired_members_is_retried_after_a_failed_append():
    stage = loaded(300)
    coordinator = unchecked(stage)
    stage.clock.advance(SESSION_MS)
    stage.refuse_with = StorageError("disk is full")
    while coordinator.wake_at_ms == stage.now:
        coordinator.tick(stage.now)
    assert len(members_of(coordinator)) == 300

    stage.refuse_with = None
    stage.clock.advance(500)
    while coordinator.wake_at_ms == stage.now:
        coordinator.tick(stage.now)

    assert members_of(coordinator) == []
    assert coordinator.timers_of(GROUP) == []
