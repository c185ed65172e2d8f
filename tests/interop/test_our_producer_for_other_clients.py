"""What kohort's producer writes, other projects' consumers read: every codec, keys, headers, nulls, timestamps."""

from __future__ import annotations

import time

import confluent_kafka
import kafka
import pytest
from recent import RECENT_MS

import kohort

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
WAIT_S = 120.0
RECORDS = 200


@pytest.fixture(scope="module")
def broker():
    with kohort.Broker(num_partitions=1) as running:
        yield running


def value(n):
    return None if n % 50 == 7 else f"value {n} ".encode() * (n % 40)


def produce(broker, topic, codec):
    with kohort.Producer(bootstrap_servers=broker.bootstrap, compression_type=codec) as producer:
        for n in range(RECORDS):
            key = None if n % 3 == 0 else f"key {n}"
            producer.send(topic, value(n), key, headers={"n": str(n), "none": None}, timestamp_ms=RECENT_MS + n)


def expected():
    return [
        (
            n,
            RECENT_MS + n,
            None if n % 3 == 0 else f"key {n}".encode(),
            value(n),
            [("n", str(n).encode()), ("none", None)],
        )
        for n in range(RECORDS)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_reads_what_we_produce(broker, codec):
    topic = f"librdkafka-{codec}"
    produce(broker, topic, codec)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found, deadline = [], time.monotonic() + WAIT_S
    while len(found) < RECORDS and time.monotonic() < deadline:
        for message in consumer.consume(RECORDS, 1.0):
            assert message.error() is None
            found.append((message.offset(), message.timestamp()[1], message.key(), message.value(), message.headers()))
    consumer.close()

    assert found == expected()


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_kafka_python_reads_what_we_produce(broker, codec):
    topic = f"kafka-python-{codec}"
    produce(broker, topic, codec)
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found, deadline = [], time.monotonic() + WAIT_S
    while len(found) < RECORDS and time.monotonic() < deadline:
        records = consumer.poll(1000).get(partition, [])
        found += [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in records]
    consumer.close()

    assert found == expected()


def test_our_keys_meet_librdkafka_s_in_one_partition(broker):
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"met": 7})
    theirs = {}
    other = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
    for n in range(50):
        other.produce("met", b"", f"k{n}", on_delivery=lambda _e, m: theirs.update({m.key(): m.partition()}))
    assert other.flush(WAIT_S) == 0
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as ours:
        deliveries = {f"k{n}".encode(): ours.send("met", b"", f"k{n}") for n in range(50)}

    assert {key: delivery.partition for key, delivery in deliveries.items()} == theirs
