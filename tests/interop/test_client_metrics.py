"""Other clients push their metrics by themselves, as they are (KIP-714), and Kafka's tool says which."""

from __future__ import annotations

import json
import uuid

import pytest
from click.testing import CliRunner

import kohort
from kohort import Admin, Broker, ConfigResource, Producer
from kohort.cli.main import main
from support.peers.client_programs import as_parameters, program, talk
from support.peers.kafka_tools import kafka
from support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]
EAGER = {"kohort.client.metrics.default.interval.ms": 300, "group.initial.rebalance.delay.ms": 0}
CONSUMER = "org.apache.kafka.consumer."
CLIENTS = {
    "java-newest": ("apache-kafka-java", {f"{CONSUMER}last.poll.seconds.ago", f"{CONSUMER}time.between.poll.max"}),
    "confluent-newest": ("confluent-kafka-python", {f"{CONSUMER}coordinator.commit.latency.avg"}),
    "go-franz": ("kgo", {f"{CONSUMER}node.request.latency.max"}),
}
"""The name of each client's software, and what it says of itself among other things. franz-go takes ``*`` for the
beginning of a name, and would then say nothing."""


@pytest.fixture(scope="module")
def eager():
    """A broker that asks for metrics every 300 ms; clients on librdkafka by a subscription."""
    with Broker(EAGER) as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"pushed": 1})
            configs = {
                "metrics": CONSUMER,
                "interval.ms": "300",
                "match": "client_software_name=confluent-kafka-python",
            }
            admin.alter_configs({ConfigResource("client_metrics", "on-librdkafka"): configs})
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("pushed", b"a").result(30_000)
        yield broker.bootstrap


def shown(bootstrap, *chosen):
    """Return the command's output about clients."""
    result = CliRunner().invoke(main, ["client-metrics", "show", *chosen, "--bootstrap", bootstrap, "--output", "json"])
    return json.loads(result.stdout)["clients"] if result.exit_code == 0 else []


@pytest.mark.parametrize("client", as_parameters(CLIENTS))
def test_consumer_pushes_and_the_command_shows_its_metrics(eager, client):
    group = f"{client}-{uuid.uuid4().hex[:6]}"
    software, expected = CLIENTS[client]

    with talk((*program(client), "consume", eager, group, "pushed", "-", "-")) as consumer:
        while "read" not in consumer.hear():
            pass
        (report,) = eventually(
            lambda: [c for c in shown(eager, "--group", group) if expected <= {v["metric"] for v in c["values"]}],
            "it pushed nothing",
        )

    assert report["software"].startswith(software)
    assert report["interval_ms"] == 300
    assert {value["metric"] for value in report["values"] if not value["metric"].startswith(CONSUMER)} == set()


@pytest.mark.kafka
def test_kafkas_own_tool_makes_describes_and_deletes_subscriptions(ours):
    to, name = ("--bootstrap-server", ours), f"s-{uuid.uuid4().hex[:6]}"
    what = ("--metrics", "org.apache.kafka.consumer.,org.apache.kafka.producer.", "--interval", "5000")
    match = ("--match", "client_software_name=apache-kafka-java,client_software_version=4\\..*")

    assert f"Altered client metrics config for {name}." in kafka(
        "client-metrics", *to, "--alter", "--name", name, *what, *match
    )
    described = kafka("client-metrics", *to, "--describe", "--name", name)
    assert "interval.ms=5000" in described
    assert "metrics=org.apache.kafka.consumer.,org.apache.kafka.producer." in described
    assert "match=client_software_name=apache-kafka-java,client_software_version=4\\..*" in described
    assert name in kafka("client-metrics", *to, "--list").splitlines()
    output = kafka("client-metrics", *to, "--alter", "--name", name, "--interval", "5", fails=True)
    assert "interval must be between 100 and 3600000" in output

    with kohort.Admin(bootstrap_servers=ours) as admin:
        assert ConfigResource("client_metrics", name) in admin.list_config_resources(["client_metrics"])
    assert f"Deleted client metrics config for {name}." in kafka("client-metrics", *to, "--delete", "--name", name)
    assert name not in kafka("client-metrics", *to, "--list").splitlines()


@pytest.mark.kafka
def test_kafkas_configs_tool_knows_them_too(ours):
    to, name = ("--bootstrap-server", ours), f"c-{uuid.uuid4().hex[:6]}"
    entity = ("--entity-type", "client-metrics", "--entity-name", name)

    kafka("configs", *to, *entity, "--alter", "--add-config", "interval.ms=1000,metrics=[a.,b.]")

    assert "metrics=a.,b." in kafka("configs", *to, *entity, "--describe")
    kafka("configs", *to, *entity, "--alter", "--delete-config", "interval.ms,metrics")
    assert name not in kafka("client-metrics", *to, "--list").splitlines()
