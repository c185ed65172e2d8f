"""Options of a running broker, changed and described by confluent-kafka and kafka-python."""

import confluent_kafka.admin as confluent
import kafka.admin as kafka_python
import pytest
from confluent_kafka import KafkaException
from kafka.admin import ConfigResource, ConfigResourceType

import kohort

pytestmark = pytest.mark.interop

RETENTION = "log.retention.ms"
WAIT_S = 30


@pytest.fixture
def broker(tmp_path):
    with kohort.Broker(data_dir=tmp_path) as broker:
        yield broker


class ByConfluent:
    """confluent-kafka's admin client."""

    def __init__(self, bootstrap):
        self.client = confluent.AdminClient({"bootstrap.servers": bootstrap})

    def alter(self, name, option, operation, value=None):
        kind = confluent.AlterConfigOpType[operation]
        entry = confluent.ConfigEntry(option, value, incremental_operation=kind)
        resource = confluent.ConfigResource("broker", name, incremental_configs=[entry])
        for future in self.client.incremental_alter_configs([resource]).values():
            future.result(WAIT_S)

    def describe(self, kind, name, option):
        (future,) = self.client.describe_configs([confluent.ConfigResource(kind, name)]).values()
        found = future.result(WAIT_S)[option]
        synonyms = [(one.name, one.value, one.source) for one in found.synonyms.values()]
        return found.value, found.source, found.is_read_only, sorted(synonyms, key=lambda one: one[2])


def test_confluent_changes_describes_and_deletes_options_of_brokers(broker):
    client = ByConfluent(broker.bootstrap)
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(["a"])

    client.alter("1", RETENTION, "SET", "6000")
    assert client.describe("broker", "1", RETENTION) == ("6000", 2, False, [(RETENTION, "6000", 2)])
    assert client.describe("topic", "a", "retention.ms")[:2] == ("6000", 2)

    client.alter("1", RETENTION, "DELETE")
    assert client.describe("topic", "a", "retention.ms")[:2] == ("604800000", 5)
    with pytest.raises(KafkaException, match=r"num\.partitions can only be set when a broker starts"):
        client.alter("1", "num.partitions", "SET", "7")


def test_options_changed_by_confluent_survive_a_restart(tmp_path):
    with kohort.Broker(data_dir=tmp_path) as broker:
        ByConfluent(broker.bootstrap).alter("1", "message.max.bytes", "SET", "2000")

    with kohort.Broker(data_dir=tmp_path) as broker:
        assert ByConfluent(broker.bootstrap).describe("broker", "1", "message.max.bytes")[:2] == ("2000", 2)


def test_kafka_python_changes_and_describes_options_of_brokers(broker):
    def resource(**options):
        configs = {name.replace("_", "."): value for name, value in options.items()}
        return [ConfigResource(ConfigResourceType.BROKER, "1", configs)]

    client = kafka_python.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        client.alter_configs(resource(message_max_bytes="2000"))
        found = client.describe_configs(resource())["broker"]["1"]["message.max.bytes"]
        assert (found["value"], found["config_source"], found["read_only"]) == ("2000", "DYNAMIC_BROKER_CONFIG", False)
        refused = client.alter_configs(resource(message_max_bytes="-1"))
        assert "expected an integer >= 0" in str(refused["broker"]["1"])
    finally:
        client.close()
