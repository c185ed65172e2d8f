"""Records of kohort's producer in other consumers: every codec, keys, headers, nulls, timestamps."""

from __future__ import annotations

import pytest

import kohort
from support.peers.client_programs import BOTH_CONFLUENTS, as_line, as_record, program, run
from support.recent import RECENT_MS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
WAIT_MS = 120_000
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


@pytest.mark.parametrize(
    ("client", "codec"),
    [
        *((client, codec) for client in BOTH_CONFLUENTS for codec in ("none", "gzip", "snappy", "lz4", "zstd")),
        ("kafka-python", "none"),
        ("kafka-python", "gzip"),
    ],
)
def test_others_read_what_we_produce(broker, client, codec):
    topic = f"{client}-{codec}"
    produce(broker, topic, codec)

    read = run([*program(client), "read", broker.bootstrap, topic, "0", str(RECORDS)])

    assert [as_record(line) for line in read] == expected()


@pytest.mark.parametrize("client", [*BOTH_CONFLUENTS, "kafka-python", "aiokafka"])
def test_our_keys_meet_theirs_in_one_partition(broker, client):
    topic = f"met-{client}"
    keys = [b"k%d" % n for n in range(50)]
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({topic: 7})
    lines = [as_line("-", key, b"") for key in keys]
    run([*program(client), "produce", broker.bootstrap, topic, "none"], "\n".join(lines))
    theirs = {}
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([kohort.TopicPartition(topic, partition) for partition in range(7)])
        while len(theirs) < len(keys):
            theirs |= {record.key: record.partition for record in consumer.poll(WAIT_MS)}
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as ours:
        deliveries = {key: ours.send(topic, b"", key) for key in keys}

    assert {key: delivery.partition for key, delivery in deliveries.items()} == theirs
