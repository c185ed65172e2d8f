"""``kohort group`` beside ``kafka-consumer-groups.sh``: the same columns and values, on our broker and on theirs."""

from __future__ import annotations

import json
import re
import uuid
from contextlib import ExitStack

import pytest
from click.testing import CliRunner

from kohort import Admin, Broker, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from kohort.cli.main import main
from support.peers.kafka_tools import kafka

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
OFFSETS = "GROUP TOPIC PARTITION LEADER-EPOCH CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
MEMBERS = "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS"
PROGRESS = "CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH TARGET-ASSIGNMENT UPGRADED"
STATE = "GROUP COORDINATOR_(ID) ASSIGNMENT-STRATEGY STATE GROUP-EPOCH TARGET-ASSIGNMENT-EPOCH #MEMBERS"
NAMES = {"--offsets": OFFSETS, "--members": f"{MEMBERS} {PROGRESS}", "--state": STATE}
POLLS = 300


@pytest.fixture(scope="module")
def own_broker():
    """A broker of its own: Kafka's tool describes no group of a broker that has one without a name."""
    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture(params=["own_broker", pytest.param("apache", marks=pytest.mark.kafka)], ids=["ours", "apache"])
def either(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def admin(either):
    with Admin(bootstrap_servers=either) as client:
        yield client


@pytest.fixture
def topic(either, admin):
    """A topic of three partitions, with 10, 4 and no records."""
    name = f"beside-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 3, configs={"retention.ms": "-1"})])  # its records are from 1970
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
    tables = {}
    for view in NAMES:
        for verbose in ((), ("--verbose",)):
            expected, found = theirs(bootstrap, group, view, *verbose), ours(bootstrap, group, view, *verbose)
            width = len(expected[0])
            assert [row[:width] for row in found] == expected
            tables[view, bool(verbose)] = expected
    return tables


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

    table = compare_offsets(either, topic)

    assert [row[1:7] for row in table[1:]] == [[topic, "0", "0", "4", "10", "6"], [topic, "1", "-", "9", "4", "-5"]]


def compare_offsets(bootstrap, group):
    expected, found = (tool(bootstrap, group, "--offsets", "--verbose") for tool in (theirs, ours))
    assert [row[: len(expected[0])] for row in found] == expected
    assert ours(bootstrap, group, "--state")[1][:5] == theirs(bootstrap, group, "--state")[1]
    return expected


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_describe_group_with_static_and_dynamic_member(either, admin, topic, protocol):
    with ExitStack() as stack:
        options = {"group_protocol": protocol, "auto_offset_reset": "earliest"}
        first = joined(stack, either, topic, topic, client_id="first", group_instance_id="one", **options)
        second = joined(stack, either, topic, topic, client_id="second", **options)
        settle([first, second], 3)
        first.commit({tp: OffsetAndMetadata(2) for tp in first.assignment()})

        tables = compare(either, topic)

    assert tables["--members", False][0][2] == "GROUP-INSTANCE-ID"
    epochs = {row[6] for row in tables["--members", True][1:]}
    assert (epochs == {"-"}) == (protocol == "classic")


def test_a_group_of_both_protocols(either, admin, topic):
    with ExitStack() as stack:
        old = joined(stack, either, topic, topic, client_id="old", partition_assignment_strategy="range")
        settle([old], 3)
        new = joined(stack, either, topic, topic, client_id="new", group_protocol="consumer")
        settle([old, new], 3)

        tables = compare(either, topic)

    members = tables["--members", True]
    assert members[0][-1] == "UPGRADED"
    assert {(row[3], row[-1]) for row in members[1:]} == {("old", "false"), ("new", "true")}


@pytest.mark.parametrize("view", ["--offsets", "--members", "--state"])
def test_several_groups_and_all_groups(either, admin, topic, view):
    groups = [f"{topic}-{letter}" for letter in "abc"]
    for group in groups[:2]:
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): 4})
    with ExitStack() as stack:
        settle([joined(stack, either, groups[2], topic, client_id="reader")], 3)
        chosen = [word for group in groups for word in ("--group", group)]
        for which in (chosen, ["--all-groups"]):
            tool = kafka("consumer-groups", "--bootstrap-server", either, "--describe", *which, view)
            done = CliRunner().invoke(main, ["group", "describe", *which, view, "--bootstrap", either])

            their_rows, our_rows = (
                {line.split()[0]: line.split() for line in text.splitlines() if line.startswith(topic)}
                for text in (tool, done.stdout)
            )
            assert set(their_rows) == set(our_rows) & set(groups) == set(groups[2:] if view == "--members" else groups)
            assert all(our_rows[name][: len(cells)] == cells for name, cells in their_rows.items())


WAYS = [
    ["--to-earliest"],
    ["--to-latest"],
    ["--to-current"],
    ["--to-offset", "7"],
    ["--to-offset", "700"],
    ["--shift-by", "-3"],
    ["--shift-by", "300"],
    ["--to-datetime", "1970-01-01T00:16:43.500"],
    ["--to-datetime", "2999-01-01T00:00:00.000"],
    ["--by-duration", "P1D"],
    ["--by-duration", "P20000D"],
]


def reset_by_tool(bootstrap, group, *how):
    """The new offsets that Kafka's tool prints, and what it says besides."""
    printed = kafka("consumer-groups", "--bootstrap-server", bootstrap, "--reset-offsets", "--group", group, *how)
    rows = [line.split() for line in printed.splitlines() if line.startswith(group)]
    return {(topic, int(partition)): int(offset) for _, topic, partition, offset in rows}, printed


def reset_by_us(bootstrap, group, *how, code=0):
    """The new offsets that ``kohort group reset-offsets`` prints, and what it says besides."""
    words = ["group", "reset-offsets", group, *how, "--bootstrap", bootstrap]
    done = CliRunner().invoke(main, [*words, "--output", "json"])
    assert done.exit_code == code, done.output
    rows = json.loads(done.stdout)["partitions"] if code == 0 else []
    return {(p["topic"], p["partition"]): p["new_offset"] for p in rows}, done.stderr


def test_every_way_to_reset_leads_to_the_same_offsets(either, admin, topic):
    admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 1})
    for way in WAYS:
        scopes = [["--all-topics"]] if way[0] == "--shift-by" else [["--all-topics"], ["--topic", topic]]
        for scope in scopes:
            expected, _ = reset_by_tool(either, topic, *scope, *way)
            assert reset_by_us(either, topic, *scope, *way)[0] == expected != {}, (scope, way)
    named = ["--topic", f"{topic}:0,2", "--to-latest", "--execute"]
    assert reset_by_us(either, topic, *named)[0] == {(topic, 0): 10, (topic, 2): 0}
    assert reset_by_tool(either, topic, "--all-topics", "--to-current")[0] == {
        (topic, 0): 10, (topic, 1): 1, (topic, 2): 0,
    }  # fmt: skip


def test_what_cannot_be_reset_is_refused_by_both(either, admin, topic):
    uncommitted = ["--topic", topic, "--shift-by", "1"]
    tool = ("--bootstrap-server", either, "--reset-offsets", "--group", topic)
    their_output = kafka("consumer-groups", *tool, *uncommitted, fails=True)
    _, our_error = reset_by_us(either, topic, *uncommitted, code=5)
    assert "Cannot shift offset" in their_output
    assert "cannot shift" in our_error
    new, _ = reset_by_tool(either, f"{topic}-new", "--topic", topic, "--to-latest")
    found, error = reset_by_us(either, f"{topic}-new", "--topic", topic, "--to-latest")
    assert found == new == {(topic, 0): 10, (topic, 1): 4, (topic, 2): 0}
    assert "does not exist; --execute creates it" in error

    with ExitStack() as stack:
        settle([joined(stack, either, topic, topic, client_id="busy")], 3)
        where = ["--topic", topic, "--to-earliest", "--execute"]
        assert "is inactive, but the current state is Stable" in reset_by_tool(either, topic, *where)[1]
        assert "while it has members: busy at /127.0.0.1" in reset_by_us(either, topic, *where, code=5)[1]


def test_exported_offsets_are_readable_by_both_tools(either, admin, topic, tmp_path):
    other = f"{topic}-b"
    for group in (topic, other):
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 1})
    tool = ("--bootstrap-server", either, "--reset-offsets", "--all-topics", "--to-current", "--export")
    us = ("group", "reset-offsets", "--all-topics", "--to-current", "--export", "--bootstrap", either)
    for groups in (("--group", topic), ("--group", topic, "--group", other)):
        output = kafka("consumer-groups", *tool, *groups)
        theirs_text = "".join(f"{line}\n" for line in output.splitlines() if line.startswith(topic))
        ours_text = CliRunner().invoke(main, [*us, *groups]).stdout
        assert sorted(theirs_text.splitlines()) == sorted(ours_text.splitlines())
        for text in (theirs_text, ours_text):
            file = tmp_path / "offsets.csv"
            file.write_text(text.replace(",4", ",400"))
            expected, _ = reset_by_tool(either, topic, *groups[2:], "--from-file", str(file))
            assert expected == {(topic, 0): 10, (topic, 1): 1}
            found, _ = reset_by_us(either, topic, *groups[2:], "--from-file", str(file))
            assert {at: offset for at, offset in found.items() if at[0] == topic} == expected


def test_members_of_both_protocols_are_taken_out_of_both_brokers(either, admin, topic):
    with ExitStack() as stack:
        static = joined(stack, either, topic, topic, group_protocol="consumer", group_instance_id="one")
        settle([static], 3)
        dynamic = joined(stack, either, topic, topic, group_protocol="consumer", client_id="dynamic")
        settle([static, dynamic], 3)
        (member_id,) = [m.member_id for m in admin.describe_groups([topic])[topic].members if not m.group_instance_id]
        words = ["group", "remove-member", topic, "--yes", "--bootstrap", either]
        assert CliRunner().invoke(main, [*words, "--", member_id]).exit_code == 0
        assert [m.group_instance_id for m in admin.describe_groups([topic])[topic].members] == ["one"]

        assert CliRunner().invoke(main, [*words, "one", "--reason", "its host is gone"]).exit_code == 0

        assert admin.describe_groups([topic])[topic].members == ()
    group = f"{topic}-classic"
    with ExitStack() as stack:
        settle([joined(stack, either, group, topic, client_id="old")], 3)
        words = ["group", "remove-member", group, "--all", "--yes", "--bootstrap", either]
        assert CliRunner().invoke(main, words).exit_code == 0
        assert admin.describe_groups([group])[group].members == ()
