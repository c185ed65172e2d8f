"""Client options: names, defaults, and rejected combinations."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

import kohort
from kohort.config.client import (
    AdminConfig,
    ConsumerConfig,
    ProducerConfig,
    parse_address,
    reset_duration_ms,
)
from kohort.config.client_options import client_config
from kohort.config.properties import fill_in_value
from kohort.errors import ConfigError

WHERE = {"bootstrap_servers": "localhost:9092"}


def test_options_accept_dots_and_underscores():
    config = client_config(ProducerConfig, {"bootstrap.servers": "a:1, b:2", "linger.ms": "7"}, {"batch_size": 10})

    assert config.bootstrap == [("a", 1), ("b", 2)]
    assert (config.linger_ms, config.batch_size) == (7, 10)


def test_unknown_option_error_has_nearest_name():
    with pytest.raises(ConfigError, match=r"unknown option 'linger.msec'; did you mean linger.ms\?"):
        client_config(ProducerConfig, None, {**WHERE, "linger.msec": 1})


def test_unknown_options_share_one_error():
    foreign = {"queue.buffering.max.ms": 5, "api_version": (2, 8), "group_id": "g", "ssl.engine.id": "dynamic"}
    options = {**WHERE, "linger.msec": 1, "batch_sise": 5, **foreign}

    with pytest.raises(ConfigError) as caught:
        client_config(ProducerConfig, None, options)

    assert str(caught.value).splitlines() == [
        "6 options are wrong:",
        "  unknown option 'linger.msec'; did you mean linger.ms?",
        "  unknown option 'batch_sise'; did you mean batch_size?",
        "  unknown option 'queue.buffering.max.ms': here it is linger.ms (docs/guides/coming-from.md)",
        "  unknown option 'api_version': leave it out, it has no effect here: client and broker negotiate API versions "
        "(docs/guides/coming-from.md)",
        "  group_id is an option of a consumer, not of this client",
        "  ssl.engine.id is not supported: Python's OpenSSL is used",
    ]


@pytest.mark.parametrize(
    ("cls", "name", "value", "spelled"),
    [
        (ConsumerConfig, "security_protocol", "plaintext", "PLAINTEXT"),
        (ConsumerConfig, "group_protocol", "CONSUMER", "consumer"),
        (ConsumerConfig, "isolation_level", "READ_COMMITTED", "read_committed"),
        (ProducerConfig, "compression_type", "LZ4", "lz4"),
        (ConsumerConfig, "sasl_mechanism", "scram-sha-256", "SCRAM-SHA-256"),
    ],
)
def test_choices_are_case_insensitive(cls, name, value, spelled):
    config = client_config(
        cls, None, {**WHERE, "group_id": "g", name: value} if cls is ConsumerConfig else {**WHERE, name: value}
    )

    assert getattr(config, name) == spelled


def test_offset_reset_by_duration_may_be_a_timedelta():
    age = timedelta(days=1, milliseconds=1)
    config = client_config(ConsumerConfig, None, {**WHERE, "auto_offset_reset": age})

    assert reset_duration_ms(config.auto_offset_reset) == 86_400_001


@pytest.mark.parametrize(
    ("cls", "name", "given", "value"),
    [
        (ConsumerConfig, "enable_auto_commit", "1", True),
        (ConsumerConfig, "check_crcs", 0, False),
        (ConsumerConfig, "auto_offset_reset", "Smallest", "earliest"),
        (ConsumerConfig, "auto_offset_reset", "end", "latest"),
        (ConsumerConfig, "auto_offset_reset", "error", "none"),
        (ConsumerConfig, "partition_assignment_strategy", "RANGE,roundrobin", ["range", "roundrobin"]),
        (
            ConsumerConfig,
            "partition_assignment_strategy",
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            ["cooperative-sticky"],
        ),
        (ConsumerConfig, "ssl_enabled_protocols", ["tlsv1.3"], ["TLSv1.3"]),
        (ConsumerConfig, "sasl_mechanism", None, "GSSAPI"),
        (ProducerConfig, "compression_type", None, "none"),
        (ProducerConfig, "acks", -1, "all"),
        (ProducerConfig, "retries", float("inf"), 2**31 - 1),
    ],
)
def test_values_of_other_clients_are_accepted(cls, name, given, value):
    group = {"group_id": "g"} if cls is ConsumerConfig else {}

    assert getattr(client_config(cls, group, {**WHERE, name: given}), name) == value


def test_texts_are_filled_in_from_environment_and_files(monkeypatch, tmp_path):
    (tmp_path / "password").write_text("s3cret\n")
    monkeypatch.setenv("KAFKA", "kafka-1:9092")
    given = {"sasl.username": "${USER_NAME:-reports}", "sasl.password": f"${{file:{tmp_path}/password}}"}

    config = client_config(ProducerConfig, given, {"bootstrap_servers": ["${KAFKA}"], "client_id": "$${KAFKA}"})

    assert config.bootstrap == [("kafka-1", 9092)]
    assert (config.sasl_username, config.sasl_password.reveal()) == ("reports", "s3cret")
    assert config.client_id == "${KAFKA}"


def test_missing_environment_variable_is_named_with_its_option(monkeypatch):
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    with pytest.raises(ConfigError, match=r"^option 'sasl_password': \$\{KAFKA_PASSWORD\}: the environment variable"):
        client_config(ProducerConfig, None, {**WHERE, "sasl_username": "u", "sasl_password": "${KAFKA_PASSWORD}"})


def test_variables_inside_a_filled_in_text_stay_literal(monkeypatch):
    monkeypatch.setenv("NAME", "${file:/etc/hostname}")
    filled = fill_in_value("${NAME}", os.environ)

    assert client_config(AdminConfig, WHERE, {"client_id": filled}).client_id == "${file:/etc/hostname}"


@pytest.fixture
def profiles(tmp_path, monkeypatch):
    file = tmp_path / "clusters.toml"
    file.write_text(
        '[prod]\nbootstrap.servers = "kafka-1:9093"\nsecurity.protocol = "ssl"\nclient.id = "${WHO:-reports}"\n'
        "linger.ms = 7\nmax.poll.records = 11\n"
    )
    file.chmod(0o600)
    monkeypatch.setenv("KOHORT_PROFILES", str(file))


def test_profile_has_options_of_all_kinds_of_clients(profiles):
    producer = client_config(ProducerConfig, None, {"profile": "prod"})
    consumer = client_config(ConsumerConfig, {"profile": "prod"}, {})

    assert producer.bootstrap == consumer.bootstrap == [("kafka-1", 9093)]
    assert (producer.linger_ms, producer.security_protocol) == (7, "SSL")
    assert (consumer.max_poll_records, consumer.client_id) == (11, "reports")


def test_options_beside_a_profile_override_it(profiles):
    config = client_config(ProducerConfig, None, {"profile": "prod", "linger_ms": 1, "bootstrap_servers": "other:9093"})

    assert (config.linger_ms, config.bootstrap, config.client_id) == (1, [("other", 9093)], "reports")


def test_unknown_profile_is_rejected_with_the_nearest_name(profiles):
    with pytest.raises(ConfigError, match=r"profile 'prd': .*; did you mean prod\?"):
        client_config(ProducerConfig, None, {"profile": "prd"})
    with pytest.raises(ConfigError, match=r"profile=7: expected the name of a cluster"):
        client_config(ProducerConfig, None, {"profile": 7})


def test_classic_options_are_rejected_with_consumer_protocol_in_any_case():
    with pytest.raises(ConfigError, match=r"no meaning with group\.protocol=consumer"):
        client_config(ConsumerConfig, None, {**WHERE, "group_protocol": "Consumer", "session_timeout_ms": 6_000})


@pytest.mark.parametrize("text", ["PLAINTEXT://kafka:9092", "sasl_ssl://kafka:9092", "SSL://kafka:9092", "kafka:9092"])
def test_protocol_prefix_of_address_is_ignored(text):
    assert parse_address(text) == ("kafka", 9092)


@pytest.mark.parametrize("text", ["http://kafka:9092", "kafka://kafka:9092", "SSL:kafka:9092", "://kafka:9092"])
def test_other_address_prefix_is_rejected(text):
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize("servers", ["", [], None])
def test_missing_bootstrap_servers_is_rejected(servers):
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        client_config(AdminConfig, None, {"bootstrap_servers": servers} if servers is not None else {})


@pytest.mark.parametrize("text", ["localhost", "localhost:", ":9092", "localhost:0", "a:b", "::1:9092", "a:70000"])
def test_malformed_address_error_has_expected_format(text):
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        parse_address(text)


def test_ipv6_address_is_parsed_in_brackets():
    assert parse_address("[::1]:9092") == ("::1", 9092)


def test_duplicate_server_is_rejected():
    with pytest.raises(ConfigError, match="twice"):
        client_config(AdminConfig, None, {"bootstrap_servers": "a:1,a:1"})


def test_producer_is_idempotent_by_default():
    config = client_config(ProducerConfig, None, WHERE)

    assert config.enable_idempotence is True
    assert (config.acks_on_the_wire, config.linger_ms, config.batch_size) == (-1, 5, 16384)


@pytest.mark.parametrize(
    "options",
    [{"acks": "1"}, {"acks": "0"}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}],
)
def test_idempotence_conflicts_are_resolved_or_rejected(options):
    assert client_config(ProducerConfig, None, {**WHERE, **options}).enable_idempotence is False
    with pytest.raises(ConfigError, match=r"enable\.idempotence=true needs"):
        client_config(ProducerConfig, None, {**WHERE, **options, "enable_idempotence": True})


def test_delivery_timeout_below_request_timeout_is_rejected():
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms=1000 must be at least"):
        client_config(ProducerConfig, None, {**WHERE, "delivery_timeout_ms": 1000})


def test_consumer_without_group_does_not_auto_commit():
    config = client_config(ConsumerConfig, None, WHERE)

    assert config.enable_auto_commit is False
    assert client_config(ConsumerConfig, None, {**WHERE, "group_id": "g"}).enable_auto_commit is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_id": b"g"}, r"group\.id=b'g': expected text"),
        ({"group_id": "\ud800"}, r"group\.id='\\ud800': expected text"),
        ({"client_id": "\ud800"}, r"client\.id="),
        ({"max_poll_records": 1.5}, r"max\.poll\.records=1\.5: expected an integer"),
        ({"max_poll_records": True}, r"max\.poll\.records=True: expected an integer"),
    ],
)
def test_unencodable_option_values_are_rejected(options, message):
    with pytest.raises(ConfigError, match=message):
        client_config(ConsumerConfig, None, {**WHERE, "group_id": "g", **options})
    assert client_config(ConsumerConfig, None, {**WHERE, "group_id": 7, "max_poll_records": 5e2}).group_id == "7"


@pytest.mark.parametrize(
    "options",
    [
        {"group_id": ""},
        {"group_instance_id": ""},
        {"enable_auto_commit": True},
        {"heartbeat_interval_ms": 45000},
        {"partition_assignment_strategy": []},
        {"partition_assignment_strategy": "fair"},
        {"auto_offset_reset": "newest"},
        {"group_protocol": "streams"},
        {"group_remote_assignor": "", "group_protocol": "consumer"},
        {"security_protocol": "TLS"},
    ],
)
def test_contradictory_client_options_are_rejected(options):
    with pytest.raises(ConfigError):
        client_config(ConsumerConfig, None, {**WHERE, **options})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"session_timeout_ms": 45000},
            r"session\.timeout\.ms has no meaning with group\.protocol=consumer: set "
            r"group\.consumer\.session\.timeout\.ms of the broker, or consumer\.session\.timeout\.ms of the group",
        ),
        ({"heartbeat_interval_ms": 3000}, r"group\.consumer\.heartbeat\.interval\.ms"),
        ({"partition_assignment_strategy": "range"}, r"the coordinator assigns.*group\.remote\.assignor"),
    ],
)
def test_options_of_other_group_protocol_error_has_replacement(options, text):
    with pytest.raises(ConfigError, match=text):
        client_config(ConsumerConfig, None, {**WHERE, "group_id": "g", "group_protocol": "consumer", **options})
    with pytest.raises(ConfigError, match=r"with group\.protocol=classic.*set partition\.assignment\.strategy"):
        client_config(ConsumerConfig, None, {**WHERE, "group_id": "g", "group_remote_assignor": "uniform"})


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("by_duration:PT1H30M", 5_400_000),
        ("by_duration:P1D", 86_400_000),
        ("by_duration:PT0.5S", 500),
        ("by_duration:P", None),
        ("by_duration:-PT1S", None),
        ("PT1S", None),
    ],
)
def test_auto_offset_reset_by_duration_is_iso_8601(policy, expected):
    assert reset_duration_ms(policy) == expected


def test_option_given_twice_needs_equal_values():
    both = client_config(ConsumerConfig, {"group.id": "a", "bootstrap.servers": "h:1"}, {"group_id": "a"})
    assert both.group_id == "a"
    with pytest.raises(ConfigError, match=r"group\.id is given twice: 'a' and 'b'"):
        client_config(ConsumerConfig, {"group.id": "a", "bootstrap.servers": "h:1"}, {"group_id": "b"})


def test_option_of_other_client_kind_is_rejected():
    with pytest.raises(ConfigError, match=r"linger_ms is an option of a producer, not of this client"):
        client_config(ConsumerConfig, None, {"bootstrap_servers": "h:1", "linger_ms": 5})
    with pytest.raises(ConfigError, match=r"group\.id is an option of a consumer, not of this client"):
        client_config(ProducerConfig, {"bootstrap.servers": "h:1", "group.id": "g"}, {})


FACES = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncConsumerGroup",
    "AsyncProducer",
    "Consumer",
    "ConsumerGroup",
    "Producer",
]


@pytest.mark.parametrize("face", FACES)
def test_every_client_class_accepts_both_spellings(face):
    make = getattr(kohort, face)
    with pytest.raises(ConfigError, match=r"unknown option 'client_idd'; did you mean client_id\?"):
        make(bootstrap_servers="h:1", client_idd="x")
    with pytest.raises(ConfigError, match=r"unknown option 'client\.idd'; did you mean client\.id\?"):
        make({"bootstrap.servers": "h:1", "client.idd": "x"})
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing"):
        make({"client.id": "x"})
