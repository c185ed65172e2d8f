"""KIP-341: the coordinator passes metadata and assignments on unchanged."""

from support.consumer_protocol import subscription
from support.raw.broker_under_test import settle

OPAQUE = bytes(range(256)) * 4


def test_leader_gets_user_data_and_generation_of_every_member(broker):
    group = broker.group()
    ann, ben = (
        broker.member(group, protocols=[("sticky", subscription("t", user_data=b"generation-%d" % i + OPAQUE))])
        for i in range(2)
    )
    ann.join()
    ann.joined()
    ben.join()
    broker.await_state(group, "PreparingRebalance")
    ann.start_join()

    members = {m.member_id: m.metadata for m in ann.joined().members}

    assert members == {m.member_id: m.protocols[0][1] for m in (ann, ben)}
    assert ben.joined().members == []


def test_describe_returns_only_the_selected_protocols_metadata(broker):
    group = broker.group()
    ann = broker.member(group, protocols=[("sticky", subscription("s")), ("range", subscription("r"))])
    ben = broker.member(group, protocols=[("range", subscription("b"))])
    broker.stable(ann, ben)

    broker.start_rebalance(ann, ben)
    answer = ann.joined()

    assert {m.metadata for m in answer.members} == {subscription("r"), subscription("b")}
    assert answer.protocol_name == "range"


def test_assignments_reach_members_unchanged(broker):
    group = broker.group()
    ann, ben = broker.member(group), broker.member(group)
    ann.join()
    ann.joined()
    ben.join()
    broker.await_state(group, "PreparingRebalance")
    ann.start_join()
    ann.joined()
    ben.joined()

    settle(ann, ben, plan={ann.member_id: OPAQUE, ben.member_id: b"\x00\xff" * 500})

    described = {m.member_id: m.member_assignment for m in broker.describe(group).members}
    assert described == {ann.member_id: OPAQUE, ben.member_id: b"\x00\xff" * 500}
