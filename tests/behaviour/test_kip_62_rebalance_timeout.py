"""KIP-62: the rebalance timeout is the longest of the members, independent of session timeouts."""

import time

from kohort.errors import ErrorCode
from support.raw.broker_under_test import settle
from support.waiting import eventually


def test_member_that_misses_the_join_phase_expires_at_the_rebalance_timeout(broker):
    ann, ben, cal = (broker.member(broker.group(), rebalance_timeout_ms=3000) for _ in range(3))
    broker.stable(ann, ben)

    started = time.monotonic()
    cal.join()
    broker.await_state(ann.group, "PreparingRebalance")
    ann.start_join()
    assert ann.joined().generation_id == 3
    assert cal.joined().generation_id == 3
    assert time.monotonic() - started >= 2.9
    settle(ann, cal)

    assert {m.member_id for m in broker.describe(ann.group).members} == {ann.member_id, cal.member_id}
    assert ben.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_longest_rebalance_timeout_of_the_members_applies(broker):
    group = broker.group()
    ann = broker.member(group, rebalance_timeout_ms=200)
    ben = broker.member(group, rebalance_timeout_ms=2500)
    broker.stable(ann, ben)

    started = time.monotonic()
    ann.start_join()
    ann.joined()

    assert time.monotonic() - started >= 2.4
    assert ben.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_join_version_0_uses_the_session_timeout_for_rebalances(broker):
    group = broker.group()
    ann = broker.member(group, join_version=0, session_timeout_ms=3000)
    ben = broker.member(group, join_version=0, session_timeout_ms=3000)
    broker.stable(ann, ben)

    started = time.monotonic()
    broker.start_rebalance(ann)
    assert ben.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    ann.joined()

    assert time.monotonic() - started >= 2.9
    assert ben.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_parked_join_keeps_a_member_beyond_its_session_timeout(broker):
    group = broker.group()
    session_ms = broker.config("group.min.session.timeout.ms") * 4  # a slow machine may stall for a second
    ann = broker.member(group, session_timeout_ms=session_ms, rebalance_timeout_ms=session_ms * 2)
    ben = broker.member(group, session_timeout_ms=session_ms * 10, rebalance_timeout_ms=session_ms * 2)
    broker.stable(ann, ben)

    ann.start_join()

    assert ann.joined().generation_id == 3
    assert ann.heartbeat() == 0


def test_silent_member_expires_and_the_group_rebalances(broker):
    group = broker.group()
    session_ms = broker.config("group.min.session.timeout.ms") * 3
    ann, ben = broker.member(group), broker.member(group, session_timeout_ms=session_ms)
    broker.stable(ann, ben)

    started = time.monotonic()
    ben.wire.close()  # a connection's end means nothing: the session must run out
    eventually(ann.heartbeat, "the silent member was never expired")

    assert time.monotonic() - started >= session_ms / 1000 * 0.9
    assert ann.rejoin().generation_id == 3
    settle(ann)


def test_member_that_never_syncs_expires_at_the_rebalance_timeout(broker):
    group = broker.group()
    # As long as this is the group seen waiting for ann too: time enough on a slow machine.
    ann, ben = (broker.member(group, rebalance_timeout_ms=6000) for _ in range(2))
    broker.stable(ann, ben)
    broker.start_rebalance(ann, ben)
    ann.joined()
    ben.joined()
    plan = {ann.member_id: b"all"}
    assert ann.sync(plan).assignment == b"all"  # Stable, but ben does not ask for its share

    broker.await_state(group, "PreparingRebalance")

    assert ann.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert ben.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert ann.rejoin().generation_id == 4


def test_session_timeout_outside_of_its_bounds_is_rejected(broker):
    ann = broker.member(broker.group())
    low, high = (broker.config(f"group.{end}.session.timeout.ms") for end in ("min", "max"))

    for wrong in (low - 1, high + 1, -1):
        assert ann.refused_join(session_timeout_ms=wrong) == ErrorCode.INVALID_SESSION_TIMEOUT
    for right in (low, high):
        assert ann.refused_join(session_timeout_ms=right) == ErrorCode.MEMBER_ID_REQUIRED
