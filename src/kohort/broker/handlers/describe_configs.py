"""DescribeConfigs (32), versions 1-4: options of topics, brokers, groups and client metrics. KIP-133, KIP-569."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kohort.broker.handlers.broker_options import check_broker, levels_of, levels_of_logs
from kohort.broker.handlers.group_options import settings_of_group
from kohort.broker.handlers.subscription_options import settings_of_subscription
from kohort.broker.node_facts import FACTS, node_facts
from kohort.broker.refusals import refusal_of
from kohort.broker.request import AnswerInSteps, Request
from kohort.broker.state import BrokerState
from kohort.broker.topic_settings import (
    PASSWORD,
    Setting,
    broker_settings,
    cluster_settings,
    dynamic_settings,
    topic_settings,
)
from kohort.config.dynamic_broker import DYNAMIC, DynamicBrokerConfig
from kohort.config.options import options_of
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.topic_names import check_topic_name
from kohort.steps import Pace, SpreadDict, counted
from kohort.wire.messages.configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

Keys = SpreadDict[str, int]
"""Option names of one resource of the request."""
RESOURCE_US: Final = 300


def describe_configs(state: BrokerState, request: Request) -> AnswerInSteps:
    message: DescribeConfigsRequest = request.message
    pace = Pace()
    results = []
    for resource in message.resources:
        keys: Keys | None = None
        if resource.configuration_keys:
            keys = yield from counted(resource.configuration_keys)
        results.append(_describe(state, message, resource, keys, request.now_ms))
        if keys is not None:
            yield from keys.let_go(pace)
        if pace.is_due(RESOURCE_US):
            yield
    return DescribeConfigsResponse(results=results)


def _describe(
    state: BrokerState,
    message: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    keys: Keys | None,
    now_ms: int,
) -> DescribeConfigsResult:
    try:
        settings = _settings(state, resource)
        if resource.resource_type == ConfigResourceType.BROKER and resource.resource_name:
            settings = [*settings, *_facts(state, keys, now_ms)]
    except KohortError as error:
        refusal = refusal_of(error)
        return DescribeConfigsResult(
            error_code=refusal.code,
            error_message=refusal.message or None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
    chosen = settings if keys is None else [setting for setting in settings if keys.has(setting.name)]
    return DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_result(message, setting) for setting in chosen],
    )


def _settings(state: BrokerState, resource: DescribeConfigsResource) -> Sequence[Setting]:
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            topic = state.topics.get(name)
            if topic is None:
                check_topic_name(name)
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {name}")
            return topic_settings(levels_of_logs(state), topic.config, topic.overrides)
        case ConfigResourceType.BROKER:
            return _of_brokers(state, name)
        case ConfigResourceType.BROKER_LOGGER:
            check_broker(state, name)
            return ()
        case ConfigResourceType.GROUP:
            return settings_of_group(state, name)
        case ConfigResourceType.CLIENT_METRICS:
            return settings_of_subscription(state, name)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"unknown resource type {resource.resource_type}")


def _facts(state: BrokerState, keys: Keys | None, now_ms: int) -> Sequence[Setting]:
    """Return what this broker knows of itself, where it is asked for by name."""
    return node_facts(state.counters, now_ms) if keys is not None and any(map(keys.has, FACTS)) else ()


def _of_brokers(state: BrokerState, name: str) -> Sequence[Setting]:
    """Return the options of this broker, or under ``""`` what was given for all of them while they run."""
    cluster = state.cluster
    if name:
        check_broker(state, name)
        levels = levels_of(state)
        return [*broker_settings(levels), *dynamic_settings(levels, options_of(DynamicBrokerConfig))]
    dynamic = dynamic_settings(levels_of(state)._replace(own={}), DYNAMIC.values())
    if cluster.is_alone:
        return dynamic
    return [
        *cluster_settings(node_id for node_id in sorted(cluster.nodes) if node_id not in cluster.wanted),
        *dynamic,
    ]


def _result(message: DescribeConfigsRequest, setting: Setting) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=setting.value,
        read_only=setting.read_only,
        config_source=setting.source,
        is_sensitive=setting.type == PASSWORD,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in setting.synonyms
        ]
        if message.include_synonyms
        else [],
        config_type=setting.type,
        documentation=setting.doc if message.include_documentation else None,
    )
