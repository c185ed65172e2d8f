"""Kafka's server.properties: translated, ignored and rejected options."""

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


def test_kafka_default_server_properties_is_accepted():
    understood = understand(parse_properties(KAFKAS_OWN))

    config = parse_config(BrokerConfig, understood.options)
    assert (config.listen_host, config.listen_port, config.node_id) == ("127.0.0.1", 9092, 1)
    assert config.log_retention_ms == 168 * 3_600_000
    assert understood.data_dir == "/tmp/kraft-combined-logs"
    assert "num.io.threads" in understood.ignored
    assert "num.partitions" not in understood.ignored


def test_options_without_effect_are_reported():
    properties = {"log.preallocate": "true", "min.insync.replicas": "2", "offsets.topic.replication.factor": "1"}

    understood = understand(properties)

    assert understood.ignored == ["log.preallocate", "min.insync.replicas"]
    assert understood.options == properties


def test_unknown_broker_option_error_has_nearest_name():
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
def test_unsupported_broker_security_is_an_error(name, value):
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
def test_unsupported_broker_values_are_rejected(name, value, words):
    with pytest.raises(ConfigError, match=f"^{re.escape(name)}=.*{words}"):
        parse_config(BrokerConfig, understand({name: value}).options)


def test_both_inter_broker_options_are_rejected():
    properties = {"inter.broker.listener.name": "SSL", "security.inter.broker.protocol": "SSL"}

    with pytest.raises(
        ConfigError, match=r"inter\.broker\.listener\.name and security\.inter\.broker\.protocol exclude each other"
    ):
        understand(properties)
    assert understand({"security.inter.broker.protocol": "SSL"}).ignored == ["security.inter.broker.protocol"]


def test_kafka_names_are_translated():
    package = "org.apache.kafka.common.security.oauthbearer"
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "listener.name.ssl.oauthbearer.sasl.server.callback.handler.class": (
            f"{package}.secured.OAuthBearerValidatorCallbackHandler"
        ),
    }

    config = parse_config(BrokerConfig, understand(properties).options)

    assert config.authorizer_class_name.endswith("StandardAuthorizer")
    named = listener_config(config, "SSL", "OAUTHBEARER").sasl_server_callback_handler_class
    assert named == f"{package}.secured.OAuthBearerValidatorCallbackHandler"


def test_default_java_classes_are_ignored():
    builder = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    properties = {
        "principal.builder.class": builder,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "ssl.protocol": "TLSv1.3",
        "listener.name.outer.ssl.keymanager.algorithm": "PKIX",
        "delegation.token.max.lifetime.ms": "1",
    }

    understood = understand(properties)

    assert (understood.ignored, understood.options) == (list(properties), {})


def test_controller_listeners_are_dropped():
    understood = understand(
        {
            "listeners": "SSL://:9093,BRAIN://:9095,CONTROLLER://:9096",
            "advertised.listeners": "SSL://h:9093,BRAIN://h:9095",
            "controller.listener.names": "brain",
            "listener.name.brain.ssl.client.auth": "required",
        }
    )

    assert understood.options == {"listeners": "SSL://:9093", "advertised.listeners": "SSL://h:9093"}
    assert understood.ignored == ["controller.listener.names", "listener.name.brain.ssl.client.auth"]
    with pytest.raises(ConfigError, match="listeners='CONTROLLER://:9096': expected NAME"):
        understand({"listeners": "CONTROLLER://:9096"})


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"log.retention.hours": "2"}, "7200000"),
        ({"log.retention.hours": "2", "log.retention.minutes": "1"}, "60000"),
        ({"log.retention.hours": "2", "log.retention.ms": "5"}, "5"),
        ({"log.retention.hours": "-1"}, "-1"),
    ],
)
def test_milliseconds_override_minutes_and_minutes_hours(properties, expected):
    assert understand(properties).options["log.retention.ms"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://kohort:9092", ("kohort", 9092)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:9092", ("::1", 9092)),
        (":9092", ("", 9092)),
    ],
)
def test_single_plaintext_listener_becomes_host_and_port(text, expected):
    assert parse_listener(text, "listeners") == expected


@pytest.mark.parametrize("text", ["localhost", "localhost:", "localhost:http", "h:70000", "SSL://h:1"])
def test_other_single_listener_stays_a_listener(text):
    with pytest.raises(ConfigError, match="listeners="):
        parse_listener(text, "listeners")
