from __future__ import annotations

import pytest

from kohort import Admin, Broker, Consumer, NewTopic, Producer, TopicPartition
from kohort.errors import ApiError, ErrorCode
from kohort.testing import StagedBroker

RECORDS = 400


def test_batches_above_the_topic_limit_are_split_with_few_rejections():
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


def ways_to_send(producer: Producer, values: list[bytes]):
    yield lambda: producer.send_batch("small", 0, values)
    pyarrow = pytest.importorskip("pyarrow")
    yield lambda: producer.send_arrow("small", pyarrow.table({"value": pyarrow.array(values, pyarrow.binary())}))


@pytest.mark.parametrize("too_large", [0, 3, 9])
def test_delivery_of_many_records_fails_if_one_is_too_large(too_large: int):
    values = [b"x" * (2_000 if n == too_large else 10) for n in range(10)]
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic("small", 1, configs={"max.message.bytes": "1100"})])
        with Producer(bootstrap_servers=broker.bootstrap, linger_ms=0) as producer:
            for send in ways_to_send(producer, values):
                deliveries = send()
                errors = []
                for delivery in deliveries:
                    try:
                        delivery.result()
                    except ApiError as error:
                        errors.append(error.code)
                        assert delivery.exception() is not None
                assert errors == [ErrorCode.MESSAGE_TOO_LARGE]
                assert all(delivery.done() for delivery in deliveries)


def test_delivery_of_a_split_batch_calls_back_once():
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic("small", 1, configs={"max.message.bytes": "1100"})])
        with Producer(bootstrap_servers=broker.bootstrap, linger_ms=0) as producer:
            called = []
            (delivery,) = producer.send_batch("small", 0, [b"x" * 300 for _ in range(10)])
            delivery.add_done_callback(lambda done: called.append(done.result().offset))
            producer.flush()
            place = delivery.result()

    assert (called, place.offset) == ([9], 9)
