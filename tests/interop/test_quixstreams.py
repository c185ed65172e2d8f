"""An application of quixstreams on a broker of ours: from topic to topic, with state, and again where it ended."""

from __future__ import annotations

import uuid

import pytest

from kohort import Admin, Consumer, Producer, TopicPartition
from support.peers.client_programs import SOURCES, python, run

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]
NAME = "python-quixstreams"
KEYS = ("a", "b", "c")


@pytest.fixture
def name():
    return f"quix-{uuid.uuid4().hex[:8]}"


def send(bootstrap, topic, numbers):
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, KEYS[number % 3].encode(), partition=number % 2).result(60_000)


def totals(bootstrap, topic, count):
    """Return the totals by key, in the order of the records."""
    found = {key: [] for key in KEYS}
    options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with Consumer(bootstrap_servers=bootstrap, **options) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(consumer.partitions_for(topic))])
        while sum(map(len, found.values())) < count:
            records = consumer.poll(60_000)
            assert records, found
            for record in records:
                found[record.key.decode()].append(int(record.value))
        assert consumer.poll(300) == []
    return found


def expected(*parts):
    """Every total so far of a key and partition, as the application keeps them, for numbers in these parts."""
    sums, found = {}, {key: [] for key in KEYS}
    for number in (n for part in parts for n in part):
        key = KEYS[number % 3]
        sums[key, number % 2] = sums.get((key, number % 2), 0) + number
        found[key].append(sums[key, number % 2])
    return {key: sorted(those) for key, those in found.items()}


@pytest.mark.parametrize("guarantee", ["at-least-once", pytest.param("exactly-once", marks=pytest.mark.campaign)])
def test_sums_survive_restart_and_loss_of_state_folder(ours, name, tmp_path, guarantee):
    source, target = f"{name}-numbers", f"{name}-totals"
    command = [python(NAME), str(SOURCES / NAME / "application.py"), ours, name, source, target]
    first, second = range(1, 41), range(41, 61)
    with Admin(bootstrap_servers=ours) as admin:
        admin.create_topics({source: 2})

        send(ours, source, first)
        (output,) = run([*command, str(tmp_path / "state"), "40", guarantee])[-1:]
        committed = {tp.partition: at.offset for tp, at in admin.list_group_offsets(name).items()}

        assert {source, target, *changelogs(output["topics"], name)} <= set(output["topics"])
        assert committed == {0: 20, 1: 20}
        assert sorted_totals(ours, target, 40) == expected(first)

        send(ours, source, second)
        run([*command, str(tmp_path / "elsewhere"), "20", guarantee])

        assert sorted_totals(ours, target, 60) == expected(first, second)


def sorted_totals(bootstrap, topic, count):
    return {key: sorted(those) for key, those in totals(bootstrap, topic, count).items()}


def changelogs(topics, group):
    found = [topic for topic in topics if topic.startswith(f"changelog__{group}--")]
    assert found, topics
    return found
