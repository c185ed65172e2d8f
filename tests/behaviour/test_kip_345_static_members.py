"""KIP-345: a restarted static member gets a new member id without a rebalance; its old process is fenced."""

import time

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import LeaveGroupRequest, MemberIdentity
from support.consumer_protocol import subscription
from support.raw.broker_under_test import settle

STICKY = ("sticky", b"s")


def restarted(broker, member, **options):
    fields = {"protocols": member.protocols, "instance_id": member.instance_id} | options
    return broker.member(member.group, **fields)


def leave(broker, group, *entries, version=5):
    answer = broker.ask(LeaveGroupRequest(group_id=group, members=list(entries)), version)
    assert answer.error_code == 0
    return [(m.member_id, m.group_instance_id, m.error_code) for m in answer.members]


def test_static_member_joins_in_one_step_with_a_member_id_of_its_instance_id(broker):
    ann = broker.member(broker.group(), instance_id="pod-1")
    broker.stable(ann)

    assert ann.member_id.startswith("pod-1-")
    (member,) = broker.describe(ann.group).members
    assert (member.member_id, member.group_instance_id) == (ann.member_id, "pod-1")


def test_restarted_static_member_keeps_generation_and_assignment(broker):
    group = broker.group()
    ann, ben = (broker.member(group, instance_id=i) for i in ("a", "b"))
    broker.stable(ann, ben)

    again = restarted(broker, ben)
    answer = again.rejoin()

    assert (answer.generation_id, answer.leader, answer.members) == (2, ann.member_id, [])
    assert again.member_id != ben.member_id
    assert broker.state(group) == "Stable"
    assert again.sync().assignment == ben.member_id.encode()
    assert ann.heartbeat() == 0


def test_replaced_static_member_is_fenced_in_every_api(broker):
    group, topic = broker.group(), broker.topic()
    ann, ben = (broker.member(group, instance_id=i) for i in ("a", "b"))
    broker.stable(ann, ben)
    restarted(broker, ben).rejoin()

    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert ben.heartbeat() == fenced
    assert ben.sync().error_code == fenced
    assert ben.commit(topic, {0: 1}) == [fenced]
    assert ben.refused_join() == fenced
    assert ben.leave().members[0].error_code == fenced
    assert ben.heartbeat(group_instance_id=None) == ErrorCode.UNKNOWN_MEMBER_ID


def test_parked_join_of_the_replaced_member_is_fenced(broker):
    group = broker.group()
    ann, ben = (broker.member(group, instance_id=i) for i in ("a", "b"))
    broker.stable(ann, ben)
    ben.protocols = [("range", subscription("other"))]
    ben.start_join()
    broker.await_state(group, "PreparingRebalance")

    again = restarted(broker, ben)
    again.start_join()

    assert ben.wire.take().error_code == ErrorCode.FENCED_INSTANCE_ID
    ann.start_join()
    assert (ann.joined().generation_id, again.joined().generation_id) == (3, 3)


def test_parked_sync_of_the_replaced_member_is_fenced(broker):
    group = broker.group()
    ann, ben = (broker.member(group, instance_id=i) for i in ("a", "b"))
    broker.stable(ann, ben)
    broker.start_rebalance(ann, ben)
    ann.joined()
    ben.joined()
    ben.start_sync()
    broker.await_earlier_requests(group)

    again = restarted(broker, ben)
    again.start_join()

    assert ben.wire.take().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ann.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    ann.start_join()
    assert (ann.joined().generation_id, again.joined().generation_id) == (4, 4)
    settle(ann, again)


def test_restart_with_another_selected_protocol_rebalances(broker):
    group = broker.group()
    ann = broker.member(group, instance_id="a", protocols=[("range", b"r"), STICKY])
    broker.stable(ann)

    again = restarted(broker, ann, protocols=[STICKY, ("range", b"r")])

    assert again.rejoin().generation_id == 2
    assert broker.state(group) == "CompletingRebalance"


def test_restart_with_the_same_selected_protocol_does_not_rebalance(broker):
    group = broker.group()
    ann = broker.member(group, instance_id="a", protocols=[("range", b"r"), STICKY])
    broker.stable(ann)

    again = restarted(broker, ann, protocols=[("range", b"another"), STICKY])

    assert again.rejoin().generation_id == 1
    assert broker.describe(group).members[0].member_metadata == b"another"


def test_silent_static_member_expires_with_its_session(broker):
    group = broker.group()
    session_ms = broker.config("group.min.session.timeout.ms") * 3  # it joins and syncs in time on a slow machine too
    ann = broker.member(group, instance_id="a", session_timeout_ms=session_ms)
    broker.stable(ann)

    broker.await_state(group, "Empty")

    assert ann.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_static_member_that_misses_a_rebalance_stays(broker):
    group = broker.group()
    ann = broker.member(group, instance_id="a", rebalance_timeout_ms=3000)
    ben = broker.member(group, instance_id="b", rebalance_timeout_ms=3000)
    broker.stable(ann, ben)

    started = time.monotonic()
    ann.protocols = [("range", subscription("more"))]
    members = {m.group_instance_id: m.metadata for m in ann.rejoin().members}

    assert time.monotonic() - started >= 2.9
    assert members == {"a": subscription("more"), "b": ben.protocols[0][1]}


def test_admin_removes_a_static_member_by_instance_id(broker):
    group = broker.group()
    ann, ben = (broker.member(group, instance_id=i) for i in ("a", "b"))
    broker.stable(ann, ben)

    assert leave(broker, group, MemberIdentity(member_id="", group_instance_id="b")) == [("", "b", 0)]

    assert ben.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert ann.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", [3, 4, 5])
def test_batch_leave_is_answered_per_entry(broker, version):
    group = broker.group()
    ann, ben, cal = (broker.member(group, instance_id=i) for i in ("a", "b", None))
    broker.stable(ann, ben, cal)

    entries = [
        MemberIdentity(member_id=ann.member_id, group_instance_id="a"),
        MemberIdentity(member_id="wrong", group_instance_id="b"),
        MemberIdentity(member_id="", group_instance_id="nobody"),
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id=cal.member_id),
        MemberIdentity(member_id=""),
    ]

    unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
    assert leave(broker, group, *entries, version=version) == [
        (ann.member_id, "a", 0),
        ("wrong", "b", fenced),
        ("", "nobody", unknown),
        ("nobody", None, unknown),
        (cal.member_id, None, 0),
        ("", None, unknown),
    ]
    assert ben.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_requests_with_an_unknown_instance_id_are_rejected(broker):
    ann = broker.member(broker.group())
    broker.stable(ann)

    assert ann.heartbeat(group_instance_id="ghost") == ErrorCode.UNKNOWN_MEMBER_ID
    assert ann.refused_join(group_instance_id="ghost") == ErrorCode.UNKNOWN_MEMBER_ID
