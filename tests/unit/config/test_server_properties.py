"""Kafka's server.properties, as far as it means anything here."""

import re

import pytest

from kohort.config import BrokerConfig, parse_config
from kohort.config.listeners import listener_config, parse_listener
from kohort.config.properties import parse_properties
from kohort.config.server_properties import understand
from kohort.errors import ConfigError

KAFKAS_OWN = """
# The role of this server.
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_the_file_that_comes_with_kafka_is_understood():
    said = understand(parse_properties(KAFKAS_OWN))

    config = parse_config(BrokerConfig, said.options)
    assert (config.listen_host, config.listen_port, config.node_id) == ("127.0.0.1", 9092, 1)
    assert config.log_retention_ms == 168 * 3_600_000
    assert said.data_dir == "/tmp/kraft-combined-logs"
    assert "num.io.threads" in said.ignored
    assert "num.partitions" not in said.ignored


def test_what_is_shown_but_has_no_effect_is_told_too():
    given = {"log.preallocate": "true", "min.insync.replicas": "2", "offsets.topic.replication.factor": "1"}

    said = understand(given)

    assert said.ignored == ["log.preallocate", "min.insync.replicas"]
    assert said.options == given


def test_a_typo_gets_the_nearest_name():
    with pytest.raises(ConfigError, match=r"unknown option 'num\.partition'; did you mean num\.partitions\?"):
        understand({"num.partition": "3"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delegation.token.secret.key", "key"),
        ("principal.builder.class", "com.example.Builder"),
        ("listener.name.internal.principal.builder.class", "com.example.Builder"),
        ("ssl.engine.factory.class", "com.example.Engine"),
        ("client.quota.callback.class", "com.example.Quotas"),
    ],
)
def test_security_that_is_not_served_is_an_error_and_not_a_warning(name, value):
    with pytest.raises(ConfigError, match=rf"{name}: .*; remove the option"):
        understand({name: value})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("authorizer.class.name", "com.example.Authorizer", "expected org.apache.kafka.metadata.authorizer.Standard"),
        ("sasl.server.callback.handler.class", "com.example.Handler", "expected OAuthBearerValidatorCallbackHandler"),
        ("listener.name.ssl.plain.sasl.server.callback.handler.class", "com.example.Handler", "expected OAuthBearer"),
        ("sasl.enabled.mechanisms", "GSSAPI", "expected one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        ("ssl.enabled.protocols", "TLSv1.1", "expected one of TLSv1.2, TLSv1.3"),
    ],
)
def test_values_that_ask_for_what_is_not_there(name, value, words):
    with pytest.raises(ConfigError, match=f"^{re.escape(name)}=.*{words}"):
        parse_config(BrokerConfig, understand({name: value}).options)


def test_the_listener_between_brokers_is_named_in_one_way():
    given = {"inter.broker.listener.name": "SSL", "security.inter.broker.protocol": "SSL"}

    with pytest.raises(
        ConfigError, match=r"inter\.broker\.listener\.name and security\.inter\.broker\.protocol: give only one of them"
    ):
        understand(given)
    assert understand({"security.inter.broker.protocol": "SSL"}).ignored == ["security.inter.broker.protocol"]


def test_kafkas_names_of_what_is_there_are_understood():
    package = "org.apache.kafka.common.security.oauthbearer"
    given = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "listener.name.ssl.oauthbearer.sasl.server.callback.handler.class": (
            f"{package}.secured.OAuthBearerValidatorCallbackHandler"
        ),
    }

    config = parse_config(BrokerConfig, understand(given).options)

    assert config.authorizer_class_name.endswith("StandardAuthorizer")
    named = listener_config(config, "SSL", "OAUTHBEARER").sasl_server_callback_handler_class
    assert named == f"{package}.secured.OAuthBearerValidatorCallbackHandler"


def test_kafkas_own_classes_and_what_only_a_java_broker_needs_are_passed_over():
    builder = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    given = {
        "principal.builder.class": builder,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "ssl.protocol": "TLSv1.3",
        "listener.name.outer.ssl.keymanager.algorithm": "PKIX",
        "delegation.token.max.lifetime.ms": "1",
    }

    said = understand(given)

    assert (said.ignored, said.options) == (list(given), {})


def test_listeners_of_a_combined_node_are_those_that_no_controller_has():
    said = understand(
        {
            "listeners": "SSL://:9093,BRAIN://:9095,CONTROLLER://:9096",
            "advertised.listeners": "SSL://h:9093,BRAIN://h:9095",
            "controller.listener.names": "brain",
            "listener.name.brain.ssl.client.auth": "required",
        }
    )

    assert said.options == {"listeners": "SSL://:9093", "advertised.listeners": "SSL://h:9093"}
    assert said.ignored == ["controller.listener.names", "listener.name.brain.ssl.client.auth"]
    with pytest.raises(ConfigError, match="listeners='CONTROLLER://:9096': expected NAME"):
        understand({"listeners": "CONTROLLER://:9096"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"log.retention.hours": "2"}, "7200000"),
        ({"log.retention.hours": "2", "log.retention.minutes": "1"}, "60000"),
        ({"log.retention.hours": "2", "log.retention.ms": "5"}, "5"),
        ({"log.retention.hours": "-1"}, "-1"),
    ],
)
def test_milliseconds_win_over_minutes_and_minutes_over_hours(given, expected):
    assert understand(given).options["log.retention.ms"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://kohort:9092", ("kohort", 9092)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:9092", ("::1", 9092)),
        (":9092", ("", 9092)),
    ],
)
def test_a_listener_is_host_and_port(text, expected):
    assert parse_listener(text, "listeners") == expected


@pytest.mark.parametrize("text", ["localhost", "localhost:", "localhost:http", "h:70000", "SSL://h:1"])
def test_anything_else_is_none(text):
    with pytest.raises(ConfigError, match="listeners="):
        parse_listener(text, "listeners")
