"""``kohort metrics`` on a broker of ours and on Apache Kafka: the same pages of the same groups."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

import kohort
from kohort.cli.main import main

pytestmark = pytest.mark.interop
TOPIC, GROUP = "metrics-of-any", "metrics-readers"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_either_protocol_is_on_the_page_with_its_lag(either, protocol):
    topic, group = f"{TOPIC}-{protocol}", f"{GROUP}-{protocol}"
    with kohort.Admin(bootstrap_servers=either) as admin:
        admin.create_topics({topic: 2})
    with kohort.Producer(bootstrap_servers=either) as producer:
        for number in range(20):
            producer.send(topic, str(number), partition=0).result(30_000)
    with kohort.Consumer(
        bootstrap_servers=either,
        group_id=group,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        max_poll_records=5,
    ) as consumer:
        consumer.subscribe([topic])
        records = 0
        while records < 5:
            records += len(consumer.poll(timeout_ms=1000))
        consumer.commit()
        printed = CliRunner().invoke(main, ["metrics", "--bootstrap", either])

    assert printed.exit_code == 0, printed.output
    page = {}
    for family in text_string_to_metric_families(printed.stdout):
        for sample in family.samples:
            page[sample.name, frozenset(sample.labels.values())] = sample.value

    def value(name: str, *labels: str) -> float:
        return page[name, frozenset(labels)]

    assert value("kafka_consumergroup_lag", group, topic, "0") == 15
    assert value("kafka_consumergroup_lag_sum", group, topic) == 15
    assert value("kafka_consumergroup_members", group) == 1
    assert value("kafka_topic_partitions", topic) == 2
    assert value("kafka_topic_partition_current_offset", topic, "0") == 20
    assert value("kafka_topic_partition_in_sync_replica", topic, "0") == 1
    assert value("kohort_group_state", group, "Stable") == 1
    assert 0 < value("kohort_group_max_lag_seconds", group) < 600
    assert value("kafka_brokers") == 1
