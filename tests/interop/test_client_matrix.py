"""Clients of other languages on a broker of ours: every codec, a group of three, static and cooperative members, admin.

What was consumed is held against what was produced, and what the coordinator recorded against what the members said.
"""

from __future__ import annotations

import base64
import uuid

import pytest
from client_programs import program, run
from member_process import Member, end_all, eventually, share_everything, twice_owned
from recent import RECENT_MS

from kohort import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition

pytestmark = [pytest.mark.interop, pytest.mark.toolchain, pytest.mark.slow, pytest.mark.timeout(900)]
PARTITIONS = 6
ALL_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
CODECS = {
    "java-oldest": ALL_CODECS,
    "java-newest": ALL_CODECS,
    "go-sarama": ALL_CODECS,
    "go-franz": ALL_CODECS,
    "node-kafkajs": ["none", "gzip", "snappy"],
}
STRATEGY = {"java-oldest": "range", "java-newest": "-", "go-sarama": "sticky", "go-franz": "-", "node-kafkajs": "-"}
STATIC = ["java-newest", "go-sarama", "go-franz"]
COOPERATIVE = ["java-newest", "go-franz"]
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


def as_line(partition, key, value, headers):
    named = [f"{name}={as_field(header)}" for name, header in headers]
    return "\t".join([str(partition), as_field(key), as_field(value), *named])


def as_field(value):
    return "~" if value is None else base64.b64encode(value).decode()


def as_bytes(text):
    return None if text is None else base64.b64decode(text)


def fill(bootstrap, topic, count):
    with Producer(bootstrap_servers=bootstrap) as producer:
        for sent in [producer.send(topic, b"%d" % n, partition=n % PARTITIONS) for n in range(count)]:
            sent.result(60_000)


def in_ci(client, codec):
    """Each case of a Java client starts two JVMs: two of its codecs stand for all five there."""
    return not client.startswith("java") or codec in ("none", "zstd")


@pytest.mark.parametrize(
    ("client", "codec"),
    [
        pytest.param(client, codec, marks=() if in_ci(client, codec) else pytest.mark.whole)
        for client, codecs in CODECS.items()
        for codec in codecs
    ],
)
def test_what_one_writes_the_other_reads(ours, admin, name, client, codec):
    command = program(client)
    theirs, our = f"{name}-theirs", f"{name}-ours"
    admin.create_topics({theirs: 2, our: 1})

    sent = run([*command, "produce", ours, theirs, codec], "".join(as_line(1, *r) + "\n" for r in RECORDS))
    assert sorted(s["sent"] for s in sent) == [[1, n] for n in range(len(RECORDS))]
    with Consumer(bootstrap_servers=ours, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(theirs, 1)])
        found = []
        while len(found) < len(RECORDS):
            records = consumer.poll(30_000)
            assert records, found
            found += records
    assert [(r.key, r.value, list(r.headers)) for r in found] == RECORDS

    with Producer(bootstrap_servers=ours, compression_type=codec, linger_ms=50) as producer:
        for n, (key, value, headers) in enumerate(RECORDS):
            producer.send(our, value, key, partition=0, headers=headers, timestamp_ms=RECENT_MS + n)
    seen = [line["record"] for line in run([*command, "read", ours, our, "0", str(len(RECORDS))])]
    assert [(offset, at) for offset, at, *_ in seen] == [(n, RECENT_MS + n) for n in range(len(RECORDS))]
    assert [
        (as_bytes(key), as_bytes(value), [(header, as_bytes(of)) for header, of in headers])
        for _, _, key, value, headers in seen
    ] == RECORDS


@pytest.mark.parametrize("client", CODECS)
def test_a_group_of_three_lives_through_a_join_a_kill_and_a_leave_and_resumes(ours, admin, name, client):
    command = program(client)
    strategy = STRATEGY[client]
    admin.create_topics({name: PARTITIONS})
    fill(ours, name, 120)
    members, gone = [Member(command, ours, name, name, strategy=strategy)], []
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

        gone.append(members.pop(1))
        gone[-1].kill()
        eventually("two own everything", lambda: share_everything(members, PARTITIONS))
        gone.append(members.pop(0))
        gone[-1].close()
        assert gone[-1].left, gone[-1].errors
        eventually("one owns everything", lambda: share_everything(members, PARTITIONS))
        fill(ours, name, 60)
        news = {(p, offset) for p in range(PARTITIONS) for offset in range(20, 30)}
        eventually("the new records are read", lambda: news <= members[0].read)
        gone.append(members.pop())
        gone[-1].close()
        assert gone[-1].left, gone[-1].errors
        assert committed(admin, name) == dict.fromkeys(range(PARTITIONS), 30)
        assert admin.describe_groups([name])[name].state == "Empty"
        assert twice_owned(gone, PARTITIONS) == []

        # Who comes later begins where the group was.
        fill(ours, name, 6)
        members.append(Member(command, ours, name, name, strategy=strategy))
        eventually("the newest are read", lambda: len(members[0].read) >= PARTITIONS)
        assert members[0].read == {(p, 30) for p in range(PARTITIONS)}
    finally:
        end_all([*members, *gone])


def committed(admin, group):
    return {tp.partition: at.offset for tp, at in admin.list_group_offsets(group).items()}


@pytest.mark.parametrize("client", STATIC)
def test_a_static_member_that_is_killed_and_comes_back_disturbs_nobody(ours, admin, name, client):
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


@pytest.mark.parametrize("client", COOPERATIVE)
def test_a_join_of_a_cooperative_group_takes_only_what_moves(ours, admin, name, client):
    command = program(client)
    admin.create_topics({name: PARTITIONS})
    members = [Member(command, ours, name, name, strategy="cooperative-sticky") for _ in range(2)]
    try:
        eventually("two own three each", lambda: [len(m.owns) for m in members] == [3, 3])
        before = [set(m.owns) for m in members]
        seen = [len(m.changes) for m in members]
        members.append(Member(command, ours, name, name, strategy="cooperative-sticky"))
        eventually("three own two each", lambda: [len(m.owns) for m in members] == [2, 2, 2])

        assert all(set(m.owns) < b for m, b in zip(members, before, strict=False))
        moved = [
            p for m, n in zip(members, seen, strict=False) for c in m.changes[n:] if not c.gained for p in c.partitions
        ]
        assert sorted(moved) == sorted(members[2].owns)
        assert twice_owned(members, PARTITIONS) == []
    finally:
        end_all(members)


@pytest.mark.parametrize("client", CODECS)
def test_admin_calls_do_what_they_say(ours, admin, name, client):
    admin.create_topics({f"{name}-read": 1})
    with Producer(bootstrap_servers=ours) as producer:
        producer.send(f"{name}-read", b"x").result(60_000)
    admin.alter_group_offsets(name, {TopicPartition(f"{name}-read", 0): OffsetAndMetadata(1)})

    said = {}
    for line in run([*program(client), "admin", ours, name, name]):
        said |= line

    assert said == {
        "created": 2,
        "refused": True,
        "grown": 3,
        "retention": "1234567",
        "group": ["Empty", 0],
        "committed": {"0": 1},
        "group_deleted": True,
        "deleted": True,
    }
    assert name not in [listing.name for listing in admin.list_topics()]
    assert name not in [listing.group_id for listing in admin.list_groups()]
