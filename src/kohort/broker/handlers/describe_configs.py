"""DescribeConfigs (32), versions 1-4: options of topics and of the broker, from the option tables. KIP-133, KIP-569."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kohort.broker.refusals import refusal_of
from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.broker.topic_settings import Setting, broker_settings, cluster_settings, topic_settings
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.names import check_topic_name
from kohort.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

TOPIC: Final = 2
BROKER: Final = 4


def describe_configs(state: BrokerState, request: Request) -> Answer:
    message: DescribeConfigsRequest = request.message
    return DescribeConfigsResponse(results=[_describe(state, message, resource) for resource in message.resources])


def _describe(
    state: BrokerState, message: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    try:
        settings = _settings(state, resource)
    except KohortError as error:
        refusal = refusal_of(error)
        return DescribeConfigsResult(
            error_code=refusal.code,
            error_message=refusal.message or None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
    keys = resource.configuration_keys
    chosen: Iterable[Setting] = (s for s in settings if s.name in set(keys)) if keys else settings
    return DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_result(message, setting, read_only=_is_read_only(resource)) for setting in chosen],
    )


def _is_read_only(resource: DescribeConfigsResource) -> bool:
    """The options of one broker are those of its start."""
    return resource.resource_type == BROKER and bool(resource.resource_name)


def _settings(state: BrokerState, resource: DescribeConfigsResource) -> Sequence[Setting]:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        topic = state.topics.get(name)
        if topic is None:
            check_topic_name(name, ())
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {name}")
        return topic_settings(state.config, topic.config, topic.overrides)
    if resource.resource_type == BROKER:
        if not name:
            cluster = state.cluster
            if cluster.is_alone:
                return ()
            return cluster_settings(node_id for node_id in sorted(cluster.nodes) if node_id not in cluster.wanted)
        if name != str(state.node.node_id):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"no broker {name}; this one is {state.node.node_id}")
        return broker_settings(state.config)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} has no options here")


def _result(message: DescribeConfigsRequest, setting: Setting, *, read_only: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=setting.value,
        read_only=read_only,
        config_source=setting.source,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in setting.synonyms
        ]
        if message.include_synonyms
        else [],
        config_type=setting.type,
        documentation=setting.doc if message.include_documentation else None,
    )
