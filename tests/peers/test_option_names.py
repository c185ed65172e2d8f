"""Each option of other Python clients is accepted, or its error names the counterpart."""

import importlib
import inspect

import aiokafka
import aiokafka.admin
import kafka
import pytest

from kohort.config.client import AdminConfig, ConsumerConfig, ProducerConfig
from kohort.config.client_options import client_config
from kohort.errors import ConfigError


def parameters(client):
    return [name for name in inspect.signature(client.__init__).parameters if name != "self"]


NAMES = {
    ("kafka-python", ConsumerConfig): list(kafka.KafkaConsumer.DEFAULT_CONFIG),
    ("kafka-python", ProducerConfig): list(kafka.KafkaProducer.DEFAULT_CONFIG),
    ("kafka-python", AdminConfig): list(kafka.KafkaAdminClient.DEFAULT_CONFIG),
    ("aiokafka", ConsumerConfig): parameters(aiokafka.AIOKafkaConsumer),
    ("aiokafka", ProducerConfig): parameters(aiokafka.AIOKafkaProducer),
    ("aiokafka", AdminConfig): parameters(aiokafka.admin.AIOKafkaAdminClient),
}
EXPLAINED = ("coming-from.md", "is an option of a", "is not supported")


@pytest.mark.parametrize(
    ("config", "names"), [(config, names) for (_, config), names in NAMES.items()],
    ids=[f"{library} {config.__name__}" for library, config in NAMES],
)  # fmt: skip
def test_option_of_other_client_is_accepted_or_its_error_has_a_hint(config, names):
    try:
        client_config(config, {"bootstrap.servers": "h:1"}, dict.fromkeys(names))
    except ConfigError as error:
        problems = [line for line in str(error).splitlines() if not line.endswith("options are wrong:")]
        assert [line for line in problems if not any(words in line for words in EXPLAINED)] == []


@pytest.mark.parametrize("library", ["kafka", "aiokafka"])
@pytest.mark.parametrize(
    ("module", "name"), [("range", "RangePartitionAssignor"), ("roundrobin", "RoundRobinPartitionAssignor")]
)
def test_assignor_class_of_other_client_selects_the_assignor_of_its_name(library, module, name):
    found = getattr(importlib.import_module(f"{library}.coordinator.assignors.{module}"), name)

    config = client_config(ConsumerConfig, {"bootstrap.servers": "h:1"}, {"partition_assignment_strategy": [found]})

    assert config.partition_assignment_strategy == [found.name]
