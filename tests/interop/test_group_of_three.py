"""A group of three of each client on a served broker: one joins, one is killed, the broker restarts, all goes on."""

import pytest
from member_process import PYTHON_CLIENTS, Member, end_all, eventually
from member_process import share_everything as shared
from served import Served

from kohort import Admin, Producer

PARTITIONS = 6
SETTINGS = ("--set", "group.initial.rebalance.delay.ms=300")

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def produce_with(client, bootstrap, topic, values):
    """Send values with the client under test, spread over the partitions."""
    if client == "confluent":
        from confluent_kafka import Producer as Confluent

        producer = Confluent({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        for i, value in enumerate(values):
            producer.produce(topic, value, partition=i % PARTITIONS)
        assert producer.flush(30) == 0
    elif client == "kafka-python":
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=bootstrap)
        for sent in [producer.send(topic, v, partition=i % PARTITIONS) for i, v in enumerate(values)]:
            sent.get(30)
        producer.close()
    elif client == "aiokafka":
        import asyncio

        from aiokafka import AIOKafkaProducer

        async def run():
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
            await producer.start()
            await asyncio.gather(
                *[await producer.send(topic, v, partition=i % PARTITIONS) for i, v in enumerate(values)]
            )
            await producer.stop()

        asyncio.run(run())
    else:
        with Producer(bootstrap_servers=bootstrap) as producer:
            for sent in [producer.send(topic, v, partition=i % PARTITIONS) for i, v in enumerate(values)]:
                sent.result(30_000)


def share_everything(members):
    return shared(members, PARTITIONS)


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_three_members_survive_a_join_a_kill_and_a_restart(client, tmp_path):
    served = Served(*SETTINGS, data=tmp_path / "data")
    members = []
    try:
        with Admin(bootstrap_servers=served.bootstrap) as admin:
            admin.create_topics({"orders": PARTITIONS})
        values = [b"value %d" % i for i in range(120)]
        produce_with(client, served.bootstrap, "orders", values)

        # Two members share the partitions; a third joins and gets its part.
        members = [Member(PYTHON_CLIENTS[client], served.bootstrap, "billing", "orders") for _ in range(2)]
        eventually("two members own everything", lambda: share_everything(members))
        members.append(Member(PYTHON_CLIENTS[client], served.bootstrap, "billing", "orders"))
        eventually("three members own everything", lambda: share_everything(members) and all(m.owns for m in members))
        eventually("all records are read", lambda: sum(len(m.read) for m in members) >= len(values))

        # One is killed: the others take over what it had.
        members.pop(0).kill()
        eventually("the two that are left own everything", lambda: share_everything(members))

        # The broker is killed and comes back at the same address: records and group go on where they were.
        before = set().union(*(m.read for m in members))
        served.kill()
        served = Served(*SETTINGS, "--listen", served.bootstrap, data=tmp_path / "data")
        produce_with(client, served.bootstrap, "orders", values[:60])
        news = {(p, offset) for p in range(PARTITIONS) for offset in range(20, 30)}
        eventually("the new records are read", lambda: news <= set().union(*(m.read for m in members)) - before)

        # They commit and leave; the group remembers where it was.
        for member in members:
            member.close()
        with Admin(bootstrap_servers=served.bootstrap) as admin:
            committed = admin.list_group_offsets("billing")
        assert {tp.partition: at.offset for tp, at in committed.items()} == dict.fromkeys(range(PARTITIONS), 30)
    finally:
        end_all(members)
        served.kill()
