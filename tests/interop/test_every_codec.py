"""What kohort produces, others read, and the other way round: every codec, headers, null keys, null values."""

import asyncio

import pytest
from served import Served

from kohort import Admin, Consumer, Producer, TopicPartition

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS = [
    (b"key", b"value", [("name", b"\x00\xff"), ("empty", b""), ("null", None)]),
    (None, b"no key", []),
    (b"tombstone", None, [("again", b"1"), ("again", b"2")]),
    (b"", b"", []),
    ("Größe".encode(), b"x" * 5000, []),
]
WITHOUT_NULL_HEADERS = [(k, v, [(n, b"" if h is None else h) for n, h in headers]) for k, v, headers in RECORDS]
"""kafka-python's producer refuses a header whose value is null."""

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def bootstrap():
    served = Served()
    try:
        yield served.bootstrap
    finally:
        served.kill()


@pytest.fixture
def topic(bootstrap, request):
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({name: 1})
    return name


def read_confluent(bootstrap, topic):
    from confluent_kafka import Consumer as Confluent
    from confluent_kafka import TopicPartition as At

    consumer = Confluent({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([At(topic, 0, 0)])
    found = []
    while len(found) < len(RECORDS):
        message = consumer.poll(30)
        assert message is not None, found
        assert message.error() is None
        found.append((message.key(), message.value(), message.headers() or []))
    consumer.close()
    return found


def read_kafka_python(bootstrap, topic):
    from kafka import KafkaConsumer
    from kafka import TopicPartition as At

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=30000)
    consumer.assign([At(topic, 0)])
    found = []
    for record in consumer:
        found.append((record.key, record.value, list(record.headers)))
        if len(found) == len(RECORDS):
            break
    consumer.close()
    return found


def read_aiokafka(bootstrap, topic):
    from aiokafka import AIOKafkaConsumer

    async def run():
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        found = []
        while len(found) < len(RECORDS):
            record = await asyncio.wait_for(consumer.getone(), 30)
            found.append((record.key, record.value, list(record.headers)))
        await consumer.stop()
        return found

    return asyncio.run(run())


def write_confluent(bootstrap, topic, codec):
    from confluent_kafka import Producer as Confluent

    producer = Confluent({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50})
    for key, value, headers in RECORDS:
        producer.produce(topic, value, key, headers=headers, partition=0)
    assert producer.flush(30) == 0


def write_kafka_python(bootstrap, topic, codec):
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=50
    )
    for key, value, headers in WITHOUT_NULL_HEADERS:
        producer.send(topic, value, key, headers=headers, partition=0)
    producer.flush(30)
    producer.close()


def write_aiokafka(bootstrap, topic, codec):
    from aiokafka import AIOKafkaProducer

    async def run():
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=50
        )
        await producer.start()
        for key, value, headers in RECORDS:
            await producer.send(topic, value, key, headers=headers, partition=0)
        await producer.stop()

    asyncio.run(run())


READERS = {"confluent": read_confluent, "kafka-python": read_kafka_python, "aiokafka": read_aiokafka}
WRITERS = {"confluent": write_confluent, "kafka-python": write_kafka_python, "aiokafka": write_aiokafka}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("reader", READERS)
def test_others_read_what_kohort_wrote(bootstrap, topic, reader, codec):
    with Producer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=50) as producer:
        sent = [producer.send(topic, v, k, partition=0, headers=h) for k, v, h in RECORDS]
        assert [s.result(30_000).offset for s in sent] == list(range(len(RECORDS)))

    assert READERS[reader](bootstrap, topic) == RECORDS


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", WRITERS)
def test_kohort_reads_what_others_wrote(bootstrap, topic, writer, codec):
    WRITERS[writer](bootstrap, topic, codec)

    found = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < len(RECORDS):
            records = consumer.poll(30_000)
            assert records, found
            found += [(r.key, r.value, list(r.headers)) for r in records]
    assert found == (WITHOUT_NULL_HEADERS if writer == "kafka-python" else RECORDS)
