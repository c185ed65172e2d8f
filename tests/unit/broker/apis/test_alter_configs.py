"""AlterConfigs and IncrementalAlterConfigs for topics."""

import pytest

from kohort.errors import ErrorCode
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

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
RATE = "leader.replication.throttled.rate"
RELOGIN = "sasl.kerberos.min.time.before.relogin"
RULES = "sasl.kerberos.principal.to.local.rules"
THROTTLED = "leader.replication.throttled.replicas"


@pytest.fixture
def topic(stage, peer):
    peer.create("orders", retention_ms="1000")
    return stage.broker.state.topics.get("orders")


def change(peer, *changes, name="orders", kind=TOPIC, validate_only=False, times=1):
    configs = [AlterableConfig(name=n, config_operation=op, value=v) for n, op, v in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource] * times, validate_only=validate_only)
    answers = [peer.ask(request, version).responses[0] for version in (0, 1)]
    assert answers[0] == answers[1]
    return ErrorCode(answers[0].error_code)


def replace(peer, name="orders", kind=TOPIC, **configs):
    resource = ReplacingConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[ReplacingConfig(name=n.replace("_", "."), value=v) for n, v in configs.items()],
    )
    answers = [peer.ask(AlterConfigsRequest(resources=[resource]), version).responses[0] for version in range(3)]
    return ErrorCode(answers[-1].error_code)


def test_incremental_alter_configs_changes_named_options_and_keeps_others(peer, topic):
    assert change(peer, ("segment.bytes", SET, "4096"), ("max.message.bytes", SET, "99")) == 0
    assert topic.overrides == {"retention.ms": "1000", "segment.bytes": "4096", "max.message.bytes": "99"}
    assert topic.partitions[0].config.segment_bytes == 4096

    assert change(peer, ("retention.ms", DELETE, None)) == 0

    assert topic.config.retention_ms == 604_800_000


def test_append_and_subtract_change_a_list_option_of_a_topic(peer, topic):
    assert change(peer, ("cleanup.policy", APPEND, "compact")) == 0
    assert topic.config.cleanup_policy == ["delete", "compact"]
    assert change(peer, ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert topic.config.cleanup_policy == ["compact"]
    assert change(peer, ("retention.ms", APPEND, "5")) == ErrorCode.INVALID_CONFIG


def test_append_and_subtract_change_an_empty_list_option_of_a_topic(peer, topic):
    assert change(peer, (THROTTLED, APPEND, "0:1")) == 0
    assert change(peer, (THROTTLED, APPEND, "0:1, 1:1")) == 0
    assert topic.config.leader_replication_throttled_replicas == ["0:1", "1:1"]
    assert change(peer, (THROTTLED, SUBTRACT, "1:1,0:1")) == 0
    assert topic.overrides[THROTTLED] == ""
    assert change(peer, (THROTTLED, APPEND, "many")) == ErrorCode.INVALID_CONFIG


def described(peer, name, option=RATE):
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name=name, configuration_keys=[option])
    configs = peer.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4).results[0].configs
    return [[(s.name, s.value, s.source) for s in c.synonyms] for c in configs]


@pytest.mark.parametrize(
    ("kind", "name"), [(TOPIC, "orders"), (BROKER, "1"), (BROKER, ""), (GROUP, "g"), (METRICS, "m")]
)
@pytest.mark.parametrize("option", [RATE, "num.io.threads", "nonsense"])
def test_delete_of_an_unset_topic_option_succeeds(peer, topic, kind, name, option):
    assert change(peer, (option, DELETE, None), kind=kind, name=name) == 0


def test_replication_rate_options_are_described_until_they_are_deleted(peer):
    assert change(peer, (RATE, SET, "7"), kind=BROKER, name="1", validate_only=True) == 0
    assert described(peer, "1") == []

    assert change(peer, (RATE, SET, "5"), kind=BROKER, name="") == 0
    assert change(peer, (RATE, SET, "7"), kind=BROKER, name="1") == 0

    dynamic, dynamic_default = 2, 3
    assert described(peer, "1") == [[(RATE, "7", dynamic), (RATE, "5", dynamic_default)]]
    assert described(peer, "") == [[(RATE, "5", dynamic_default)]]
    assert change(peer, (RATE, DELETE, None), kind=BROKER, name="1") == 0
    assert described(peer, "1") == [[(RATE, "5", dynamic_default)]]
    assert replace(peer, "", BROKER) == 0
    assert described(peer, "1") == []


@pytest.mark.parametrize(
    ("option", "value", "stored"),
    [
        (RELOGIN, "58000", "58000"),
        ("sasl.kerberos.kinit.cmd", "/bin/kinit", "/bin/kinit"),
        (RULES, "RULE:[1:$1], DEFAULT", "RULE:[1:$1],DEFAULT"),
        ("sasl.login.refresh.window.factor", "0.9", "0.9"),
        ("num.io.threads", "12", "12"),
        ("log.cleaner.io.max.bytes.per.second", "1000", "1000.0"),
    ],
)
def test_options_without_effect_can_be_changed_at_run_time(peer, option, value, stored):
    assert replace(peer, "1", BROKER, **{option: value}) == 0

    assert described(peer, "1", option) == [[(option, stored, 2)]]
    assert replace(peer, "1", BROKER) == 0
    assert described(peer, "1", option) == []


def test_append_and_subtract_change_a_list_option_of_a_broker(peer):
    def changed(operation, value):
        configs = [AlterableConfig(name=RULES, config_operation=operation, value=value)]
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=configs)
        answer = peer.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]
        return answer.error_code, described(peer, "1", RULES)[0][0][1]

    assert changed(APPEND, "RULE:[1:$1]") == (0, "DEFAULT,RULE:[1:$1]")
    assert changed(SUBTRACT, "DEFAULT") == (0, "RULE:[1:$1]")


def test_min_compaction_lag_must_not_exceed_max_compaction_lag(stage, peer, topic):
    lags = ("min.compaction.lag.ms", SET, "11"), ("max.compaction.lag.ms", SET, "10")
    assert change(peer, *lags) == ErrorCode.INVALID_CONFIG
    assert change(peer, lags[0]) == 0

    lower = BrokerStage(stage.storage, log_cleaner_max_compaction_lag_ms=10)

    assert lower.broker.state.topics.get("orders").config.min_compaction_lag_ms == 11


def test_alter_configs_resets_topic_options_missing_in_the_request(peer, topic):
    assert replace(peer, segment_bytes="4096") == 0

    assert topic.overrides == {"segment.bytes": "4096"}


def test_changed_topic_options_survive_a_restart(peer, stage, topic):
    change(peer, ("segment.bytes", SET, "4096"))

    stage.restart()

    assert stage.broker.state.topics.get("orders").config.segment_bytes == 4096


def test_validate_only_changes_no_topic_option(peer, topic):
    assert change(peer, ("segment.bytes", SET, "4096"), validate_only=True) == 0
    assert change(peer, ("segment.bytes", SET, "few"), validate_only=True) == ErrorCode.INVALID_CONFIG

    assert topic.overrides == {"retention.ms": "1000"}


@pytest.mark.parametrize(
    ("changes", "where", "code"),
    [
        ([("segment.bites", SET, "1")], {}, ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", SET, "1")], {}, ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", SET, None)], {}, ErrorCode.INVALID_REQUEST),
        ([("segment.bytes", SET, "4096"), ("segment.bytes", DELETE, None)], {}, ErrorCode.INVALID_REQUEST),
        ([("segment.bytes", SET, "4096")], {"times": 2}, ErrorCode.INVALID_REQUEST),
        ([("cleanup.policy", 9, "compact")], {}, ErrorCode.INVALID_REQUEST),
        ([("segment.bytes", SET, "4096")], {"name": "nope"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([("num.partitions", SET, "4")], {"kind": BROKER, "name": "1"}, ErrorCode.INVALID_REQUEST),
        ([("num.partitions", SET, "4")], {"kind": BROKER, "name": ""}, ErrorCode.INVALID_REQUEST),
        ([("kohort.stopped.nodes", APPEND, "1")], {"kind": BROKER, "name": ""}, ErrorCode.INVALID_CONFIG),
        ([("a", SET, "INFO")], {"kind": LOGGER}, ErrorCode.INVALID_REQUEST),
        ([("a", SET, "INFO")], {"kind": LOGGER, "name": "1"}, ErrorCode.INVALID_CONFIG),
        ([("consumer.session.timeout.ms", APPEND, "50000")], {"kind": GROUP}, ErrorCode.INVALID_CONFIG),
        ([("interval.ms", DELETE, None)], {"kind": METRICS, "name": ""}, ErrorCode.INVALID_REQUEST),
        ([("a", DELETE, None)], {"kind": 99}, ErrorCode.INVALID_REQUEST),
        ([("nonsense", SET, "4")], {"kind": BROKER, "name": "1"}, ErrorCode.INVALID_CONFIG),
        ([(RATE, SET, "fast")], {"kind": BROKER, "name": "1"}, ErrorCode.INVALID_REQUEST),
        ([(RATE, SET, "-1")], {"kind": BROKER, "name": "1"}, ErrorCode.INVALID_REQUEST),
        ([(RATE, SET, None)], {"kind": BROKER, "name": "1"}, ErrorCode.INVALID_REQUEST),
        ([(RATE, APPEND, "5")], {"kind": BROKER, "name": "1"}, ErrorCode.INVALID_CONFIG),
        ([(RELOGIN, SET, "5")], {"kind": BROKER, "name": ""}, ErrorCode.INVALID_REQUEST),
        ([(RELOGIN, SET, "soon")], {"kind": BROKER, "name": "1"}, ErrorCode.INVALID_REQUEST),
        ([("sasl.login.refresh.window.factor", SET, "0.4")], {"kind": BROKER, "name": "1"}, ErrorCode.INVALID_REQUEST),
        ([("num.io.threads", SET, "0")], {"kind": BROKER, "name": "1"}, ErrorCode.INVALID_REQUEST),
        ([(RATE, 9, "5")], {"kind": BROKER, "name": "1"}, ErrorCode.INVALID_REQUEST),
        ([(RATE, DELETE, None)], {"kind": BROKER, "name": "2"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_change_of_a_topic_option_is_rejected_without_effect(peer, topic, changes, where, code):
    assert change(peer, *changes, **where) == code
    assert topic.overrides == {"retention.ms": "1000"}
