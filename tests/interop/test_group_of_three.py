"""A group of three members per client on a served broker: join, kill, broker restart."""

import pytest

from kohort import Admin
from support.peers.client_programs import PYTHON_CLIENTS, STALLING_MEMBERS, as_line, program, run
from support.processes.member_process import Member, end_all, eventually
from support.processes.member_process import share_everything as shared
from support.processes.served_broker import Served

PARTITIONS = 6
SETTINGS = ("--set", "group.initial.rebalance.delay.ms=300")

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def produce_with(command, bootstrap, topic, values):
    """Send values with the client under test, spread over the partitions."""
    lines = [as_line(n % PARTITIONS, None, value, []) for n, value in enumerate(values)]
    assert len(run([*command, "produce", bootstrap, topic, "none"], "\n".join(lines))) == len(values)


def share_everything(members):
    return shared(members, PARTITIONS)


@pytest.mark.parametrize(
    "client",
    [pytest.param(c, marks=[pytest.mark.campaign] if c in STALLING_MEMBERS else []) for c in PYTHON_CLIENTS],
)
def test_three_members_survive_a_join_a_kill_and_a_restart(client, tmp_path):
    command = program(client)
    served = Served(*SETTINGS, data=tmp_path / "data")
    members = []
    try:
        with Admin(bootstrap_servers=served.bootstrap) as admin:
            admin.create_topics({"orders": PARTITIONS})
        values = [b"value %d" % i for i in range(120)]
        produce_with(command, served.bootstrap, "orders", values)

        # Two members share the partitions; a third joins and gets its part.
        members = [Member(command, served.bootstrap, "billing", "orders") for _ in range(2)]
        eventually("two members own everything", lambda: share_everything(members))
        members.append(Member(command, served.bootstrap, "billing", "orders"))
        eventually("three members own everything", lambda: share_everything(members) and all(m.owns for m in members))
        eventually("all records are read", lambda: sum(len(m.read) for m in members) >= len(values))

        # Kill one member: the others take over its partitions.
        members.pop(0).kill()
        eventually("the two that are left own everything", lambda: share_everything(members))

        # The broker is killed and comes back at the same address: records and group go on where they were.
        before = set().union(*(m.read for m in members))
        served.kill()
        served = Served(*SETTINGS, "--listen", served.bootstrap, data=tmp_path / "data")
        produce_with(command, served.bootstrap, "orders", values[:60])
        new_records = {(p, offset) for p in range(PARTITIONS) for offset in range(20, 30)}
        eventually("the new records are read", lambda: new_records <= set().union(*(m.read for m in members)) - before)

        # They commit and leave; the group remembers where it was.
        for member in members:
            member.close()
        with Admin(bootstrap_servers=served.bootstrap) as admin:
            committed = admin.list_group_offsets("billing")
        assert {tp.partition: at.offset for tp, at in committed.items()} == dict.fromkeys(range(PARTITIONS), 30)
    finally:
        end_all(members)
        served.kill()
