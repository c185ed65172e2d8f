"""Dynamic options of brokers (KIP-226): effect, levels, sources, restart."""

import pytest

from kohort.config.dynamic_broker import DYNAMIC, OF_BROKER
from kohort.errors import ErrorCode, StorageError
from kohort.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    ReplacingConfig,
    ReplacingConfigsResource,
)
from support.machines.broker_stage import BrokerStage
from support.machines.cluster_stage import ClusterStage

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OWN_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 2, 3, 4, 5
ALL, ONE = "", "1"


def change(peer, name, *changes, validate_only=False):
    configs = [AlterableConfig(name=n, config_operation=op, value=v) for n, op, v in changes]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=configs)
    answer = peer.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only), 1)
    return ErrorCode(answer.responses[0].error_code), answer.responses[0].error_message


def put(peer, option, value, name=ALL):
    assert change(peer, name, (option, SET, str(value)))[0] == 0


def replace_all(peer, name, **options):
    configs = [ReplacingConfig(name=n, value=v) for n, v in options.items()]
    resource = ReplacingConfigsResource(resource_type=BROKER, resource_name=name, configs=configs)
    return peer.ask(AlterConfigsRequest(resources=[resource]), 2).responses[0].error_code


def described(peer, option, name=ONE, kind=BROKER):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[option])
    (result,) = peer.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4).results
    assert result.error_code == 0, result.error_message
    return [
        (c.value, c.config_source, c.read_only, [(s.name, s.value, s.source) for s in c.synonyms])
        for c in result.configs
    ]


def test_message_max_bytes_can_be_changed_and_reset_at_run_time(stage, peer):
    peer.create("a")
    assert peer.produce("a", b"v" * 200).error_code == 0

    put(peer, "message.max.bytes", 100)
    assert peer.produce("a", b"v" * 200).error_code == ErrorCode.MESSAGE_TOO_LARGE

    assert change(peer, ALL, ("message.max.bytes", DELETE, None))[0] == 0
    assert peer.produce("a", b"v" * 200).error_code == 0


def test_topic_override_precedes_a_changed_broker_default(peer):
    peer.create("a", max_message_bytes="1000")
    put(peer, "message.max.bytes", 100)

    assert peer.produce("a", b"v" * 200).error_code == 0
    assert described(peer, "max.message.bytes", "a", TOPIC)[0][:2] == ("1000", OWN_TOPIC)


def test_new_topic_has_the_changed_broker_defaults(stage, peer):
    put(peer, "log.retention.ms", 5_000)

    peer.create("a")

    assert stage.broker.state.topics.get("a").config.retention_ms == 5_000


def test_log_retention_changes_at_run_time(stage, peer):
    peer.create("a")
    peer.produce("a", b"old")
    log = stage.broker.state.topics.log("a", 0)

    put(peer, "log.retention.ms", 1_000, ONE)
    stage.advance(400_000)

    assert log.log_start_offset == 1


def test_log_cleaner_uses_changed_options(stage, peer):
    put(peer, "log.cleaner.backoff.ms", 77)
    put(peer, "log.cleaner.dedupe.buffer.size", 1 << 21)

    cleaner = stage.broker.state.topics._upkeep.cleaner
    assert (cleaner.config.log_cleaner_backoff_ms, cleaner.config.log_cleaner_dedupe_buffer_size) == (77, 1 << 21)


def test_idle_producers_expire_after_the_changed_time(stage, peer):
    put(peer, "producer.id.expiration.ms", 1_234)

    assert stage.broker.state.topics.producer_room.expire_after_ms == 1_234


def test_connection_limits_change_at_run_time(stage, peer):
    put(peer, "max.connections.per.ip", 1)
    assert "max.connections.per.ip" in stage.connect().closed

    assert change(peer, ALL, ("max.connections.per.ip.overrides", APPEND, "127.0.0.1:2"))[0] == 0
    assert stage.connect().closed is None

    put(peer, "max.connections", 2)
    assert "max.connections" in stage.connect("10.0.0.9").closed


def test_assignment_interval_changes_for_consumer_groups(stage, peer):
    put(peer, "group.consumer.assignment.interval.ms", 2_000)

    assert described(peer, "consumer.assignment.interval.ms", "g", GROUP)[0][:2] == ("2000", DYNAMIC_DEFAULT)


def test_option_synonyms_list_every_level_in_order_of_precedence(peer_of_a_set_broker):
    peer = peer_of_a_set_broker
    put(peer, "log.retention.ms", 2_000)
    put(peer, "log.segment.bytes", 4_096)
    put(peer, "log.segment.bytes", 8_192, ONE)

    name = "log.segment.bytes"
    levels = [
        (name, "8192", DYNAMIC_BROKER),
        (name, "4096", DYNAMIC_DEFAULT),
        (name, "65536", STATIC),
        (name, "1073741824", DEFAULT),
    ]
    assert described(peer, name) == [("8192", DYNAMIC_BROKER, False, levels)]
    assert described(peer, name, ALL) == [("4096", DYNAMIC_DEFAULT, False, levels[1:2])]
    peer.create("a", segment_bytes="2048")
    assert described(peer, "segment.bytes", "a", TOPIC) == [
        ("2048", OWN_TOPIC, False, [("segment.bytes", "2048", OWN_TOPIC), *levels])
    ]
    assert described(peer, "retention.ms", "a", TOPIC)[0][:2] == ("2000", DYNAMIC_DEFAULT)
    assert change(peer, ONE, (name, DELETE, None))[0] == 0
    assert described(peer, name)[0][:2] == ("4096", DYNAMIC_DEFAULT)


@pytest.fixture
def peer_of_a_set_broker():
    stage = BrokerStage(log_segment_bytes=65_536)
    return stage.connect()


def test_synonym_of_a_group_default_has_the_name_of_the_broker_option(peer):
    name = "group.consumer.session.timeout.ms"

    assert described(peer, "consumer.session.timeout.ms", "g", GROUP) == [
        ("45000", DEFAULT, False, [(name, "45000", DEFAULT)])
    ]


def test_broker_option_that_cannot_change_at_run_time_is_read_only(peer):
    assert described(peer, "num.partitions")[0][2]
    assert not described(peer, "log.retention.ms")[0][2]


def test_changed_broker_options_survive_a_restart(stage, peer):
    put(peer, "message.max.bytes", 100)
    put(peer, "num.io.threads", 12)
    peer.create("a")

    stage.restart(cleanly=False)

    peer = stage.connect()
    assert described(peer, "message.max.bytes")[0][:2] == ("100", DYNAMIC_DEFAULT)
    assert described(peer, "num.io.threads")[0][:2] == ("12", DYNAMIC_DEFAULT)
    assert stage.broker.state.topics.get("a").config.max_message_bytes == 100
    assert peer.produce("a", b"v" * 200).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_alter_configs_replaces_all_options_of_the_broker_or_of_the_default(peer):
    put(peer, "message.max.bytes", 100)
    put(peer, "message.max.bytes", 200, ONE)

    assert replace_all(peer, ALL, **{"log.retention.ms": "5000"}) == 0

    assert described(peer, "message.max.bytes", ALL) == []
    assert described(peer, "message.max.bytes")[0][:2] == ("200", DYNAMIC_BROKER)


def test_append_extends_a_list_option_that_was_set_at_broker_start(peer):
    assert change(peer, ALL, ("log.cleanup.policy", APPEND, "compact"))[0] == 0
    assert described(peer, "log.cleanup.policy")[0][0] == "delete,compact"

    assert change(peer, ALL, ("log.cleanup.policy", SUBTRACT, "delete"))[0] == 0
    assert described(peer, "log.cleanup.policy")[0][0] == "compact"


@pytest.mark.parametrize("option", ["num.partitions", "log.retention.hours", "listeners", "auto.create.topics.enable"])
@pytest.mark.parametrize("name", [ALL, ONE])
def test_change_of_a_static_broker_option_is_rejected(peer, option, name):
    code, message = change(peer, name, (option, SET, "1"))

    assert (code, message) == (ErrorCode.INVALID_REQUEST, f"{option} can only be set when a broker starts")


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("message.max.bytes", "-1", "expected an integer >= 0"),
        ("log.cleanup.policy", "shrink", "expected one of delete, compact"),
        ("compression.type", "zip", "expected one of producer"),
        ("max.connections.per.ip.overrides", "here:7", "expected ADDRESS:COUNT"),
    ],
)
def test_invalid_value_of_a_broker_option_is_rejected_without_effect(stage, peer, option, value, reason):
    before = stage.broker.state.config

    code, message = change(peer, ALL, ("log.retention.ms", SET, "5"), (option, SET, value))

    assert code == ErrorCode.INVALID_REQUEST
    assert reason in message
    assert stage.broker.state.config is before


def test_validate_only_changes_no_broker_option(stage, peer):
    assert change(peer, ALL, ("message.max.bytes", SET, "100"), validate_only=True)[0] == 0

    assert described(peer, "message.max.bytes", ALL) == []
    assert stage.broker.state.config.message_max_bytes == 1048588


def test_failed_write_changes_no_broker_option(stage, peer, monkeypatch):
    def refuse(name, data, *, private=False):
        raise StorageError("the disk is full")

    monkeypatch.setattr(stage.storage, "replace", refuse)

    code, message = change(peer, ALL, ("message.max.bytes", SET, "100"))

    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "kohort-broker-options.json cannot be written" in message
    assert stage.broker.state.config.message_max_bytes == 1048588


@pytest.mark.parametrize(
    "content", [b"{", b'{"version": 2}', b'{"version": 1, "options": {"": {"no.such": "1"}}}', b'{"version": 1}']
)
def test_invalid_broker_options_file_prevents_the_broker_start_with_advice(stage, content):
    stage.broker.close(stage.now_ms)
    stage.storage.replace("kohort-broker-options.json", content)

    with pytest.raises(
        StorageError, match=r"kohort-broker-options.json cannot be read .* Repair the file, or remove it"
    ):
        stage.start()


def test_each_dynamic_broker_option_accepts_its_default(peer):
    for option in DYNAMIC.values():
        value = ",".join(option.default) if isinstance(option.default, list) else option.default
        if value is not None and not option.name.startswith("sasl."):
            put(peer, option.name, str(value).lower() if isinstance(value, bool) else value)
    assert {"log.retention.ms", "message.max.bytes", "max.connections", "compression.type"} <= OF_BROKER.keys()


def test_default_of_all_brokers_is_in_force_on_every_node():
    stage = ClusterStage(3)
    peers = {node_id: node.connect() for node_id, node in stage.nodes.items()}

    put(peers[2], "message.max.bytes", 100)

    assert {node.broker.state.config.message_max_bytes for node in stage.nodes.values()} == {100}
    assert [described(peers[n], "message.max.bytes", str(n))[0][:2] for n in peers] == [("100", DYNAMIC_DEFAULT)] * 3


def test_option_of_one_node_does_not_affect_other_nodes_or_the_shared_logs():
    stage = ClusterStage(3)
    peers = {node_id: node.connect() for node_id, node in stage.nodes.items()}
    peers[1].create("a")

    put(peers[2], "max.connections", 5, "2")
    put(peers[2], "log.retention.ms", 5_000, "2")

    assert {n: node.broker.state.config.max_connections == 5 for n, node in stage.nodes.items()} == {
        1: False,
        2: True,
        3: False,
    }
    assert stage.cluster.topics.get("a").config.retention_ms == 604_800_000
    assert described(peers[2], "retention.ms", "a", TOPIC)[0][:2] == ("604800000", DEFAULT)

    stage.restart()
    assert described(stage.nodes[2].connect(), "max.connections", "2")[0][:2] == ("5", DYNAMIC_BROKER)
