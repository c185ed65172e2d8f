"""Lag in time against what was produced when: on Apache Kafka, and on a broker of ours by the same test."""

from __future__ import annotations

import time
import uuid

import pytest

import kohort
from kohort import NewTopic, OffsetAndMetadata, TopicPartition
from kohort.insight.findings.groups import find_group
from kohort.watch.sampling import SamplingLimits, sample_groups
from support.waiting import eventually

pytestmark = pytest.mark.interop
LIMITS = SamplingLimits(append_ms=30_000)
RECORDS = 50


@pytest.fixture
def admin(either):
    with kohort.Admin(bootstrap_servers=either) as admin:
        yield admin


@pytest.fixture
def topic(admin):
    """A topic of two partitions, whose records have the time at which the broker appends them."""
    name = f"lag-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 2, configs={"message.timestamp.type": "LogAppendTime"})])
    eventually(lambda: not admin.describe_topics([name]).errors, "the topic was never known", deadline_s=60)
    return name


def test_record_wait_is_measured_from_append_time(either, admin, topic):
    with kohort.Producer(bootstrap_servers=either, linger_ms=5) as producer:
        sent = [producer.send(topic, b"v" * 100, partition=n % 2) for n in range(RECORDS)]
        appended = {(d.partition, d.offset): d.timestamp_ms for d in (delivery.result(30_000) for delivery in sent)}

    for offset in (0, 7, RECORDS // 2 - 1):
        group = f"{topic}-{offset}"
        admin.alter_group_offsets(group, {TopicPartition(topic, p): offset for p in range(2)})
        before_ms = time.time_ns() // 1_000_000
        (snapshot,) = sample_groups(admin, [group], LIMITS).groups
        after_ms = time.time_ns() // 1_000_000
        found = find_group([snapshot])

        assert [(p.partition, p.committed_record_at_ms) for p in snapshot.partitions] == [
            (TopicPartition(topic, p), appended[p, offset]) for p in range(2)
        ]
        first = min(appended[0, offset], appended[1, offset])
        assert found.lag == RECORDS - 2 * offset
        assert found.lag_ms is not None
        assert max(before_ms - first, 0) <= found.lag_ms <= after_ms - first
        assert found.lag_ms_complete


def test_stalled_member_is_distinguished_from_reading_member(either, admin, topic):
    options = {"bootstrap.servers": either, "group.id": topic, "auto.offset.reset": "earliest"}
    with (
        kohort.Producer(bootstrap_servers=either) as producer,
        kohort.Consumer({**options, "enable.auto.commit": False, "client.id": "reader"}) as consumer,
    ):
        for number in range(RECORDS):
            producer.send(topic, b"v", partition=number % 2)
        producer.flush()
        consumer.subscribe([topic])
        read = 0
        while read < RECORDS:
            read += len(consumer.poll(500))
        at_5 = OffsetAndMetadata(5)
        consumer.commit({TopicPartition(topic, 0): at_5, TopicPartition(topic, 1): at_5})
        first = sample_groups(admin, [topic], LIMITS).groups[0]
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(RECORDS // 2), TopicPartition(topic, 1): at_5})
        last = sample_groups(admin, [topic], LIMITS).groups[0]

        found = find_group([first, last])

    moved, stood = found.partitions
    assert [m.member.client_id for m in found.members] == ["reader"]
    assert (moved.lag, moved.lag_ms, moved.draining, moved.status) == (0, 0, "empty", "OK")
    assert (stood.lag, stood.read_per_s, stood.draining) == (RECORDS // 2 - 5, 0.0, "unknown")
    assert moved.read_per_s is not None
    assert moved.read_per_s > 0
