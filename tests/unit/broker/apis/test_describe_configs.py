"""DescribeConfigs: values, origins, synonyms, types, documentation."""

import pytest

from kohort.broker.apis.describe_configs import LATE, LATE_MAX, LOAD_AVG, LOAD_MAX, LOADS, MEASURES
from kohort.config.dynamic_broker import OF_BROKER
from kohort.errors import ErrorCode
from kohort.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from support.machines.broker_stage import BrokerStage

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
KAFKA_4_4 = {
    "cleanup.policy": ("delete", 7, "log.cleanup.policy"),
    "compression.gzip.level": ("-1", 3, "compression.gzip.level"),
    "compression.lz4.level": ("9", 3, "compression.lz4.level"),
    "compression.type": ("producer", 2, "compression.type"),
    "compression.zstd.level": ("3", 3, "compression.zstd.level"),
    "delete.retention.ms": ("86400000", 5, "log.cleaner.delete.retention.ms"),
    "errors.deadletterqueue.group.enable": ("false", 1, None),
    "file.delete.delay.ms": ("60000", 5, "log.segment.delete.delay.ms"),
    "flush.messages": ("9223372036854775807", 5, "log.flush.interval.messages"),
    "flush.ms": ("9223372036854775807", 5, None),
    "follower.replication.throttled.replicas": ("", 7, None),
    "index.interval.bytes": ("4096", 3, "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": ("", 7, None),
    "local.retention.bytes": ("-2", 5, "log.local.retention.bytes"),
    "local.retention.ms": ("-2", 5, "log.local.retention.ms"),
    "max.compaction.lag.ms": ("9223372036854775807", 5, "log.cleaner.max.compaction.lag.ms"),
    "max.decompressed.message.bytes": ("2147483639", 3, "max.decompressed.message.bytes"),
    "max.message.bytes": ("1048588", 3, "message.max.bytes"),
    "message.timestamp.after.max.ms": ("3600000", 5, "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": ("9223372036854775807", 5, "log.message.timestamp.before.max.ms"),
    "message.timestamp.type": ("CreateTime", 2, "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": ("0.5", 6, "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": ("0", 5, "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": ("1", 3, "min.insync.replicas"),
    "preallocate": ("false", 1, "log.preallocate"),
    "remote.copy.lag.bytes": ("-1", 5, "log.remote.copy.lag.bytes"),
    "remote.copy.lag.ms": ("0", 5, "log.remote.copy.lag.ms"),
    "remote.log.copy.disable": ("false", 1, None),
    "remote.log.delete.on.disable": ("false", 1, None),
    "remote.storage.enable": ("false", 1, None),
    "retention.bytes": ("-1", 5, "log.retention.bytes"),
    "retention.ms": ("604800000", 5, None),
    "segment.bytes": ("1073741824", 3, "log.segment.bytes"),
    "segment.index.bytes": ("10485760", 3, "log.index.size.max.bytes"),
    "segment.jitter.ms": ("0", 5, None),
    "segment.ms": ("604800000", 5, None),
    "unclean.leader.election.enable": ("false", 1, "unclean.leader.election.enable"),
}
"""Options of a new topic in Apache Kafka 4.4: default, type, inherited broker option."""


def describe(peer, kind: int, name: str, keys=None, version: int = 4, **options):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return peer.ask(DescribeConfigsRequest(resources=[resource], **options), version).results[0]


def test_topic_option_precedes_broker_option_and_default():
    peer = BrokerStage(**{"log.retention.ms": 5000}).connect()
    peer.create("a", retention_ms="1000")

    (config,) = describe(peer, TOPIC, "a", ["retention.ms"], include_synonyms=True).configs

    assert (config.value, config.config_source, config.config_type, config.read_only) == ("1000", 1, 5, False)
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [
        ("retention.ms", "1000", 1),
        ("log.retention.ms", "5000", 4),
    ]


def test_topic_has_kafkas_options_defaults_types_and_synonyms(peer):
    peer.create("a")

    configs = describe(peer, TOPIC, "a", include_synonyms=True, include_documentation=True).configs

    assert {c.name: (c.value, c.config_type, c.synonyms[0].name if c.synonyms else None) for c in configs} == KAFKA_4_4
    assert {(c.config_source, c.read_only) for c in configs} == {(5, False)}
    assert all(c.documentation for c in configs)


def test_integer_options_are_described_with_the_type_of_their_size(peer):
    types = {c.name: c.config_type for c in describe(peer, BROKER, "1").configs}

    short, of_32, of_64 = 4, 3, 5
    assert types["offsets.topic.replication.factor"] == short
    assert types["group.max.session.timeout.ms"] == types["num.partitions"] == of_32
    assert types["log.retention.bytes"] == types["log.retention.ms"] == types["log.cleaner.dedupe.buffer.size"] == of_64


def test_option_documentation_is_returned_on_request(peer):
    peer.create("a")

    (with_doc,) = describe(peer, TOPIC, "a", ["cleanup.policy"], include_documentation=True).configs
    (without,) = describe(peer, TOPIC, "a", ["cleanup.policy"]).configs

    assert with_doc.documentation == "Treatment of old segments."
    assert (without.documentation, without.synonyms, without.config_type) == (None, [], 7)


def test_describe_configs_of_a_broker_returns_each_broker_option(peer):
    configs = {c.name: c for c in describe(peer, BROKER, "1").configs}

    assert configs["group.initial.rebalance.delay.ms"].value == "0"
    assert configs["group.initial.rebalance.delay.ms"].config_source == 4
    assert (configs["auto.create.topics.enable"].value, configs["auto.create.topics.enable"].config_type) == ("true", 1)
    assert configs["cluster.id"].value is None
    assert {name for name, c in configs.items() if not c.read_only} == set(OF_BROKER)


def test_node_statistics_are_described_only_if_requested_by_name(stage, peer):
    stage.broker.state.counters.loaded(30)
    stage.broker.state.counters.loaded(11)
    stage.broker.state.counters.late.add(40, 0)
    node_id = str(stage.broker.state.node.node_id)

    result = describe(peer, BROKER, node_id, keys=list(MEASURES))

    values = {config.name: config.value for config in result.configs}
    assert values.pop(LATE).isdecimal()
    assert values == {LOADS: "2", LOAD_AVG: "20", LOAD_MAX: "30", LATE_MAX: "40"}
    assert all(config.read_only for config in result.configs)
    assert not MEASURES.keys() & {config.name for config in describe(peer, BROKER, node_id).configs}
    assert describe(peer, BROKER, "", keys=list(MEASURES)).configs == []


def test_secret_options_are_described_without_value():
    peer = BrokerStage(**{"ssl.key.password": "planted"}).connect()
    names = ["ssl.key.password", "ssl.keystore.password"]

    configured, absent = describe(peer, BROKER, "1", names, include_synonyms=True).configs

    assert "planted" not in repr([configured, absent])
    for config in (configured, absent):
        assert (config.value, config.is_sensitive, config.config_type) == (None, True, 9)
    assert sorted(config.config_source for config in (configured, absent)) == [4, 5]


def test_each_version_of_describe_configs_is_answered(peer):
    peer.create("a")

    assert {len(describe(peer, TOPIC, "a", version=v).configs) for v in range(1, 5)} == {len(KAFKA_4_4)}


def test_empty_list_of_options_requests_all_options(peer):
    peer.create("a")

    assert describe(peer, TOPIC, "a", []) == describe(peer, TOPIC, "a")


def test_describe_configs_rejects_an_unknown_resource(peer):
    assert describe(peer, TOPIC, "no/name").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert describe(peer, TOPIC, "zzz").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(peer, BROKER, "9").error_code == ErrorCode.INVALID_REQUEST
    assert describe(peer, 99, "a").error_code == ErrorCode.INVALID_REQUEST
    assert describe(peer, BROKER, "").configs == []


def test_resource_type_without_options_has_an_empty_list_of_options(peer):
    result = describe(peer, LOGGER, "1")
    assert (result.error_code, result.configs) == (ErrorCode.NONE, [])


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (LOGGER, "", "unknown broker '': this is broker 1"),
        (LOGGER, "9", "unknown broker '9': this is broker 1"),
        (GROUP, "", "Default group resources are not allowed."),
        (METRICS, "", "Client metrics subscription name must not be empty"),
        (99, "a", "unknown resource type 99"),
    ],
)
def test_error_message_names_the_resource_type(peer, kind, name, words):
    result = describe(peer, kind, name)

    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, words)
