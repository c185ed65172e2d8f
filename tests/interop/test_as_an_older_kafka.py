"""Other people's clients on a broker of ours that stands in for an older Apache Kafka: what they find and do."""

from __future__ import annotations

import confluent_kafka
import pytest
from kafka import KafkaAdminClient
from kafka.protocol.broker_version_data import BrokerVersionData

from kohort.config.kafka_releases import highest_version
from kohort.testing import StagedBroker
from kohort.wire.apis import APIS
from kohort.wire.messages.api_versions import ApiVersionsRequest
from support.raw.raw_client import RawClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]
KEYS = {api.name: key for key, api in APIS.items()}
DISTINCT_RELEASES = [
    *("2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.1", "3.2", "3.3", "3.5", "3.6", "3.7", "3.8"),
    *("3.9", "4.0", "4.1", "4.2", "4.3"),
]
"""The releases that kafka-python tells apart by what clients may ask."""


@pytest.mark.parametrize("release", DISTINCT_RELEASES)
def test_kafka_python_takes_it_for_the_release_that_it_stands_in_for(release):
    with StagedBroker(as_version=release) as broker, RawClient(broker.bootstrap) as raw:
        answer = raw.ask(ApiVersionsRequest(), 0)
    ranges = {r.api_key: (r.min_version, r.max_version) for r in answer.api_keys}
    assert BrokerVersionData(api_versions=ranges).broker_version == tuple(map(int, release.split(".")))


def test_kafka_python_works_with_it():
    with StagedBroker(as_version="2.8") as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        try:
            admin.create_topics(["t"])
            assert "t" in admin.list_topics()
        finally:
            admin.close()
        assert_only_what_was_there(broker, "2.8")


@pytest.mark.parametrize("release", ["2.1", "2.8", "3.9"])
def test_confluent_kafka_produces_reads_in_a_group_and_commits(release):
    with StagedBroker(as_version=release, group_initial_rebalance_delay_ms=0) as broker:
        address = {"bootstrap.servers": broker.bootstrap}
        producer = confluent_kafka.Producer({**address, "compression.type": "lz4", "enable.idempotence": True})
        for n in range(3):
            producer.produce("t", b"%d" % n)
        assert producer.flush(60) == 0
        consumer = confluent_kafka.Consumer({**address, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        found = consumer.consume(3, timeout=60)
        assert [message.value() for message in found] == [b"0", b"1", b"2"]
        (committed,) = consumer.commit(asynchronous=False)
        assert committed.offset == 3
        consumer.close()
        assert_only_what_was_there(broker, release)


def assert_only_what_was_there(broker, release):
    requested = {(request.api, request.version) for request in broker.requests()}
    assert requested
    for api, version in requested:
        highest = highest_version(KEYS[api], release)
        assert highest is not None, api
        assert version <= highest, api
