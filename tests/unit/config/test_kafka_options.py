"""Every option of Apache Kafka 4.4's clients and topics is known, or rejected with its replacement.

``kafka_4_4_options.txt`` has names, owners and defaults from Kafka's jars (ConsumerConfig, ProducerConfig,
AdminClientConfig, LogConfig).
"""

from pathlib import Path

import pytest

from kohort.config.broker import BrokerConfig
from kohort.config.client import AdminConfig, ConsumerConfig, ProducerConfig
from kohort.config.client_options import client_config
from kohort.config.options import options_of, parse_config
from kohort.config.topic import TopicConfig, topic_config
from kohort.errors import ConfigError

CLIENTS = {"consumer": ConsumerConfig, "producer": ProducerConfig, "admin": AdminConfig}
LINES = (Path(__file__).parent / "kafka_4_4_options.txt").read_text().splitlines()
OPTIONS = [
    (whose, line.split()[0], line.partition(" ")[2].partition(" ")[2])
    for line in LINES
    for whose in line.split()[1].split(",")
]
INSTEAD = "docs/guides/coming-from.md"


@pytest.mark.parametrize("whose", CLIENTS)
def test_every_kafka_client_option_is_known_or_has_replacement(whose):
    refused = {}
    for kind, name, value in OPTIONS:
        if kind != whose or name == "bootstrap.servers":
            continue
        try:
            client_config(CLIENTS[whose], None, {"bootstrap.servers": "h:1", name: value or "1"})
        except ConfigError as error:
            if str(error).startswith("unknown option") and INSTEAD not in str(error):
                refused[name] = str(error)

    assert refused == {}


def test_every_kafka_topic_option_is_known():
    ours = {option.name: option for option in options_of(TopicConfig)}
    theirs = {name: value for kind, name, value in OPTIONS if kind == "topic"}

    assert theirs.keys() <= ours.keys()
    for name, value in theirs.items():
        topic_config(BrokerConfig(), {name: value})


@pytest.mark.parametrize("name", ["Rebootstrap", "none"])
def test_metadata_recovery_strategy_is_case_insensitive(name):
    config = client_config(AdminConfig, None, {"bootstrap.servers": "h:1", "metadata.recovery.strategy": name})

    assert config.metadata_recovery_strategy == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metadata.recovery.strategy", "sometimes"),
        ("compression.gzip.level", "11"),
        ("compression.lz4.level", "0"),
        ("transaction.two.phase.commit.enable", "true"),
        ("metadata.max.idle.ms", "1"),
        ("client.dns.lookup", "default"),
        ("metrics.recording.level", "LOUD"),
    ],
)
def test_options_without_effect_are_checked(name, value):
    with pytest.raises(ConfigError, match=name):
        client_config(ProducerConfig, None, {"bootstrap.servers": "h:1", name: value})


CLASSES = "org.apache.kafka.coordinator.group.assignor."


def parsed(**options: str) -> BrokerConfig:
    return parse_config(BrokerConfig, {f"group.consumer.{name.replace('_', '.')}": v for name, v in options.items()})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"session_timeout_ms": "1000"},
            "group.consumer.session.timeout.ms=1000: expected at least group.consumer.min.session.timeout.ms, "
            "which is 45000",
        ),
        (
            {"min_session_timeout_ms": "70000"},
            "group.consumer.max.session.timeout.ms=60000: expected at least group.consumer.min.session.timeout.ms, "
            "which is 70000",
        ),
        (
            {"heartbeat_interval_ms": "20000"},
            "group.consumer.heartbeat.interval.ms=20000: expected at most group.consumer.max.heartbeat.interval.ms, "
            "which is 15000",
        ),
        (
            {"max_assignment_interval_ms": "100"},
            "group.consumer.assignment.interval.ms=1000: expected at most group.consumer.max.assignment.interval.ms, "
            "which is 100",
        ),
        (
            {"max_heartbeat_interval_ms": "45000", "heartbeat_interval_ms": "45000"},
            "group.consumer.heartbeat.interval.ms=45000: expected less than group.consumer.session.timeout.ms, "
            "which is 45000",
        ),
    ],
)
def test_group_options_out_of_bounds_are_rejected(options, sentence):
    with pytest.raises(ConfigError) as refused:
        parsed(**options)

    assert str(refused.value) == sentence


def test_group_options_at_their_bounds_are_accepted():
    config = parsed(session_timeout_ms="60000", heartbeat_interval_ms="15000", assignment_interval_ms="0")

    assert (config.group_consumer_session_timeout_ms, config.group_consumer_assignment_interval_ms) == (60_000, 0)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("uniform", ["uniform"]),
        (" range , uniform ", ["range", "uniform"]),
        (f"{CLASSES}UniformAssignor", ["uniform"]),
        (f"{CLASSES}RangeAssignor,uniform", ["range", "uniform"]),
        ("uniform,uniform", ["uniform"]),
    ],
)
def test_assignors_accept_names_and_kafka_classes(text, names):
    config = parsed(assignors=text)

    assert config.consumer_assignors == names


@pytest.mark.parametrize(
    "text",
    ["", "Uniform", f"{CLASSES}uniformassignor", f"{CLASSES}UniformAssignor,uniform", "foo", "java.lang.String"],
)
def test_unknown_assignors_are_rejected(text):
    with pytest.raises(ConfigError, match=r"expected uniform, range, or both"):
        parsed(assignors=text)
