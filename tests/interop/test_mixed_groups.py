"""One group of members of different clients that come and go: nothing is lost, nothing has two owners at one time."""

from __future__ import annotations

import uuid

import pytest

from kohort import Admin, TopicPartition
from support.peers.client_programs import program
from support.peers.stream import Stream
from support.processes.member_process import Member, end_all, eventually, share_everything, twice_owned

pytestmark = [pytest.mark.interop, pytest.mark.toolchain, pytest.mark.slow, pytest.mark.timeout(600)]
PARTITIONS = 12
EAGER = ["kohort", "confluent-oldest", "kafka-python", "java-newest", "aiokafka", "confluent-newest", "kohort"]
COOPERATIVE = ["kohort", "java-newest", "confluent-oldest", "kafka-python", "go-franz", "confluent-newest", "kohort"]


@pytest.mark.parametrize(("strategy", "clients"), [("range", EAGER), ("cooperative-sticky", COOPERATIVE)])
def test_members_of_all_clients_come_and_go_and_nothing_is_lost_or_owned_twice(ours, strategy, clients):
    topic = f"mixed-{uuid.uuid4().hex[:8]}"
    members, departed = [], []

    def settled() -> None:
        eventually(f"{len(members)} members own everything", lambda: share_everything(members, PARTITIONS))

    with Admin(bootstrap_servers=ours) as admin:
        admin.create_topics({topic: PARTITIONS})
        stream = Stream(ours, topic, PARTITIONS)
        try:
            for client in clients:
                members.append(Member(program(client), ours, topic, topic, strategy=strategy))
                eventually("the new member has something", lambda: members[-1].owns)
                settled()
            described = admin.describe_groups([topic])[topic]
            assert (described.state, described.assignor) == ("Stable", strategy)

            # The leader leaves, one is killed, another of ours comes, the next leaves.
            departed.append(members.pop(0))
            departed[-1].close()
            settled()
            departed.append(members.pop(1))
            departed[-1].kill()
            settled()
            members.append(Member(program("kohort"), ours, topic, topic, strategy=strategy))
            eventually("the new member has something", lambda: members[-1].owns)
            settled()
            departed.append(members.pop(0))
            departed[-1].close()
            settled()

            stream.stop()
            ends = {TopicPartition(topic, p): len(range(p, stream.sent, PARTITIONS)) for p in range(PARTITIONS)}
            expected = {(tp.partition, offset) for tp, end in ends.items() for offset in range(end)}
            everybody = [*members, *departed]
            eventually("everything is read", lambda: expected <= set().union(*(m.read for m in everybody)))
            for member in members:
                member.close()
                assert member.has_left, member.errors
            eventually("the group is empty", lambda: admin.describe_groups([topic])[topic].state == "Empty")
            assert {tp: at.offset for tp, at in admin.list_group_offsets(topic).items()} == ends
            assert twice_owned(everybody, PARTITIONS) == []
        finally:
            stream.stop()
            end_all([*members, *departed])
