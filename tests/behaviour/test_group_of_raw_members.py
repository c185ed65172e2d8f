"""A group of three raw members: a late join, a session timeout, a leave."""

from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from support.raw.group_member import RawMember, committed
from support.raw.raw_client import RawClient
from support.waiting import eventually


def settle(*members: RawMember) -> None:
    for member in members:
        member.end_join()
    (leader,) = [m for m in members if m.leader]
    plan = {m.member_id: {"work": [i]} for i, m in enumerate(members)}
    for member in members:
        member.wire.send(member.sync_request(plan if member is leader else None), 5)
    assert [m.wire.take().error_code for m in members] == [0] * len(members)


def welcome(newcomer: RawMember, *present: RawMember) -> None:
    newcomer.start_join()
    for member in present:
        assert member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        member.start_join()
    settle(*present, newcomer)


def test_group_of_three_handles_join_expiry_and_leave(bootstrap):
    wires = [RawClient(bootstrap) for _ in range(3)]
    wires[0].create("work", 3)
    ann, ben = (RawMember(wire, "broker", ["work"], session_timeout_ms=30_000) for wire in wires[:2])
    cal = RawMember(wires[2], "broker", ["work"], session_timeout_ms=6_000)

    welcome(ann)
    welcome(ben, ann)
    welcome(cal, ann, ben)
    generation = cal.generation
    assert (ann.generation, ben.generation) == (generation, generation)
    assert cal.assigned() == [TopicPartition("work", 2)]
    assert (ann.commit("work", 0, 10), ben.commit("work", 1, 11), cal.commit("work", 2, 12)) == (0, 0, 0)

    cal.wire.close()  # as if killed: no LeaveGroup, no heartbeats
    eventually(ann.heartbeat, "the silent member was never expired", pause_s=0.1)

    ann.start_join()
    ben.start_join()
    settle(ann, ben)
    assert (ann.generation, ben.generation) == (generation + 1, generation + 1)
    assert set(ann.members) | set(ben.members) == {ann.member_id, ben.member_id}
    assert committed(ann.wire, "broker", "work", [0, 1, 2]) == {0: 10, 1: 11, 2: 12}

    assert ben.leave() == 0
    assert ann.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    ann.start_join()
    settle(ann)
    assert ann.generation == generation + 2
    for wire in wires:
        wire.close()
