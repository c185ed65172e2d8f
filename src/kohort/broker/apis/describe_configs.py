"""DescribeConfigs (32), versions 1-4: options of topics, brokers, groups and client metrics. KIP-133, KIP-569."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kohort.broker import option_changes
from kohort.broker.api import TOO_LARGE, AnswerBound, BrokerApi, Cost, NameKind, Parts
from kohort.broker.authorization import DENIAL_TEXTS, REFUSE_US, Denials, GuardResult, Rights, serve_allowed
from kohort.broker.counters import BrokerCounters
from kohort.broker.request import AnswerInSteps, Refusal, Request, refusal_of
from kohort.broker.settings import (
    PASSWORD,
    STATIC_BROKER_CONFIG,
    Setting,
    broker_settings,
    cluster_settings,
    dynamic_settings,
    group_settings,
    subscription_settings,
    topic_settings,
)
from kohort.broker.state import BrokerState
from kohort.config.dynamic_broker import DYNAMIC, DynamicBrokerConfig
from kohort.config.options import options_of
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.topic_names import check_topic_name
from kohort.security.acls import Operation
from kohort.steps import Steps, each
from kohort.wire.messages import configs as wire

RESOURCE_US: Final = 300
LOADS: Final = "kohort.node.group.loads"
LOAD_AVG: Final = "kohort.node.group.load.avg.ms"
LOAD_MAX: Final = "kohort.node.group.load.max.ms"
LATE: Final = "kohort.node.late.ms"
LATE_MAX: Final = "kohort.node.late.max.ms"
MEASURES: Final = {
    LOADS: "Number of __consumer_offsets partitions that this node has loaded since its start.",
    LOAD_AVG: "Average time in ms to load a partition of __consumer_offsets; empty before the first load.",
    LOAD_MAX: "Longest time in ms to load a partition of __consumer_offsets; empty before the first load.",
    LATE: "Longest delay in ms of the node's event loop within the last one to two minutes.",
    LATE_MAX: "Longest delay in ms of the node's event loop since its start.",
}
LONG: Final = 5
FEW_KEYS: Final = 10
"""Maximum option names in a resource entry that is compared to drop duplicates: comparing longer entries is slow."""


def describe_configs(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.DescribeConfigsRequest = request.message
    results = yield from each(
        message.resources, lambda one: _describe(state, message, one, request.now_ms), RESOURCE_US
    )
    return wire.DescribeConfigsResponse(results=results)


def _describe(
    state: BrokerState, message: wire.DescribeConfigsRequest, resource: wire.DescribeConfigsResource, now_ms: int
) -> wire.DescribeConfigsResult:
    keys = frozenset(resource.configuration_keys or ())
    try:
        settings = _settings(state, resource)
        is_node = resource.resource_type == wire.ConfigResourceType.BROKER and resource.resource_name
        if is_node and not keys.isdisjoint(MEASURES):
            settings = [*settings, *node_measures(state.counters, now_ms)]
    except KohortError as error:
        return _refused(resource, refusal_of(error))
    return wire.DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_result(message, setting) for setting in settings if not keys or setting.name in keys],
    )


def _settings(state: BrokerState, resource: wire.DescribeConfigsResource) -> Sequence[Setting]:
    name = resource.resource_name
    match resource.resource_type:
        case wire.ConfigResourceType.TOPIC:
            topic = state.topics.get(name)
            if topic is None:
                check_topic_name(name)
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
            return topic_settings(option_changes.levels_of_logs(state), topic.config, topic.overrides)
        case wire.ConfigResourceType.BROKER:
            return _of_brokers(state, name)
        case wire.ConfigResourceType.BROKER_LOGGER:
            option_changes.check_broker(state, name)
            return ()
        case wire.ConfigResourceType.GROUP:
            option_changes.check_group_name(name)
            return group_settings(option_changes.levels_of(state), state.cluster.group_options.of(name))
        case wire.ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return subscription_settings(state.cluster.subscriptions.by_name.get(name, {}))
    raise ApiError(ErrorCode.INVALID_REQUEST, f"unknown resource type {resource.resource_type}")


def _of_brokers(state: BrokerState, name: str) -> Sequence[Setting]:
    """Return this broker's options, or the dynamic default options of all brokers if ``name`` is empty."""
    cluster = state.cluster
    if name:
        option_changes.check_broker(state, name)
        levels = option_changes.levels_of(state)
        return [*broker_settings(levels), *dynamic_settings(levels, options_of(DynamicBrokerConfig))]
    dynamic = dynamic_settings(option_changes.levels_of(state)._replace(own={}), DYNAMIC.values())
    if cluster.is_alone:
        return dynamic
    return [*cluster_settings(node_id for node_id in sorted(cluster.nodes) if node_id not in cluster.wanted), *dynamic]


def _result(message: wire.DescribeConfigsRequest, setting: Setting) -> wire.DescribeConfigsResourceResult:
    return wire.DescribeConfigsResourceResult(
        name=setting.name,
        value=setting.value,
        read_only=setting.read_only,
        config_source=setting.source,
        is_sensitive=setting.type == PASSWORD,
        synonyms=[
            wire.DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in setting.synonyms
        ]
        if message.include_synonyms
        else [],
        config_type=setting.type,
        documentation=setting.doc if message.include_documentation else None,
    )


def node_measures(counters: BrokerCounters, now_ms: int) -> list[Setting]:
    values = {
        LOADS: counters.loads,
        LOAD_AVG: round(counters.load_ms_total / counters.loads) if counters.loads else "",
        LOAD_MAX: counters.load_ms_longest if counters.loads else "",
        LATE: counters.late.recent_ms(now_ms),
        LATE_MAX: counters.late.longest_ms,
    }
    return [
        Setting(name, str(values[name]), STATIC_BROKER_CONFIG, LONG, doc, (), read_only=True)
        for name, doc in MEASURES.items()
    ]


def guard_describe_configs(rights: Rights) -> Steps[GuardResult]:
    message: wire.DescribeConfigsRequest = rights.request.message
    allowed, denied = yield from option_changes.authorized_resources(
        rights, Operation.DESCRIBE_CONFIGS, message.resources
    )
    refused = yield from each(
        denied, lambda pair: _refused(pair[0], Refusal(pair[1], DENIAL_TEXTS[pair[1]])), REFUSE_US
    )
    return serve_allowed(rights, allowed, Denials("resources", "results", refused), wire.DescribeConfigsResponse)


def _refused(resource: wire.DescribeConfigsResource, refusal: Refusal) -> wire.DescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    return wire.DescribeConfigsResult(resource_type=kind, resource_name=name, **refusal.fields)


def refuse_configs(request: Request, message: str) -> wire.DescribeConfigsResponse:
    refusal = Refusal(TOO_LARGE, message)
    return wire.DescribeConfigsResponse(results=[_refused(one, refusal) for one in request.message.resources])


def _resource(resource: Any) -> tuple[Any, ...] | None:
    keys = resource.configuration_keys or ()
    return (resource.resource_type, resource.resource_name, *keys) if len(keys) <= FEW_KEYS else None


DESCRIBE_CONFIGS = BrokerApi(
    wire.DescribeConfigsRequest,
    describe_configs,
    guard_describe_configs,
    Cost(
        AnswerBound.UNREAD,
        once=("resources", _resource),
        parts=Parts(("resources",), ("results",), 15, refuse=refuse_configs),
    ),
    names={"resources.resource_name": NameKind.RESOURCE},
)
