"""Records below a topic's max.message.bytes arrive in order and soon, although their batches are above it."""

from __future__ import annotations

from kohort import Admin, Consumer, NewTopic, Producer, TopicPartition
from kohort.testing import StagedBroker

RECORDS = 400


def test_records_of_a_small_topic_arrive_in_order_with_few_refused_requests():
    with StagedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic("small", 1, configs={"max.message.bytes": "1100"})])
        with Producer(bootstrap_servers=broker.bootstrap, client_id="writer", batch_size=1 << 19) as producer:
            sent = [producer.send("small", b"%600d" % number) for number in range(RECORDS)]
            offsets = [delivery.result().offset for delivery in sent]
        with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("small", 0)])
            read: list[int] = []
            while len(read) < RECORDS:
                read += [int(record.value or b"") for record in consumer.poll(timeout_ms=20_000)]

        assert read == offsets == list(range(RECORDS))
        assert len(broker.requests("Produce", client_id="writer")) <= RECORDS + 30
