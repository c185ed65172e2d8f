"""``kohort group`` beside ``kafka-consumer-groups.sh``: the same columns and values, on our broker and on theirs."""

from __future__ import annotations

import re
import uuid
from contextlib import ExitStack

import pytest
from click.testing import CliRunner

from kohort import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from kohort.cli.main import main
from support.peers.kafka_tools import kafka

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.timeout(600)]
OFFSETS = "GROUP TOPIC PARTITION LEADER-EPOCH CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
MEMBERS = "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS"
PROGRESS = "CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH TARGET-ASSIGNMENT UPGRADED"
STATE = "GROUP COORDINATOR_(ID) ASSIGNMENT-STRATEGY STATE GROUP-EPOCH TARGET-ASSIGNMENT-EPOCH #MEMBERS"
NAMES = {"--offsets": OFFSETS, "--members": f"{MEMBERS} {PROGRESS}", "--state": STATE}
POLLS = 300


@pytest.fixture
def admin(either):
    with Admin(bootstrap_servers=either) as client:
        yield client


@pytest.fixture
def topic(either, admin):
    """A topic of three partitions, with 10, 4 and no records."""
    name = f"beside-{uuid.uuid4().hex[:8]}"
    admin.create_topics({name: 3})
    with Producer(bootstrap_servers=either) as producer:
        for partition, count in ((0, 10), (1, 4)):
            for n in range(count):
                producer.send(name, b"%d" % n, partition=partition, timestamp_ms=1_000_000 + n * 1000)
    return name


def theirs(bootstrap, group, *view):
    """The rows that Kafka's tool prints, columns first; cut where its headings stand, since cells may be blank."""
    printed = kafka("consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", group, *view)
    lines = [line for line in printed.splitlines() if line.startswith(("GROUP", group))]
    header = lines[0]
    names = [name.replace("_", " ") for name in NAMES[view[0]].split()]
    found = [(header.index(name), name) for name in names if re.search(rf"(^|\s){re.escape(name)}(\s|$)", header)]
    starts = [at for at, _ in sorted(found)]
    rows = [[line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)] for line in lines]
    return [rows[0], *sorted([" ".join(cell.split()) or "-" for cell in row] for row in rows[1:])]


def ours(bootstrap, group, *view):
    """The rows that ``kohort group describe`` prints into a pipe."""
    done = CliRunner().invoke(main, ["group", "describe", group, *view, "--bootstrap", bootstrap])
    assert done.exit_code == 0, done.output
    rows = [re.split(r" {2,}", line.strip()) for line in done.stdout.splitlines()]
    return [rows[0], *sorted(rows[1:])]


def compare(bootstrap, group):
    """Every view of both tools; what is ours alone stands behind what is theirs."""
    seen = {}
    for view in NAMES:
        for verbose in ((), ("--verbose",)):
            expected, found = theirs(bootstrap, group, view, *verbose), ours(bootstrap, group, view, *verbose)
            width = len(expected[0])
            assert [row[:width] for row in found] == expected
            seen[view, bool(verbose)] = expected
    return seen


def joined(stack, bootstrap, group, topic, **options):
    consumer = stack.enter_context(Consumer(bootstrap_servers=bootstrap, group_id=group, **options))
    consumer.subscribe([topic])
    return consumer


def settle(consumers, total):
    for _ in range(POLLS):
        for consumer in consumers:
            consumer.poll(50)
        if sum(len(c.assignment()) for c in consumers) == total and all(c.assignment() for c in consumers):
            for consumer in consumers:
                consumer.poll(50)
            return
    raise AssertionError([c.assignment() for c in consumers])


def test_a_group_that_is_empty(either, admin, topic):
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(4, "", 0), TopicPartition(topic, 1): OffsetAndMetadata(9)}
    admin.alter_group_offsets(topic, offsets)

    seen = compare_offsets(either, topic)

    assert [row[1:7] for row in seen[1:]] == [[topic, "0", "0", "4", "10", "6"], [topic, "1", "-", "9", "4", "-5"]]


def compare_offsets(bootstrap, group):
    expected, found = (tool(bootstrap, group, "--offsets", "--verbose") for tool in (theirs, ours))
    assert found == expected
    assert ours(bootstrap, group, "--state")[1][:5] == theirs(bootstrap, group, "--state")[1]
    return expected


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_static_member_and_one_that_is_not(either, admin, topic, protocol):
    with ExitStack() as stack:
        options = {"group_protocol": protocol, "auto_offset_reset": "earliest"}
        first = joined(stack, either, topic, topic, client_id="first", group_instance_id="one", **options)
        second = joined(stack, either, topic, topic, client_id="second", **options)
        settle([first, second], 3)
        first.commit({tp: OffsetAndMetadata(2) for tp in first.assignment()})

        seen = compare(either, topic)

    assert seen["--members", False][0][2] == "GROUP-INSTANCE-ID"
    epochs = {row[6] for row in seen["--members", True][1:]}
    assert (epochs == {"-"}) == (protocol == "classic")


def test_a_group_of_both_protocols(either, admin, topic):
    with ExitStack() as stack:
        old = joined(stack, either, topic, topic, client_id="old", partition_assignment_strategy="range")
        settle([old], 3)
        new = joined(stack, either, topic, topic, client_id="new", group_protocol="consumer")
        settle([old, new], 3)

        seen = compare(either, topic)

    members = seen["--members", True]
    assert members[0][-1] == "UPGRADED"
    assert {(row[3], row[-1]) for row in members[1:]} == {("old", "false"), ("new", "true")}
