"""Admin calls of each client on both brokers: topics, nodes, options, offsets, groups.

Also a pattern subscription that finds a topic created later.
"""

from __future__ import annotations

import uuid

import pytest

from kohort import Admin, OffsetAndMetadata, Producer, TopicPartition
from support.peers.client_programs import PYTHON_CLIENTS, TOOLCHAIN_CLIENTS, as_parameters, program, run, talk
from support.recent import RECENT_MS

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]
OTHERS = [client for client in (*PYTHON_CLIENTS, *TOOLCHAIN_CLIENTS) if client != "kohort"]


def lines(topic, there):
    """Return the expected output lines of the admin calls (``clients/README.md``)."""
    return {
        "created": 2,
        "refused": True,
        "grown": 3,
        "listed": 3,
        "described": [[partition, 1, [1], [1]] for partition in range(3)],
        "retention": "1234567",
        "altered": "7654321",
        "cluster": [[1], 1],
        "broker": "delete",
        "on_disk": True,
        "offsets": [0, 3],
        "at_time": 1,
        "cut": 1,
        "groups": True,
        "group": ["Empty", 0],
        "committed": {"0": 1},
        "moved": {"0": 2},
        "group_deleted": True,
        "deleted": True,
    }


LACKS = {
    "confluent-oldest": {"cut", "on_disk"},
    "confluent-newest": {"on_disk"},
    "aiokafka": {"on_disk", "moved", "group_deleted"},
    "java-oldest": {"moved"},
    "node-kafkajs": {"on_disk"},
    "node-rdkafka": {"retention", "altered", "broker", "on_disk", "cut", "groups", "group", "group_deleted"},
}
"""Calls that a client lacks."""
WITH_PATTERNS = [client for client in OTHERS if client != "go-sarama"]
LOOK_ONCE = ("node-kafkajs",)
"""Clients with a pattern subscription that is resolved only once."""


@pytest.fixture
def admin(either):
    with Admin(bootstrap_servers=either) as client:
        yield client


@pytest.fixture
def name():
    return f"t-{uuid.uuid4().hex[:10]}"


def send(bootstrap, topic, count):
    with Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(count):
            producer.send(topic, b"x", partition=0, timestamp_ms=RECENT_MS + n * 1000).result(60_000)


@pytest.mark.parametrize("client", as_parameters(OTHERS))
def test_admin_calls_do_what_they_say(either, admin, name, client):
    there = f"{name}-there"
    admin.create_topics({there: 1})
    send(either, there, 3)
    admin.alter_group_offsets(name, {TopicPartition(there, 0): OffsetAndMetadata(1)})

    output = {}
    for line in run([*program(client), "admin", either, name, name, there, str(RECENT_MS + 500)]):
        output |= line

    assert output == {line: what for line, what in lines(name, there).items() if line not in LACKS.get(client, ())}
    assert name not in [listing.name for listing in admin.list_topics()]
    if "group_deleted" in output:
        assert name not in [listing.group_id for listing in admin.list_groups()]


@pytest.mark.parametrize("client", as_parameters(WITH_PATTERNS))
def test_pattern_subscription_finds_existing_and_later_topics(either, admin, name, client):
    first, other, later = f"{name}.first", f"other-{name}.first", f"{name}.later"
    admin.create_topics({first: 1, other: 1})
    send(either, first, 2)
    send(either, other, 2)

    topic_count = 2 if client in LOOK_ONCE else 3
    with talk([*program(client), "discover", either, name, f"{name}.", str(topic_count)]) as consumer:
        assert [consumer.hear()["found"] for _ in range(2)] == [[first, 0], [first, 1]]
        if client in LOOK_ONCE:
            return
        admin.create_topics({later: 1})
        send(either, later, 1)
        assert consumer.hear()["found"] == [later, 0]
