"""AlterConfigs (33), versions 0-2, and IncrementalAlterConfigs (44), versions 0-1: options of topics. KIP-133, KIP-339.

Of brokers one option can be changed while they run, kohort's own, as a default of all of them (resource name ``""``):
``kohort.stopped.nodes``, the ids of the nodes that are stopped. Appending an id stops a node, subtracting it starts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kohort.broker.refusals import refusal_of
from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.broker.topic_settings import STOPPED_NODES, text_of
from kohort.config.options import Option, options_of
from kohort.config.topic import TopicConfig
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.topics import Topic
from kohort.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPIC: Final = 2
BROKER: Final = 4
SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

Change = tuple[str, int, str | None]
"""Name, operation, value."""


def incremental_alter_configs(state: BrokerState, request: Request) -> Answer:
    message: IncrementalAlterConfigsRequest = request.message
    times = _times(message.resources)
    return IncrementalAlterConfigsResponse(
        responses=[
            _alter(
                state,
                resource,
                [(c.name, c.config_operation, c.value) for c in resource.configs],
                times,
                keep=True,
                validate_only=message.validate_only,
            )
            for resource in message.resources
        ]
    )


def alter_configs(state: BrokerState, request: Request) -> Answer:
    message: AlterConfigsRequest = request.message
    times = _times(message.resources)
    return AlterConfigsResponse(
        responses=[
            _alter(
                state,
                resource,
                [(c.name, SET, c.value) for c in resource.configs],
                times,
                keep=False,
                validate_only=message.validate_only,
            )
            for resource in message.resources
        ]
    )


def _times(resources: Iterable[Any]) -> Mapping[tuple[int, str], int]:
    return Counter((resource.resource_type, resource.resource_name) for resource in resources)


def _alter(
    state: BrokerState,
    resource: Any,
    changes: list[Change],
    times: Mapping[tuple[int, str], int],
    *,
    keep: bool,
    validate_only: bool,
) -> AlterConfigsResourceResponse:
    """Carry out the changes of one resource; ``keep`` leaves the options that are not named as they are."""
    kind, name = resource.resource_type, resource.resource_name
    refusal = None
    try:
        if times[kind, name] > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the resource is named twice in one request")
        if len({change[0] for change in changes}) < len(changes):
            raise ApiError(ErrorCode.INVALID_REQUEST, "an option is named twice")
        if kind == TOPIC:
            _alter_topic(state, name, changes, keep=keep, validate_only=validate_only)
        elif kind == BROKER and not name:
            _alter_nodes(state, changes, validate_only=validate_only)
        elif kind == BROKER:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the options of a broker are given when it is started")
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"resource type {kind} has no options here")
    except KohortError as error:
        refusal = refusal_of(error)
    return AlterConfigsResourceResponse(
        error_code=refusal.code if refusal else ErrorCode.NONE,
        error_message=refusal.message or None if refusal else None,
        resource_type=kind,
        resource_name=name,
    )


def _alter_topic(state: BrokerState, name: str, changes: list[Change], *, keep: bool, validate_only: bool) -> None:
    topic = state.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    overrides: dict[str, str | None] = dict(topic.overrides) if keep else {}
    options = {option.name: option for option in options_of(TopicConfig)}
    for option_name, operation, value in changes:
        if operation == DELETE:
            overrides.pop(option_name, None)
            continue
        if value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{option_name}: a value is missing")
        overrides[option_name] = _new_value(topic, options.get(option_name), operation, value)
    state.topics.check_config(overrides)
    if not validate_only:
        state.topics.alter_config(name, overrides)


def _new_value(topic: Topic, option: Option | None, operation: int, value: str) -> str:
    if operation == SET or option is None:
        return value  # an unknown name is refused with the rest
    if option.type is not list:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{option.name} is no list: nothing can be appended or subtracted")
    now = text_of(getattr(topic.config, option.attribute)) or ""
    return ",".join(_edited(now.split(","), operation, value))


def _edited(now: list[str], operation: int, value: str) -> list[str]:
    """A list after SET, APPEND or SUBTRACT of the comma-separated ``value``. Raises ApiError INVALID_REQUEST."""
    given = [part.strip() for part in value.split(",") if part.strip()]
    if operation == SET:
        return given
    if operation == APPEND:
        return [*now, *(part for part in given if part not in now)]
    if operation == SUBTRACT:
        return [part for part in now if part not in given]
    raise ApiError(ErrorCode.INVALID_REQUEST, f"operation {operation}")


def _alter_nodes(state: BrokerState, changes: list[Change], *, validate_only: bool) -> None:
    cluster = state.cluster
    stopped = [str(node_id) for node_id in sorted(cluster.nodes) if node_id not in cluster.wanted]
    for name, operation, value in changes:
        if name != STOPPED_NODES:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{name} cannot be changed while the brokers run")
        stopped = [] if operation == DELETE else _edited(stopped, operation, value or "")
    unknown = [text for text in stopped if not text.isdigit() or int(text) not in cluster.nodes]
    if unknown:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"there is no node {unknown[0]}, only {sorted(cluster.nodes)}")
    if len(set(stopped)) == len(cluster.nodes):
        raise ApiError(ErrorCode.INVALID_CONFIG, "one node has to be up; end the process instead")
    if not validate_only:
        down = {int(text) for text in stopped}
        for node_id in sorted(cluster.nodes, key=down.__contains__):  # start first, so that someone is always up
            if (node_id in cluster.wanted) == (node_id in down):
                cluster.want(node_id, up=node_id not in down)
