from __future__ import annotations

import time

import pytest

import kohort
from kohort import ClientQuotaEntity

pytestmark = pytest.mark.ours


@pytest.fixture
def broker():
    with kohort.Broker() as running:
        yield running


@pytest.fixture
def admin(broker):
    with kohort.Admin(bootstrap_servers=broker.bootstrap, client_id="admin") as client:
        client.create_topics([kohort.NewTopic("orders", 1), kohort.NewTopic("large", 1)])
        yield client


def test_producer_and_consumer_above_their_quotas_are_throttled_without_loss(broker, admin, caplog):
    caplog.set_level("INFO", logger="kohort.server")
    quotas = {"producer_byte_rate": 50_000.0, "consumer_byte_rate": 50_000.0}
    admin.alter_client_quotas({ClientQuotaEntity(client_id="app"): quotas})
    assert admin.describe_client_quotas() == {ClientQuotaEntity(client_id="app"): quotas}

    common = {"bootstrap_servers": broker.bootstrap, "client_id": "app"}
    with kohort.Producer(**common) as producer:
        producer.send("large", bytes(520_000)).result()  # more than goes through in ten seconds
        sent = [producer.send("orders", bytes(13_000)) for _ in range(40)]
        assert [delivery.result().offset for delivery in sent] == list(range(40))

    with kohort.Consumer(**common, auto_offset_reset="earliest") as consumer:
        consumer.assign([kohort.TopicPartition("orders", 0)])
        read = 0
        deadline_s = time.monotonic() + 60
        while read < 40 and time.monotonic() < deadline_s:
            read += len(consumer.poll(1000))
    assert read == 40

    messages = [record.getMessage() for record in caplog.records if "throttled" in record.getMessage()]
    assert "client 'app' of user 'ANONYMOUS' is throttled for" in messages[0]
    assert messages[0].endswith("(producer_byte_rate=50000)")


def test_request_quota_measures_time_of_the_serving_thread(broker, admin):
    admin.alter_client_quotas({ClientQuotaEntity(user="ANONYMOUS"): {"request_percentage": 0.000_001}})

    started_s = time.monotonic()
    admin.list_topics()
    admin.list_topics()
    assert time.monotonic() - started_s > 0.9, "one sample, at least"
