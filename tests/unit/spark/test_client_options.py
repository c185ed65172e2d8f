"""Kafka client options in Spark: their names, profiles and secrets, and how Spark workers get them."""

from __future__ import annotations

import pickle

import pytest

from kohort.config.client import ConsumerConfig
from kohort.config.client_options import client_config
from kohort.errors import ConfigError
from kohort.secret import Secret
from kohort.spark.options.client import as_spark_options, connecting
from kohort.spark.options.sink import parse_sink_options
from kohort.spark.options.source import parse_source_options
from kohort.spark.pipeline.definition import Source
from kohort.spark.pipeline.sources import lookup_options, stream_options
from kohort.spark.values.row_builders import BadRecords

PASSWORD = "planted-7f3a"
JAAS = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{PASSWORD}";'
SECURED = {
    "kafka.bootstrap.servers": "kafka:9093",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": JAAS,
    "kafka.ssl.truststore.location": "/etc/kafka/trust.p12",
    "kafka.ssl.truststore.password": PASSWORD,
    "kafka.ssl.truststore.type": "PKCS12",
}


def token_of_the_day():
    return "planted-token", 2_000_000_000


@pytest.fixture
def source():
    return parse_source_options({**SECURED, "subscribe": "orders"}, streaming=True)


def test_client_options_of_sparks_kafka_connector_are_accepted(source):
    assert source.client["sasl.jaas.config"] == Secret(JAAS)
    assert "ssl.truststore.type" not in source.client  # the file extension determines the type of the trust store
    made = client_config(ConsumerConfig, {**source.client, "bootstrap.servers": source.bootstrap_servers}, {})
    assert made.ssl_truststore_password == Secret(PASSWORD)
    assert parse_sink_options({**SECURED, "topic": "out"}, streaming=False).client["security.protocol"] == "SASL_SSL"


def test_source_options_hide_secrets_and_are_pickled_for_workers(source):
    sink = parse_sink_options({**SECURED, "topic": "out"}, streaming=True)
    for options in (source, sink, BadRecords.of(source)):
        assert PASSWORD not in repr(options)
        assert PASSWORD.encode() in pickle.dumps(options)  # workers need the password to log in
        assert repr(pickle.loads(pickle.dumps(options))) == repr(options)


def test_dead_letter_producer_uses_the_connection_options_of_the_source(source):
    settings = BadRecords.of(source).settings
    assert settings["bootstrap.servers"] == "kafka:9093"
    assert settings["sasl.jaas.config"] == Secret(JAAS)
    assert "isolation.level" not in connecting({"isolation.level": "read_committed", "security.protocol": "SSL"})


@pytest.mark.parametrize(
    ("spelling", "ours"),
    [
        ("sasl.mechanisms", "sasl.mechanism"),
        ("sasl.plain.password", "sasl.password"),
        ("ssl.cafile", "ssl.ca.location"),
    ],
)
def test_option_names_of_librdkafka_and_kafka_python_are_accepted(spelling, ours):
    value = "PLAIN" if ours == "sasl.mechanism" else "x"
    options = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", f"kafka.{spelling}": value}
    if ours == "sasl.password":
        options["kafka.sasl.username"] = "alice"
    assert ours in parse_source_options(options, streaming=True).client


def test_profile_is_read_on_the_driver_and_explicit_options_override_it(monkeypatch, tmp_path):
    (tmp_path / "clusters.toml").write_text(
        '[prod]\nbootstrap.servers = "kafka:9093"\nsecurity.protocol = "SASL_SSL"\nsasl.mechanism = "PLAIN"\n'
        'sasl.username = "alice"\nsasl.password = "${P}"\nacks = "all"\n'
    )
    monkeypatch.setenv("KOHORT_PROFILES", str(tmp_path / "clusters.toml"))
    monkeypatch.setenv("P", PASSWORD)

    options = {"profile": "prod", "subscribe": "t", "kafka.sasl.mechanisms": "SCRAM-SHA-256"}
    source = parse_source_options(options, streaming=True)

    assert (source.bootstrap_servers, source.client["sasl.mechanism"]) == ("kafka:9093", "SCRAM-SHA-256")
    assert source.client["sasl.password"] == Secret(PASSWORD)
    assert "acks" not in source.client
    assert parse_sink_options({"profile": "prod", "topic": "t"}, streaming=True).client["acks"] == "all"
    with pytest.raises(ConfigError, match=r"profile 'pord'.*did you mean prod"):
        parse_source_options({"profile": "pord", "subscribe": "t"}, streaming=True)


def test_environment_variables_in_options_are_replaced_on_the_driver_and_errors_name_missing_variables(monkeypatch):
    monkeypatch.setenv("P", PASSWORD)
    options = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "kafka.sasl.username": "u"}
    filled = parse_source_options({**options, "kafka.sasl.password": "${P}"}, streaming=True)
    assert filled.client["sasl.password"] == Secret(PASSWORD)
    with pytest.raises(ConfigError, match=r"kafka\.sasl\.password: \$\{NO\}: the environment variable is not set"):
        parse_source_options({**options, "kafka.sasl.password": "${NO}"}, streaming=True)


def test_token_provider_is_sent_to_workers_as_import_path():
    place = f"{__name__}:token_of_the_day"
    options = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "kafka.sasl.oauth.token.provider": place}
    client = parse_source_options(options, streaming=True).client
    assert client["sasl.oauth.token.provider"] == place
    made = client_config(ConsumerConfig, {**client, "bootstrap.servers": "a:1"}, {})
    assert made.sasl_oauth_token_provider() == token_of_the_day()
    for bad, words in (("nowhere:f", "cannot import it"), (f"{__name__}:f", "cannot import it"), ("f", "expected")):
        with pytest.raises(ConfigError, match=words):
            parse_source_options({**options, "kafka.sasl.oauth.token.provider": bad}, streaming=True)


def test_client_settings_of_a_pipeline_reach_the_source_unchanged():
    tricky = "p${not a place} ${P} $${P}"
    kafka = (("sasl.username", "u"), ("sasl.password", Secret(tricky)))
    source = Source("input", "a:1", ("t",), kafka=kafka)

    assert parse_source_options(stream_options(source), streaming=True).client["sasl.password"] == Secret(tricky)
    assert lookup_options(source).client["sasl.password"] == Secret(tricky)
    assert tricky not in repr(source)
    assert as_spark_options([("client.id", "${A}")]) == {"kafka.client.id": "$${A}"}
