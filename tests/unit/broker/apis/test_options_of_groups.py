"""Dynamic options of groups (KIP-848), with the messages of Apache Kafka."""

import pytest

from kohort.broker.cluster.stored_options import GROUP_OPTIONS_FILE, GROUPS_MOST_BYTES
from kohort.config import BrokerConfig
from kohort.config.group import in_force
from kohort.errors import ErrorCode, StorageError
from kohort.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ReplacingConfig,
    ReplacingConfigsResource,
)
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest
from support.machines.broker_stage import BrokerStage

GROUP = 32
SET, DELETE = range(2)
SESSION, HEARTBEAT, ASSIGNMENT = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)
OF_GROUP, DEFAULT = 8, 5


def change(peer, options, name="g", validate_only=False):
    configs = [
        AlterableConfig(name=n, config_operation=DELETE if v is None else SET, value=v) for n, v in options.items()
    ]
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=name, configs=configs)
    (result,) = peer.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only), 1).responses
    return result.error_code, result.error_message


def described(peer, name="g"):
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=GROUP, resource_name=name)])
    (result,) = peer.ask(request, 4).results
    assert result.error_code == 0
    return {config.name: (config.value, config.config_source) for config in result.configs}


def listed(peer):
    answer = peer.ask(ListConfigResourcesRequest(resource_types=[GROUP]), 1)
    return [resource.resource_name for resource in answer.config_resources]


def interval_of(peer, group="g"):
    message = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="ann",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["a"],
        topic_partitions=[],
    )
    return peer.ask(message, 1).heartbeat_interval_ms


def test_group_without_options_has_the_options_of_the_broker(peer):
    assert described(peer) == {SESSION: ("45000", DEFAULT), HEARTBEAT: ("5000", DEFAULT), ASSIGNMENT: ("1000", DEFAULT)}
    assert listed(peer) == []


def test_group_option_is_described_and_listed_and_applies_only_to_its_group(peer):
    assert change(peer, {HEARTBEAT: " 7000", SESSION: "50000"}) == (0, None)

    assert described(peer) == {
        SESSION: ("50000", OF_GROUP),
        HEARTBEAT: ("7000", OF_GROUP),
        ASSIGNMENT: ("1000", DEFAULT),
    }
    assert listed(peer) == ["g"]
    assert (interval_of(peer), interval_of(peer, "other")) == (7_000, 5_000)

    assert change(peer, {HEARTBEAT: None}) == (0, None)
    assert interval_of(peer) == 5_000
    assert change(peer, {SESSION: None}) == (0, None)
    assert listed(peer) == []


def test_member_expires_after_the_session_timeout_of_its_group(stage, peer):
    assert change(peer, {SESSION: "60000"}) == (0, None)
    interval_of(peer)
    interval_of(peer, "other")

    stage.advance(59_000)

    groups = stage.broker.state.coordinator.groups_in_partition_of
    assert "ann" in groups("g").consumer["g"].members
    assert "other" not in groups("other").consumer or not groups("other").consumer["other"].members
    stage.advance(2_000)
    assert "g" not in groups("g").consumer or not groups("g").consumer["g"].members


def test_group_options_survive_a_restart(stage, peer):
    assert change(peer, {HEARTBEAT: "7000"}) == (0, None)

    stage.restart(cleanly=False)

    assert described(stage.connect())[HEARTBEAT] == ("7000", OF_GROUP)


def test_validate_only_changes_no_group_option(stage, peer):
    assert change(peer, {HEARTBEAT: "7000"}, validate_only=True) == (0, None)
    assert listed(peer) == []
    assert stage.storage.read(GROUP_OPTIONS_FILE) is None


def test_alter_configs_replaces_all_group_options(peer):
    change(peer, {HEARTBEAT: "7000"})
    resource = ReplacingConfigsResource(
        resource_type=GROUP, resource_name="g", configs=[ReplacingConfig(name=SESSION, value="50000")]
    )

    assert peer.ask(AlterConfigsRequest(resources=[resource]), 2).responses[0].error_code == 0

    assert described(peer)[SESSION] == ("50000", OF_GROUP)
    assert described(peer)[HEARTBEAT] == ("5000", DEFAULT)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({SESSION: "44999"}, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        ({SESSION: "60001"}, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        ({HEARTBEAT: "1"}, f"{HEARTBEAT} must be in the range 5000 to 15000 inclusive."),
        ({ASSIGNMENT: "15001"}, f"{ASSIGNMENT} must be in the range 0 to 15000 inclusive."),
        ({ASSIGNMENT: "-1"}, f"Invalid value -1 for configuration {ASSIGNMENT}: Value must be at least 0"),
        ({SESSION: "abc"}, f"Invalid value abc for configuration {SESSION}: Not a number of type INT"),
        ({SESSION: "2147483648"}, f"Invalid value 2147483648 for configuration {SESSION}: Not a number of type INT"),
        ({SESSION: "5_0"}, f"Invalid value 5_0 for configuration {SESSION}: Not a number of type INT"),
        ({"x": "1"}, "Unknown group config name: x"),
        ({"share.session.timeout.ms": "45000"}, "Unknown group config name: share.session.timeout.ms"),
    ],
)
def test_invalid_group_option_rejects_the_whole_change(peer, options, words):
    assert change(peer, {HEARTBEAT: "7000"} | options) == (ErrorCode.INVALID_CONFIG, words)
    assert listed(peer) == []


@pytest.mark.parametrize("options", [{SESSION: "6000", HEARTBEAT: "6000"}, {SESSION: "3000"}])
def test_session_timeout_must_exceed_the_heartbeat_interval(options):
    bounds = {"group_consumer_min_session_timeout_ms": 1_000, "group_consumer_min_heartbeat_interval_ms": 100}
    peer = BrokerStage(**bounds).connect()
    words = f"{SESSION} must be greater than {HEARTBEAT}"
    assert change(peer, options) == (ErrorCode.INVALID_CONFIG, words)


def test_group_option_is_clamped_to_changed_limits_of_the_broker():
    narrow = BrokerConfig(group_consumer_min_session_timeout_ms=50_000, group_consumer_session_timeout_ms=55_000)
    assert in_force(narrow, {SESSION: 46_000}, SESSION) == 50_000
    assert in_force(narrow, {SESSION: 70_000}, SESSION) == 60_000
    assert in_force(narrow, {}, SESSION) == 55_000


def test_group_options_need_a_group_name(peer):
    assert change(peer, {SESSION: "50000"}, name="") == (
        ErrorCode.INVALID_REQUEST,
        "Default group resources are not allowed.",
    )


def test_group_options_above_the_size_limit_are_rejected(peer):
    name = "n" * 30_000
    codes = {change(peer, {SESSION: "50000"}, name=f"{n}{name}")[0] for n in range(GROUPS_MOST_BYTES // 30_000 + 1)}
    assert codes == {0, ErrorCode.POLICY_VIOLATION}
    assert change(peer, {SESSION: None}, name=f"0{name}") == (0, None)
    assert change(peer, {SESSION: "50000"}, name="g") == (0, None)


@pytest.mark.parametrize(
    "content", [b"[]", b'{"version": 2, "groups": {}}', b'{"version": 1, "groups": {"g": {"x": 1}}}', b"{"]
)
def test_invalid_group_options_file_prevents_the_broker_start(stage, content):
    stage.storage.replace(GROUP_OPTIONS_FILE, content)
    with pytest.raises(StorageError, match=r"kohort-group-options\.json cannot be read .* Repair"):
        stage.restart()
