import time

import pytest

from kohort.errors import ErrorCode
from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch
from support.raw.raw_client import RawClient, fetch_request


def test_records_are_fetched_in_order(client):
    client.create("order")
    for i in range(20):
        assert client.produce("order", b"%d" % i).base_offset == i

    assert client.read_all("order") == [b"%d" % i for i in range(20)]


def test_waiting_fetch_ends_with_the_first_record(bootstrap, client):
    client.create("poll")
    client.send(fetch_request("poll", max_wait_ms=3_600_000), 12)

    with RawClient(bootstrap) as writer:
        writer.produce("poll", b"now")
    got = client.take().responses[0].partitions[0]

    assert bytes(got.records).endswith(b"now\x00")


def test_waiting_fetch_ends_at_its_max_wait(client):
    client.create("quiet")
    started = time.monotonic()

    got = client.fetch("quiet", max_wait_ms=300)

    assert not got.records
    assert time.monotonic() - started >= 0.29


def test_pipelined_requests_are_answered_in_order(client):
    client.create("ahead")
    sent = [client.request_bytes(fetch_request("ahead", max_wait_ms=1), 12) for _ in range(50)]

    client.send_bytes(b"".join(sent))

    assert [client.take().error_code for _ in sent] == [0] * 50


def test_large_batch_is_produced_and_fetched_whole(client):
    client.create("large")
    value = bytes(range(256)) * 4000

    assert client.produce("large", value).error_code == 0

    assert client.read_all("large") == [value]


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_are_stored_unchanged(client, codec):
    topic = f"codec-{codec.name.lower()}"
    client.create(topic)
    batch = build_batch([NewRecord(b"k", b"v" * 1000, [("h", None)], 5)] * 10, codec=codec)

    client.produce(topic, batch=batch)

    assert bytes(client.fetch(topic).records)[21:] == batch[21:]


def test_compression_bomb_is_stored_and_sent_unchanged(client):
    client.create("bomb")
    bomb = build_batch([NewRecord(None, bytes(40_000_000))], codec=Codec.GZIP)
    assert len(bomb) < 100_000

    assert client.produce("bomb", batch=bomb).error_code == 0
    assert bytes(client.fetch("bomb").records)[21:] == bomb[21:]


def test_acks_0_has_no_response_and_closes_the_connection_on_failure(bootstrap):
    with RawClient(bootstrap) as client:
        client.create("fire")
        from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

        def forget(topic: str) -> None:
            part = PartitionProduceData(index=0, records=build_batch([NewRecord(None, b"v")]))
            data = [TopicProduceData(name=topic, partition_data=[part])]
            client.send(ProduceRequest(acks=0, timeout_ms=1, topic_data=data), 9, answered=False)

        forget("fire")
        assert client.read_all("fire") == [b"v"]
        forget("nowhere")
        assert client.is_closed_by_peer()


def test_retry_of_an_idempotent_producer_is_stored_once(client):
    client.create("once")
    first = build_batch([NewRecord(None, b"1")], producer_id=5, producer_epoch=0, base_sequence=0)
    gap = build_batch([NewRecord(None, b"3")], producer_id=5, producer_epoch=0, base_sequence=2)

    assert [client.produce("once", batch=first).base_offset for _ in range(3)] == [0, 0, 0]
    assert client.produce("once", batch=gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.read_all("once") == [b"1"]
