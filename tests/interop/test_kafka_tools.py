"""Kafka's own command-line tools work on our broker as on theirs."""

from __future__ import annotations

import re
import uuid

import pytest

from kohort import Admin, Broker, ConfigResource, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from support.peers.kafka_tools import kafka

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def admin(ours):
    with Admin(bootstrap_servers=ours) as client:
        yield client


@pytest.fixture
def topic():
    return f"tools-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def to(ours):
    return ("--bootstrap-server", ours)


def fill(bootstrap, topic, count):
    with Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(count):
            producer.send(topic, b"%d" % n, partition=0)


def table(printed, first):
    """The rows that begin with ``first``, as lists of words."""
    return sorted(line.split() for line in printed.splitlines() if line.startswith(first))


def test_topics_and_configs(to, admin, topic):
    created = ["--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=1234567"]
    assert f"Created topic {topic}." in kafka("topics", *to, *created)
    assert "already exists" in kafka("topics", *to, *created, fails=True)
    kafka("topics", *to, "--alter", "--topic", topic, "--partitions", "3")
    described = kafka("topics", *to, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert re.search(r"Partition: 2\s+Leader: 1\s+Replicas: 1\s+Isr: 1", described)

    entity = ("--entity-type", "topics", "--entity-name", topic)
    kafka(
        "configs", *to, *entity, "--alter", "--add-config", "max.message.bytes=2000", "--delete-config", "retention.ms"
    )
    shown = kafka("configs", *to, *entity, "--describe")
    assert "max.message.bytes=2000" in shown
    assert "retention.ms" not in shown
    assert admin.describe_configs([ConfigResource("topic", topic)])[ConfigResource("topic", topic)][
        "retention.ms"
    ].is_default

    kafka("topics", *to, "--delete", "--topic", topic)
    assert topic not in kafka("topics", *to, "--list").splitlines()


EVERY_OTHER_OPTION = {
    "unclean.leader.election.enable": "true",
    "preallocate": "true",
    "file.delete.delay.ms": "1",
    "segment.jitter.ms": "100",
    "compression.gzip.level": "1",
    "compression.lz4.level": "1",
    "compression.zstd.level": "1",
    "leader.replication.throttled.replicas": "0:1",
    "follower.replication.throttled.replicas": "*",
    "local.retention.ms": "1",
    "local.retention.bytes": "1",
    "remote.storage.enable": "false",
    "remote.log.copy.disable": "true",
    "remote.log.delete.on.disable": "true",
}
"""Topic options of Kafka that kohort stores without effect."""


def test_options_without_effect_are_kept(to, topic):
    config_options = [word for name, value in EVERY_OTHER_OPTION.items() for word in ("--config", f"{name}={value}")]
    kafka("topics", *to, "--create", "--topic", topic, *config_options)

    shown = kafka("configs", *to, "--entity-type", "topics", "--entity-name", topic, "--describe")

    for name, value in EVERY_OTHER_OPTION.items():
        assert f"  {name}={value} " in shown
    changed = ("--entity-type", "topics", "--entity-name", topic, "--alter", "--add-config")
    output = kafka("configs", *to, *changed, "remote.storage.enable=true", fails=True)
    assert "tiered storage is not supported" in output


@pytest.mark.parametrize("kind", ["groups", "client-metrics", "broker-loggers"])
def test_describe_resource_without_options(kind):
    with Broker() as broker:  # on a shared broker a group with an empty id makes the tool fail
        everyone = ("configs", "--bootstrap-server", broker.bootstrap, "--describe", "--entity-type", kind)
        if kind != "broker-loggers":  # the tool wants a name there
            kafka(*everyone)
        kafka(*everyone, "--entity-name", "1")


def test_without_an_authorizer_acls_are_refused_in_kafkas_words(to):
    assert "No Authorizer is configured on the broker" in kafka("acls", *to, "--list", fails=True)


def test_client_metrics_are_listed_though_there_are_none(to):
    kafka("client-metrics", *to, "--list")


def test_a_reassignment_with_throttles_is_carried_out_verified_and_cancelled(topic, tmp_path):
    plan_path = tmp_path / "wanted.json"
    plan_path.write_text(
        f'{{"version": 1, "partitions": [{{"topic": "{topic}", "partition": 0, "replicas": [3, 1]}}]}}'
    )
    with Broker(nodes=3) as brokers:
        to = ("--bootstrap-server", brokers.bootstrap)
        what = (*to, "--reassignment-json-file", str(plan_path))
        kafka("topics", *to, "--create", "--topic", topic, "--replica-assignment", "1:2")
        throttled = ("--throttle", "1000", "--replica-alter-log-dirs-throttle", "5000")
        assert "throttle limit was set to 1000 B/s" in kafka("reassign-partitions", *what, "--execute", *throttled)
        entity = ("--entity-type", "brokers", "--entity-name", "3")
        assert "leader.replication.throttled.rate=1000" in kafka("configs", *to, *entity, "--describe")

        output = kafka("reassign-partitions", *what, "--verify")

        assert f"Reassignment of partition {topic}-0 is completed." in output
        assert "throttled" not in kafka("configs", *to, *entity, "--describe")
        assert "throttled" not in kafka("configs", *to, "--entity-type", "topics", "--entity-name", topic, "--describe")
        assert "Clearing topic-level throttles" in kafka("reassign-partitions", *what, "--cancel")


def test_hanging_transactions_are_looked_for_on_every_broker(topic):
    with (
        Broker(nodes=3) as brokers,
        Producer(bootstrap_servers=brokers.bootstrap, transactional_id=topic) as producer,
        Admin(bootstrap_servers=brokers.bootstrap) as admin,
    ):
        admin.create_topics([NewTopic(topic, 3, 2)])
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(3):
            producer.send(topic, b"v", partition=partition)
        producer.flush()
        to = ("--bootstrap-server", brokers.bootstrap)
        for node in ("1", "2", "3"):
            output = kafka("transactions", *to, "find-hanging", "--broker-id", node)
            assert output.split()[:3] == ["Topic", "Partition", "ProducerId"]
        producer.abort_transaction()


def test_console_clients_and_offsets(to, ours, admin, topic):
    admin.create_topics({topic: 1})
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    kafka("console-producer", *to, "--topic", topic, *keyed, "--compression-codec", "lz4", stdin="a:1\nb:2\nc:3\n")
    with Consumer(bootstrap_servers=ours, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = []
        while len(found) < 3:
            found += consumer.poll(10_000)
    assert [(r.key, r.value) for r in found] == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]

    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
    options = ("--topic", topic, "--group", topic, "--from-beginning", "--max-messages", "3")
    printed = kafka("console-consumer", *to, *options, *shown)
    assert [line for line in printed.splitlines() if line.startswith("Offset")] == [
        "Offset:0\ta\t1",
        "Offset:1\tb\t2",
        "Offset:2\tc\t3",
    ]
    assert admin.list_group_offsets(topic)[TopicPartition(topic, 0)].offset == 3
    assert f"{topic}:0:3" in kafka("get-offsets", *to, "--topic", topic).splitlines()
    assert f"{topic}:0:0" in kafka("get-offsets", *to, "--topic", topic, "--time", "earliest").splitlines()


def test_consumer_groups(to, ours, admin, topic):
    admin.create_topics({topic: 2})
    fill(ours, topic, 10)
    with Consumer(bootstrap_servers=ours, group_id=topic, group_instance_id="one", client_id="reader") as consumer:
        consumer.subscribe([topic])
        while len(consumer.assignment()) < 2:
            consumer.poll(100)
        consumer.commit(
            {TopicPartition(topic, 0): OffsetAndMetadata(4), TopicPartition(topic, 1): OffsetAndMetadata(0)}
        )
        rows = table(kafka("consumer-groups", *to, "--describe", "--group", topic), topic)
        assert [row[1:6] for row in rows] == [[topic, "0", "4", "10", "6"], [topic, "1", "0", "0", "0"]]
        assert all(row[6].startswith("one-") and row[7:] == ["/127.0.0.1", "reader"] for row in rows)
        (state,) = table(kafka("consumer-groups", *to, "--describe", "--group", topic, "--state"), topic)
        assert state[1:] == [ours, "(1)", "range", "Stable", "1"]
        consumer.seek(TopicPartition(topic, 0), 4)
    assert table(kafka("consumer-groups", *to, "--list", "--state"), topic) == [[topic, "Stable"]]

    members = ["--group", topic, "--members"]
    instances = kafka("consumer-groups", *to, "--describe", *members)
    assert topic in instances, "a static member stays until its session ends"


def test_offsets_are_reset_and_groups_deleted(to, ours, admin, topic):
    admin.create_topics({topic: 2})
    fill(ours, topic, 10)
    admin.alter_group_offsets(topic, {TopicPartition(topic, p): OffsetAndMetadata(5) for p in (0, 1)})

    def reset(*how):
        arguments = ("--group", topic, "--reset-offsets", *how, "--execute")
        return [row[1:4] for row in table(kafka("consumer-groups", *to, *arguments), topic)]

    assert reset("--topic", f"{topic}:0", "--shift-by", "-2") == [[topic, "0", "3"]]
    assert reset("--all-topics", "--to-latest") == [[topic, "0", "10"], [topic, "1", "0"]]
    assert {tp.partition: at.offset for tp, at in admin.list_group_offsets(topic).items()} == {0: 10, 1: 0}
    kafka("consumer-groups", *to, "--delete-offsets", "--group", topic, "--topic", f"{topic}:1")
    assert list(admin.list_group_offsets(topic)) == [TopicPartition(topic, 0)]
    assert [topic, "Classic"] in [row[:2] for row in table(kafka("groups", *to, "--list"), topic)]
    kafka("consumer-groups", *to, "--delete", "--group", topic)
    assert topic not in [listing.group_id for listing in admin.list_groups()]


def test_records_are_deleted(to, ours, admin, topic, tmp_path):
    admin.create_topics({topic: 1})
    fill(ours, topic, 10)
    offsets_path = tmp_path / "wanted.json"
    offsets_path.write_text(f'{{"version": 1, "partitions": [{{"topic": "{topic}", "partition": 0, "offset": 6}}]}}')

    assert "low_watermark: 6" in kafka("delete-records", *to, "--offset-json-file", str(offsets_path))
    assert f"{topic}:0:6" in kafka("get-offsets", *to, "--topic", topic, "--time", "earliest").splitlines()


def test_the_cluster_and_its_api_versions(to, admin):
    assert f"Cluster ID: {admin.describe_cluster().cluster_id}" in kafka("cluster", "cluster-id", *to)
    shown = kafka("broker-api-versions", *to)
    for name in ("Produce", "Fetch", "JoinGroup", "SyncGroup", "OffsetCommit", "OffsetFetch", "ListOffsets"):
        assert re.search(rf"{name}\(\d+\): .* \[usable: \d+\]", shown), name


def test_perf_tests(to, ours, admin, topic):
    admin.create_topics({topic: 3})
    load = ("--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    output = kafka("producer-perf-test", "--topic", topic, *load, "--bootstrap-server", ours)
    assert "5000 records sent" in output
    printed = kafka("consumer-perf-test", *to, "--topic", topic, "--num-records", "5000", "--timeout", "30000")
    figures = next(line for line in printed.splitlines() if re.match(r"\d{4}-", line)).split(", ")
    assert figures[4] == "5000"
