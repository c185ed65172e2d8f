"""The clients' options: names, defaults, and combinations that are refused."""

from __future__ import annotations

import pytest

import kohort
from kohort.config.client import (
    AdminConfig,
    ConsumerConfig,
    ProducerConfig,
    client_config,
    parse_address,
    reset_duration_ms,
)
from kohort.errors import ConfigError

WHERE = {"bootstrap_servers": "localhost:9092"}


def test_options_may_be_written_with_dots_or_with_underscores():
    config = client_config(ProducerConfig, {"bootstrap.servers": "a:1, b:2", "linger.ms": "7"}, {"batch_size": 10})

    assert config.bootstrap == [("a", 1), ("b", 2)]
    assert (config.linger_ms, config.batch_size) == (7, 10)


def test_an_unknown_option_names_the_nearest_known_one():
    with pytest.raises(ConfigError, match=r"unknown option 'linger.msec'; did you mean linger.ms\?"):
        client_config(ProducerConfig, None, {**WHERE, "linger.msec": 1})


def test_unknown_options_are_named_in_one_error_each_with_a_hint():
    given = {**WHERE, "linger.msec": 1, "queue.buffering.max.ms": 5, "value_serializer": str}

    with pytest.raises(ConfigError) as caught:
        client_config(ProducerConfig, None, given)

    assert "unknown options 'linger.msec'; did you mean linger.ms?; " in str(caught.value)
    assert "'queue.buffering.max.ms': here it is linger.ms" in str(caught.value)
    assert "'value.serializer': here keys and values are bytes" in str(caught.value)


@pytest.mark.parametrize(
    ("cls", "name", "given", "spelled"),
    [
        (ConsumerConfig, "security_protocol", "plaintext", "PLAINTEXT"),
        (ConsumerConfig, "group_protocol", "CONSUMER", "consumer"),
        (ConsumerConfig, "isolation_level", "READ_COMMITTED", "read_committed"),
        (ProducerConfig, "compression_type", "LZ4", "lz4"),
        (ConsumerConfig, "sasl_mechanism", "scram-sha-256", "SCRAM-SHA-256"),
    ],
)
def test_choice_of_an_option_is_taken_in_any_case(cls, name, given, spelled):
    config = client_config(
        cls, None, {**WHERE, "group_id": "g", name: given} if cls is ConsumerConfig else {**WHERE, name: given}
    )

    assert getattr(config, name) == spelled


def test_classic_options_are_refused_for_a_group_protocol_in_any_case():
    with pytest.raises(ConfigError, match=r"no meaning with group\.protocol=consumer"):
        client_config(ConsumerConfig, None, {**WHERE, "group_protocol": "Consumer", "session_timeout_ms": 6_000})


@pytest.mark.parametrize("text", ["PLAINTEXT://kafka:9092", "sasl_ssl://kafka:9092", "SSL://kafka:9092", "kafka:9092"])
def test_protocol_in_front_of_an_address_is_left_out(text):
    assert parse_address(text) == ("kafka", 9092)


@pytest.mark.parametrize("text", ["http://kafka:9092", "kafka://kafka:9092", "SSL:kafka:9092", "://kafka:9092"])
def test_another_scheme_in_front_of_an_address_is_refused(text):
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize("servers", ["", [], None])
def test_without_a_server_nothing_can_be_reached(servers):
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        client_config(AdminConfig, None, {"bootstrap_servers": servers} if servers is not None else {})


@pytest.mark.parametrize("text", ["localhost", "localhost:", ":9092", "localhost:0", "a:b", "::1:9092", "a:70000"])
def test_an_address_that_is_none_says_what_is_expected(text):
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        parse_address(text)


def test_an_ipv6_address_stands_in_brackets():
    assert parse_address("[::1]:9092") == ("::1", 9092)


def test_a_server_named_twice_is_a_mistake():
    with pytest.raises(ConfigError, match="twice"):
        client_config(AdminConfig, None, {"bootstrap_servers": "a:1,a:1"})


def test_a_producer_is_idempotent_with_kafka_s_defaults():
    config = client_config(ProducerConfig, None, WHERE)

    assert config.enable_idempotence is True
    assert (config.acks_on_the_wire, config.linger_ms, config.batch_size) == (-1, 5, 16384)


@pytest.mark.parametrize(
    "options",
    [{"acks": "1"}, {"acks": "0"}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}],
)
def test_idempotence_ends_where_an_option_excludes_it_and_asking_for_both_is_refused(options):
    assert client_config(ProducerConfig, None, {**WHERE, **options}).enable_idempotence is False
    with pytest.raises(ConfigError, match=r"enable\.idempotence=true needs"):
        client_config(ProducerConfig, None, {**WHERE, **options, "enable_idempotence": True})


def test_a_delivery_timeout_below_one_request_is_refused():
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms=1000 must be at least"):
        client_config(ProducerConfig, None, {**WHERE, "delivery_timeout_ms": 1000})


def test_a_consumer_without_a_group_does_not_commit():
    config = client_config(ConsumerConfig, None, WHERE)

    assert config.enable_auto_commit is False
    assert client_config(ConsumerConfig, None, {**WHERE, "group_id": "g"}).enable_auto_commit is True


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"group_id": b"g"}, r"group\.id=b'g': expected text"),
        ({"group_id": "\ud800"}, r"group\.id='\\ud800': expected text"),
        ({"client_id": "\ud800"}, r"client\.id="),
        ({"max_poll_records": 1.5}, r"max\.poll\.records=1\.5: expected a whole number"),
        ({"max_poll_records": True}, r"max\.poll\.records=True: expected a whole number"),
    ],
)
def test_values_are_what_can_be_sent(options, told):
    with pytest.raises(ConfigError, match=told):
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
def test_combinations_that_cannot_work_are_refused(options):
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
def test_options_of_the_other_group_protocol_are_refused_with_what_took_their_place(options, text):
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
def test_a_reset_by_duration_is_read_as_iso_8601(policy, expected):
    assert reset_duration_ms(policy) == expected


def test_an_option_given_twice_must_say_the_same():
    both = client_config(ConsumerConfig, {"group.id": "a", "bootstrap.servers": "h:1"}, {"group_id": "a"})
    assert both.group_id == "a"
    with pytest.raises(ConfigError, match=r"group\.id is given twice: 'a' and 'b'"):
        client_config(ConsumerConfig, {"group.id": "a", "bootstrap.servers": "h:1"}, {"group_id": "b"})


def test_the_option_of_another_client_is_called_that():
    with pytest.raises(ConfigError, match=r"linger\.ms is an option of a producer, not of this client"):
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
def test_every_face_takes_both_spellings_and_refuses_what_it_does_not_know(face):
    make = getattr(kohort, face)
    with pytest.raises(ConfigError, match=r"unknown option 'client\.idd'; did you mean client\.id\?"):
        make(bootstrap_servers="h:1", client_idd="x")
    with pytest.raises(ConfigError, match=r"unknown option 'client\.idd'; did you mean client\.id\?"):
        make({"bootstrap.servers": "h:1", "client.idd": "x"})
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing"):
        make({"client.id": "x"})
