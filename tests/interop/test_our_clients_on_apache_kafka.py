"""kohort's producer and admin on Apache Kafka itself: what holds for our own broker holds there."""

from __future__ import annotations

import pytest

import kohort
from kohort import ApiError, ConfigResource, ErrorCode, NewTopic, OffsetAndMetadata, TopicPartition
from support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]
WAIT_MS = 120_000


@pytest.fixture(scope="module")
def bootstrap(apache):
    return apache


@pytest.fixture(scope="module")
def admin(bootstrap):
    with kohort.Admin(bootstrap_servers=bootstrap) as client:
        yield client


def end_of(admin, topic, partition=0):
    tp = TopicPartition(topic, partition)
    return admin.list_offsets({tp: "latest"})[tp].offset


def test_topics_are_created_described_grown_and_deleted(admin):
    created = admin.create_topics([NewTopic("life", 2, 1, {"retention.ms": "1234567"})])
    assert created["life"].partitions == 2
    with pytest.raises(ApiError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics({"life": 2})

    admin.create_partitions({"life": 3})
    eventually(lambda: len(admin.describe_topics(["life"])["life"].partitions) == 3)
    resource = ConfigResource("topic", "life")
    assert admin.describe_configs([resource])[resource]["retention.ms"].value == "1234567"
    admin.alter_configs({resource: {"retention.ms": None}})
    eventually(lambda: admin.describe_configs([resource])[resource]["retention.ms"].is_default)

    admin.delete_topics(["life"])
    eventually(lambda: "life" not in [listing.name for listing in admin.list_topics()])
    assert admin.describe_topics(["life"]).errors["life"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_delivered_in_every_codec(bootstrap, admin, codec):
    topic = f"codec-{codec}"
    admin.create_topics({topic: 1})
    with kohort.Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        deliveries = [producer.send(topic, f"value {n} " * 20, f"k{n}", headers={"n": "1"}) for n in range(2000)]

    assert [delivery.result(0).offset for delivery in deliveries] == list(range(2000))
    assert end_of(admin, topic) == 2000


def test_a_batch_too_large_for_its_topic_is_split(bootstrap, admin):
    admin.create_topics([NewTopic("narrow", 1, 1, {"max.message.bytes": "3000"})])
    with kohort.Producer(bootstrap_servers=bootstrap, linger_ms=200) as producer:
        deliveries = [producer.send("narrow", bytes(400)) for _ in range(100)]

    assert [delivery.result(0).offset for delivery in deliveries] == list(range(100))


def test_oversized_record_fails_and_next_record_is_sent(bootstrap, admin):
    admin.create_topics([NewTopic("narrower", 1, 1, {"max.message.bytes": "1000"})])
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(ApiError, match="MESSAGE_TOO_LARGE"):
            producer.send("narrower", bytes(5000)).result(WAIT_MS)
        assert producer.send("narrower", b"fits").result(WAIT_MS).offset == 0


def test_a_topic_made_again_under_the_same_name_takes_records(bootstrap, admin):
    admin.create_topics({"again": 1})
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        assert producer.send("again", b"a").result(WAIT_MS).offset == 0
        admin.delete_topics(["again"])
        admin.create_topics({"again": 1})
        assert producer.send("again", b"b").result(WAIT_MS).offset == 0


def test_group_offsets_are_set_read_and_deleted(admin):
    admin.create_topics({"grouped": 2})
    first, second = TopicPartition("grouped", 0), TopicPartition("grouped", 1)
    offsets = {first: OffsetAndMetadata(0, "moved"), second: OffsetAndMetadata(0)}

    admin.alter_group_offsets("g", offsets)

    assert {tp: offset.offset for tp, offset in admin.list_group_offsets("g").items()} == {first: 0, second: 0}
    assert admin.describe_groups(["g"])["g"].state == "Empty"
    assert admin.describe_groups(["nobody"]).errors["nobody"].code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "g" in [listing.group_id for listing in admin.list_groups()]
    admin.delete_group_offsets("g", [second])
    assert list(admin.list_group_offsets("g")) == [first]
    admin.delete_groups(["g"])
    assert "g" not in [listing.group_id for listing in admin.list_groups()]
