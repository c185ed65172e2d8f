"""Cluster connection of a pipeline: its settings ``profile``, ``brokers`` and ``kafka``."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.errors import ConfigError
from kohort.secret import Secret
from kohort.spark.pipeline import PipelineBuilder
from kohort.spark.pipeline.parse import parse_pipeline

PASSWORD = "planted-7f3a"
FILE = """
name: orders
brokers: kafka:9093
kafka: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: etl, sasl.password: "${P}"}
source: {topics: [orders], kafka: {session.timeout.ms: 20000}}
decode: {format: json, schema: "id long"}
sinks:
  - topic: {topic: out, kafka: {linger.ms: 20}}
  - topic: {topic: elsewhere, brokers: "other:9092"}
    name: other
dlq: {topic: orders-dlq}
"""


@pytest.fixture
def parse(tmp_path):
    return lambda text, **environ: parse_pipeline(text, tmp_path / "orders.yaml", {"P": PASSWORD, **environ})


def test_top_level_login_applies_to_all_sections_with_the_same_brokers(parse):
    found = parse(FILE)

    login: dict[str, Any] = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "etl"}
    login |= {"sasl.password": Secret(PASSWORD)}
    assert dict(found.stream.kafka) == login | {"session.timeout.ms": "20000"}
    assert found.sinks[0].client == {"bootstrap.servers": "kafka:9093", **login, "linger.ms": "20"}
    assert found.dead_letters.client == {"bootstrap.servers": "kafka:9093", **login}
    assert found.stream.client == {"bootstrap.servers": "kafka:9093", **login}
    assert PASSWORD not in repr(found)


def test_top_level_password_is_not_sent_to_a_sink_with_other_brokers(parse):
    assert parse(FILE).sinks[1].client == {"bootstrap.servers": "other:9092"}


def test_pipeline_profile_provides_brokers_and_login(parse, monkeypatch, tmp_path):
    (tmp_path / "clusters.toml").write_text(
        '[prod]\nbootstrap.servers = "kafka:9093"\nsecurity.protocol = "SASL_SSL"\nsasl.username = "etl"\n'
        'sasl.password = "${P}"\nacks = "1"\n'
    )
    monkeypatch.setenv("KOHORT_PROFILES", str(tmp_path / "clusters.toml"))
    monkeypatch.setenv("P", PASSWORD)
    text = "name: o\nprofile: prod\nsource: {topics: [t]}\ndecode: {format: json, schema: id long}\nsinks: [{noop: }]\n"

    found = parse(text).stream

    assert found.brokers == "kafka:9093"
    assert dict(found.kafka) == {
        "security.protocol": "SASL_SSL", "sasl.username": "etl", "sasl.password": Secret(PASSWORD)
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"orders\.yaml, line 2: profile 'pord'.*did you mean prod"):
        parse(text.replace("prod", "pord"))


def test_sinks_use_the_login_of_the_source_in_a_file_without_top_level_brokers(parse):
    text = FILE.replace("brokers: kafka:9093\nkafka: {", "source: {brokers: 'kafka:9093', topics: [orders], kafka: {")
    text = text.replace('"${P}"}\nsource: {topics: [orders], kafka: {session.timeout.ms: 20000}}', '"${P}"}}')
    found = parse(text)
    assert found.dead_letters.client["sasl.password"] == Secret(PASSWORD)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("sasl.mechanism: PLAIN", "sasl.mechanism: PLAINS", "line 4: .*sasl.mechanism='PLAINS'"),
        ("linger.ms", "lingre.ms", "line 8: .*did you mean kafka.linger.ms"),
        (
            "linger.ms: 20",
            "bootstrap.servers: x",
            "line 8: kafka: bootstrap.servers: remove this option, and set brokers in the section that has kafka",
        ),
        ("sasl.username: etl, ", "", "line 4: .*sasl.password needs sasl.username"),
    ],
)
def test_error_of_an_invalid_client_setting_names_its_line(parse, old, new, words):
    with pytest.raises(ConfigError, match=words) as refused:
        parse(FILE.replace(old, new))
    assert PASSWORD not in str(refused.value)


def test_pipeline_builder_passes_its_login_to_the_sinks():
    made = (
        PipelineBuilder("orders", brokers="kafka:9093", kafka={"sasl.username": "etl", "sasl.password": PASSWORD})
        .read("orders", topics=["orders"], json="id long")
        .to_topic("out")
        .build()
    )
    sink: Any = made.sinks[0]
    assert sink.client["sasl.password"] == Secret(PASSWORD)
    assert PASSWORD not in repr(made)
