"""Clients of other languages on a broker of ours: every codec, a group of three, static and cooperative members.

librdkafka's oldest and newest, behind Python, are among them where no other file has their story.

What was consumed is held against what was produced, and what the coordinator recorded against what the members said.
"""

from __future__ import annotations

import uuid

import pytest

from kohort import Admin, Consumer, Producer, TopicPartition
from support.peers.client_programs import (
    BOTH_CONFLUENTS,
    TOOLCHAIN_CLIENTS,
    as_line,
    as_parameters,
    as_record,
    program,
    run,
)
from support.processes.member_process import Member, end_all, eventually, share_everything, twice_owned
from support.recent import RECENT_MS

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]
PARTITIONS = 6
ALL_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
CODECS = {
    "java-oldest": ALL_CODECS,
    "java-newest": ALL_CODECS,
    "go-sarama": ALL_CODECS,
    "go-franz": ALL_CODECS,
    "node-kafkajs": ["none", "gzip", "snappy"],
    "node-rdkafka": ["none", "gzip", "snappy", "lz4"],
}
STRATEGY = {"java-oldest": "range", "go-sarama": "sticky"}
STATIC = ["java-newest", "go-sarama", "go-franz", "node-rdkafka", *BOTH_CONFLUENTS]
COOPERATIVE = ["java-newest", "go-franz", "node-rdkafka", *BOTH_CONFLUENTS]
RECORDS = [
    (b"key", b"value", [("name", b"\x00\xff"), ("empty", b"")]),
    (None, b"no key", []),
    (b"tombstone", None, [("again", b"1"), ("again", b"2")]),
    (b"", b"", []),
    ("Größe".encode(), b"x" * 5000, []),
    *((b"k%d" % n, b"value %d " % n * 20, [("n", b"%d" % n)]) for n in range(200)),
]


@pytest.fixture
def admin(ours):
    with Admin(bootstrap_servers=ours) as client:
        yield client


@pytest.fixture
def name():
    return f"t-{uuid.uuid4().hex[:10]}"


def fill(bootstrap, topic, count):
    with Producer(bootstrap_servers=bootstrap) as producer:
        for sent in [producer.send(topic, b"%d" % n, partition=n % PARTITIONS) for n in range(count)]:
            sent.result(60_000)


def as_sent_by(client, key, value, headers):
    """Return a record as the client sends it: node-rdkafka sends headers as C strings, and empty bytes as null."""
    if client != "node-rdkafka":
        return key, value, headers
    return key or None, value or None, [(name, of.partition(b"\0")[0]) for name, of in headers]


def in_ci(client, codec):
    """Each case of a Java client starts two JVMs: two of its codecs stand for all five there."""
    return not client.startswith("java") or codec in ("none", "zstd")


@pytest.mark.parametrize(
    ("client", "codec"),
    [
        pytest.param(client, codec, marks=[*marks, *([] if in_ci(client, codec) else [pytest.mark.campaign])])
        for (client,), marks, _ in as_parameters(TOOLCHAIN_CLIENTS)
        for codec in CODECS[str(client)]
    ],
)
def test_records_of_each_producer_are_read_by_each_consumer(ours, admin, name, client, codec):
    command = program(client)
    theirs, our = f"{name}-theirs", f"{name}-ours"
    admin.create_topics({theirs: 2, our: 1})

    expected = [as_sent_by(client, *record) for record in RECORDS]
    sent = run([*command, "produce", ours, theirs, codec], "".join(as_line(1, *r) + "\n" for r in expected))
    assert sorted(s["sent"] for s in sent) == [[1, n] for n in range(len(RECORDS))]
    with Consumer(bootstrap_servers=ours, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(theirs, 1)])
        found = []
        while len(found) < len(RECORDS):
            records = consumer.poll(30_000)
            assert records, found
            found += records
    assert [(r.key, r.value, list(r.headers)) for r in found] == expected

    with Producer(bootstrap_servers=ours, compression_type=codec, linger_ms=50) as producer:
        for n, (key, value, headers) in enumerate(RECORDS):
            producer.send(our, value, key, partition=0, headers=headers, timestamp_ms=RECENT_MS + n)
    received = [as_record(line) for line in run([*command, "read", ours, our, "0", str(len(RECORDS))])]
    assert received == [(n, RECENT_MS + n, *record) for n, record in enumerate(RECORDS)]


@pytest.mark.parametrize("client", as_parameters(TOOLCHAIN_CLIENTS))
def test_a_group_of_three_lives_through_a_join_a_kill_and_a_leave_and_resumes(ours, admin, name, client):
    command = program(client)
    strategy = STRATEGY.get(client, "-")
    admin.create_topics({name: PARTITIONS})
    fill(ours, name, 120)
    members, departed = [Member(command, ours, name, name, strategy=strategy)], []
    try:
        eventually("one owns everything", lambda: share_everything(members, PARTITIONS))
        members += [Member(command, ours, name, name, strategy=strategy) for _ in range(2)]
        eventually("three own two each", lambda: [len(m.owns) for m in members] == [2, 2, 2])
        eventually("all records are read", lambda: len(set().union(*(m.read for m in members))) == 120)

        # What the coordinator recorded is what the members said.
        described = admin.describe_groups([name])[name]
        assert described.state == "Stable"
        assert sorted(sorted(p.partition for p in m.assignment) for m in described.members) == sorted(
            sorted(m.owns) for m in members
        )

        departed.append(members.pop(1))
        departed[-1].kill()
        eventually("two own everything", lambda: share_everything(members, PARTITIONS))
        departed.append(members.pop(0))
        departed[-1].close()
        assert departed[-1].has_left, departed[-1].errors
        eventually("one owns everything", lambda: share_everything(members, PARTITIONS))
        fill(ours, name, 60)
        new_records = {(p, offset) for p in range(PARTITIONS) for offset in range(20, 30)}
        eventually("the new records are read", lambda: new_records <= members[0].read)
        departed.append(members.pop())
        departed[-1].close()
        assert departed[-1].has_left, departed[-1].errors
        assert committed(admin, name) == dict.fromkeys(range(PARTITIONS), 30)
        assert admin.describe_groups([name])[name].state == "Empty"
        assert twice_owned(departed, PARTITIONS) == []

        # Who comes later begins where the group was.
        fill(ours, name, 6)
        members.append(Member(command, ours, name, name, strategy=strategy))
        eventually("the newest are read", lambda: len(members[0].read) >= PARTITIONS)
        assert members[0].read == {(p, 30) for p in range(PARTITIONS)}
    finally:
        end_all([*members, *departed])


def committed(admin, group):
    return {tp.partition: at.offset for tp, at in admin.list_group_offsets(group).items()}


@pytest.mark.parametrize("client", as_parameters(STATIC))
def test_restarted_static_member_causes_no_rebalance(ours, admin, name, client):
    command = program(client)
    admin.create_topics({name: PARTITIONS})
    members = [Member(command, ours, name, name, strategy="range", instance=f"i{n}") for n in range(3)]
    try:
        eventually("three own two each", lambda: [len(m.owns) for m in members] == [2, 2, 2])
        before = assignments(admin, name)
        changes = [list(m.changes) for m in members[:2]]
        had = set(members[2].owns)
        members[2].kill()
        members[2] = Member(command, ours, name, name, strategy="range", instance="i2")
        eventually("it has again what it had", lambda: members[2].owns == had)

        assert assignments(admin, name) == before
        fill(ours, name, 60)
        eventually("all is read", lambda: len(set().union(*(m.read for m in members))) == 60)
        assert [m.changes for m in members[:2]] == changes
    finally:
        end_all(members)


def assignments(admin, group):
    members = admin.describe_groups([group])[group].members
    return {m.group_instance_id: sorted(p.partition for p in m.assignment) for m in members}


@pytest.mark.parametrize("client", as_parameters(COOPERATIVE))
def test_a_join_of_a_cooperative_group_takes_only_what_moves(ours, admin, name, client):
    command = program(client)
    admin.create_topics({name: PARTITIONS})
    members = [Member(command, ours, name, name, strategy="cooperative-sticky") for _ in range(2)]
    try:
        eventually("two own three each", lambda: [len(m.owns) for m in members] == [3, 3])
        before = [set(m.owns) for m in members]
        counts = [len(m.changes) for m in members]
        members.append(Member(command, ours, name, name, strategy="cooperative-sticky"))
        eventually("three own two each", lambda: [len(m.owns) for m in members] == [2, 2, 2])

        assert all(set(m.owns) < b for m, b in zip(members, before, strict=False))
        moved = [
            p
            for m, n in zip(members, counts, strict=False)
            for c in m.changes[n:]
            if not c.gained
            for p in c.partitions
        ]
        assert sorted(moved) == sorted(members[2].owns)
        assert twice_owned(members, PARTITIONS) == []
    finally:
        end_all(members)
