"""What is remembered for the journal alone does not keep the long names that strangers make up."""

import tracemalloc
from contextlib import contextmanager

from kohort.coordinator.journal import RequestFenced, Who
from kohort.coordinator.journal_events import MemberMetrics
from kohort.coordinator.journal_evidence import DepartedMembers, MetricsByMember, NonMemberCommitters
from kohort.errors import ErrorCode
from support.machines.coordinator_stage import CoordinatorStage

COUNT = 200
HELD_LITTLE = 1_000_000
"""Bytes; the names of all would be 6 MB."""


def made_up(number: int) -> str:
    return f"{number:x>30000}"


@contextmanager
def holding_little():
    tracemalloc.start()
    try:
        yield
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < HELD_LITTLE


def test_who_pushed_who_left_and_who_commits_is_not_remembered_by_long_names():
    said, leavers, committers = MetricsByMember(), DepartedMembers(), NonMemberCommitters()

    with holding_little():
        for i in range(COUNT):
            who = Who("m", made_up(i), "/h")
            said.add(str(i), who, MemberMetrics(at_ms=1))
            leavers.add(i, "g", who, 1)
            committers.should_journal("g", who, 1, backwards=False)

    assert not committers.should_journal("g", Who("m", made_up(1), "/h"), 2, backwards=False), "one like it was told of"
    assert leavers.closed(1, 2) is None
    assert said.of(Who("m", made_up(1), "/h")) is None


def test_who_was_fenced_is_told_apart_by_the_beginning_of_its_id():
    stage = CoordinatorStage(group_initial_rebalance_delay_ms=0)
    stage.stable(1)

    codes = {stage.heartbeat(made_up(1)[::-1] + "a", 1), stage.heartbeat(made_up(1)[::-1] + "b", 1)}

    assert codes == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert len(stage.entries(RequestFenced)) == 1


def test_of_a_long_name_three_hundred_letters_tell_who_it_is():
    committers, who = NonMemberCommitters(), Who("m", "app", "/h")
    assert committers.should_journal("g" * 300 + "a", who, 1, backwards=False)

    assert not committers.should_journal("g" * 300 + "b", who, 2, backwards=False)
    assert committers.should_journal("g" * 299 + "b", who, 2, backwards=False)
