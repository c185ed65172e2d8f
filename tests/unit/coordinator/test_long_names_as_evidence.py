"""The coordinator keeps no long names of unauthenticated clients for journal entries."""

import tracemalloc
from contextlib import contextmanager

from kohort.coordinator.journal import ClientIdentity, RequestFenced
from kohort.coordinator.journal_events import MemberMetrics
from kohort.coordinator.journal_evidence import DepartedMembers, MetricsByMember, NonMemberCommitters
from kohort.errors import ErrorCode
from support.machines.coordinator_stage import CoordinatorStage

COUNT = 200
TRACED_BYTES_MAX = 1_000_000


def made_up(number: int) -> str:
    return f"{number:x>30000}"


@contextmanager
def holding_little():
    tracemalloc.start()
    try:
        yield
        traced_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert traced_bytes < TRACED_BYTES_MAX


def test_clients_with_long_names_are_not_recorded_for_the_journal():
    metrics, leavers, committers = MetricsByMember(), DepartedMembers(), NonMemberCommitters()

    with holding_little():
        for i in range(COUNT):
            who = ClientIdentity("m", made_up(i), "/h")
            metrics.add(str(i), who, MemberMetrics(at_ms=1))
            leavers.add(i, "g", who, 1)
            committers.should_journal("g", who, 1, backwards=False)

    assert not committers.should_journal("g", ClientIdentity("m", made_up(1), "/h"), 2, backwards=False), (
        "a client with the same first letters was journaled"
    )
    assert leavers.closed(1, 2) is None
    assert metrics.of(ClientIdentity("m", made_up(1), "/h")) is None


def test_fenced_members_whose_long_ids_begin_with_the_same_letters_share_one_journal_entry():
    stage = CoordinatorStage(group_initial_rebalance_delay_ms=0)
    stage.stable(1)

    codes = {stage.heartbeat(made_up(1)[::-1] + "a", 1), stage.heartbeat(made_up(1)[::-1] + "b", 1)}

    assert codes == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert len(stage.entries(RequestFenced)) == 1


def test_journal_cuts_names_of_assignors_and_clients_at_300_letters():
    committers, member = NonMemberCommitters(), ClientIdentity("m", "app", "/h")
    assert committers.should_journal("g" * 300 + "a", member, 1, backwards=False)

    assert not committers.should_journal("g" * 300 + "b", member, 2, backwards=False)
    assert committers.should_journal("g" * 299 + "b", member, 2, backwards=False)
