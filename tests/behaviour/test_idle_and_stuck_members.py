from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

import kohort
from kohort import OffsetAndMetadata, TopicPartition
from kohort.insight.findings.doctor import examine
from kohort.insight.findings.groups import find_group
from kohort.watch.sampling import SamplingLimits, sample_groups

PARTITIONS = 1
LIMITS = SamplingLimits(append_ms=30_000)
OLD_MS = 1_000_000_000_000


@pytest.fixture
def admin(bootstrap: str) -> Iterator[kohort.Admin]:
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        yield admin


@pytest.fixture
def filled(bootstrap: str, topic: str) -> str:
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"v", partition=0, timestamp_ms=OLD_MS + number)
        producer.flush()
    return topic


def reader(stack: ExitStack, bootstrap: str, group: str, topic: str, client_id: str) -> kohort.Consumer:
    options = {"group.id": group, "client.id": client_id, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = stack.enter_context(kohort.Consumer({"bootstrap.servers": bootstrap, **options}))
    consumer.subscribe([topic])
    return consumer


def snapshot_of(admin: kohort.Admin, group: str, later_s: int = 0):
    (found,) = sample_groups(admin, [group], LIMITS).groups
    return msgspec.structs.replace(found, at_ms=found.at_ms + later_s * 1000)


def test_member_without_commits_is_stuck_until_it_commits(admin, bootstrap, filled, name) -> None:
    tp = TopicPartition(filled, 0)
    with ExitStack() as stack:
        consumer = reader(stack, bootstrap, name, filled, "stuck")
        while not consumer.poll(200):
            pass
        consumer.commit({tp: OffsetAndMetadata(4)})
        looks = [snapshot_of(admin, name), snapshot_of(admin, name, 20)]
        stuck = find_group(looks)
        consumer.commit({tp: OffsetAndMetadata(10)})
        well = find_group([*looks, snapshot_of(admin, name, 40)])

    assert (stuck.health, stuck.blame, stuck.members[0].state) == ("STALL", "stopped_member", "stuck")
    assert stuck.blamed is not None
    assert stuck.blamed.client_id == "stuck"
    assert [(one.rule, one.severity) for one in examine(stuck)] == [("stalled", "error")]
    assert stuck.lag_ms is not None
    assert stuck.lag_ms == stuck.at_ms - (OLD_MS + 4)
    assert (well.health, well.members[0].state, examine(well)) == ("OK", "ok", [])


def owners_of_last_generation(admin, name, consumers):
    generations = {consumer.group_metadata().generation_id for consumer in consumers}
    is_stable = admin.describe_groups([name])[name].state == "Stable"
    return [consumer for consumer in consumers if consumer.assignment()] if is_stable and len(generations) == 1 else []


def test_surplus_member_is_idle_and_the_group_healthy(admin, bootstrap, filled, name) -> None:
    with ExitStack() as stack:
        both = [reader(stack, bootstrap, name, filled, client_id) for client_id in ("one", "two")]
        read = 0
        while read < 10 or len(admin.describe_groups([name])[name].members) < 2:
            for consumer in both:
                read += len(consumer.poll(100))
        while not (owners := owners_of_last_generation(admin, name, both)):
            for consumer in both:
                consumer.poll(50)
        (owner,) = owners
        owner.commit({TopicPartition(filled, 0): OffsetAndMetadata(10)})
        found = find_group([snapshot_of(admin, name), snapshot_of(admin, name, 20)])

    assert (found.health, sorted(m.state for m in found.members)) == ("OK", ["idle", "ok"])
    assert [(one.rule, one.severity) for one in examine(found)] == [("idle", "info")]


def test_group_without_members_is_stopped_if_it_has_a_lag(admin, bootstrap, filled, name) -> None:
    tp = TopicPartition(filled, 0)
    with ExitStack() as stack:
        consumer = reader(stack, bootstrap, name, filled, "gone")
        while not consumer.poll(200):
            pass
        consumer.commit({tp: OffsetAndMetadata(4)})

    assert find_group([snapshot_of(admin, name)]).health == "STOP"
    admin.alter_group_offsets(name, {tp: 10})
    assert find_group([snapshot_of(admin, name)]).health == "OK"
