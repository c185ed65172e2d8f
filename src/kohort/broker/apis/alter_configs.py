"""AlterConfigs (33), versions 0-2, and IncrementalAlterConfigs (44), versions 0-1. KIP-133, KIP-339.

This module changes topic options; ``option_changes`` changes options of brokers, groups and client metrics. The broker
has no logger levels: for a broker logger, only a request without changes succeeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from kohort.broker import option_changes
from kohort.broker.api import AnswerBound, BrokerApi, Cost, NameKind
from kohort.broker.authorization import DENIAL_TEXTS, Denials, Guard, GuardResult, Rights, serve_allowed
from kohort.broker.authorization import REFUSE_US as DENY_US
from kohort.broker.request import NO_ERROR, AnswerInSteps, Refusal, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.config.options import options_of
from kohort.config.topic import TopicConfig
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.security.acls import Operation
from kohort.steps import Pace, Steps, each
from kohort.wire.messages import configs as wire

REFUSE_US: Final = 600
WRITE_US: Final = 6_000


def incremental_alter_configs(state: BrokerState, request: Request) -> AnswerInSteps:
    responses = yield from _alter_all(state, request, lambda c: (c.name, c.config_operation, c.value), keep=True)
    return wire.IncrementalAlterConfigsResponse(responses=responses)


def alter_configs(state: BrokerState, request: Request) -> AnswerInSteps:
    responses = yield from _alter_all(state, request, lambda c: (c.name, option_changes.SET, c.value), keep=False)
    return wire.AlterConfigsResponse(responses=responses)


def _alter_all(
    state: BrokerState, request: Request, change_of: Callable[[Any], option_changes.Change], *, keep: bool
) -> Steps[list[wire.AlterConfigsResourceResponse]]:
    resources = request.message.resources
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    pace, kept = Pace(), state.cluster.broker_options.by_name
    responses = []
    for resource in resources:
        changes = list(map(change_of, resource.configs))
        response = _alter(state, request, resource, changes, times, keep=keep)
        responses.append(response)
        if pace.is_due(REFUSE_US if response.error_code else WRITE_US):
            yield
    if state.cluster.broker_options.by_name is not kept:
        yield from option_changes.take_effect(state)
    return responses


def _alter(
    state: BrokerState,
    request: Request,
    resource: Any,
    changes: list[option_changes.Change],
    times: Counter[tuple[int, str]],
    *,
    keep: bool,
) -> wire.AlterConfigsResourceResponse:
    """Apply the changes of one config resource; without ``keep``, reset all other options of the resource."""
    kind, name = resource.resource_type, resource.resource_name
    validate_only = request.message.validate_only
    refusal = NO_ERROR
    try:
        if times[kind, name] > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "duplicate resource in the request")
        if len({change[0] for change in changes}) < len(changes):
            raise ApiError(ErrorCode.INVALID_REQUEST, "duplicate option in the request")
        if kind == wire.ConfigResourceType.TOPIC:
            _alter_topic(state, name, changes, keep=keep, validate_only=validate_only)
        elif kind == wire.ConfigResourceType.BROKER:
            option_changes.alter_broker(state, name, changes, keep=keep, validate_only=validate_only)
        elif kind == wire.ConfigResourceType.GROUP:
            option_changes.alter_group(state, request, name, changes, keep=keep, validate_only=validate_only)
        elif kind == wire.ConfigResourceType.CLIENT_METRICS:
            option_changes.alter_subscription(state, name, changes, keep=keep, validate_only=validate_only)
        else:
            _alter_nothing(state, kind, name, changes)
    except KohortError as error:
        refusal = refusal_of(error)
    return wire.AlterConfigsResourceResponse(resource_type=kind, resource_name=name, **refusal.fields)


def _alter_nothing(state: BrokerState, kind: int, name: str, changes: list[option_changes.Change]) -> None:
    """Raise ApiError for changes to a resource type that has no options in kohort, such as broker loggers."""
    if kind not in list(wire.ConfigResourceType):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"unknown resource type {kind}")
    type_name = wire.ConfigResourceType(kind).name.lower().replace("_", " ")
    if kind == wire.ConfigResourceType.BROKER_LOGGER:
        option_changes.check_broker(state, name)
        if changes:  # Kafka, too, rejects DELETE on an unknown logger
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"logger {changes[0][0]!r} does not exist: the broker has no logger levels"
            )
    elif not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the {type_name} resource has no name")
    set_options = [option for option, operation, _ in changes if operation != option_changes.DELETE]
    if set_options:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{set_options[0]}: kohort has no options of a {type_name} resource")


def _alter_topic(
    state: BrokerState, name: str, changes: list[option_changes.Change], *, keep: bool, validate_only: bool
) -> None:
    topic = state.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
    overrides: dict[str, str | None] = dict(topic.overrides) if keep else {}
    options = {option.name: option for option in options_of(TopicConfig)}
    for option_name, operation, value in changes:
        option = options.get(option_name)
        if operation == option_changes.DELETE:
            overrides.pop(option_name, None)
        elif value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"option {option_name} has no value")
        elif operation == option_changes.SET or option is None:
            overrides[option_name] = value  # `check_config` rejects unknown options
        elif option.type is not list:
            text = f"option {option_name} is not a list: only SET and DELETE are possible"
            raise ApiError(ErrorCode.INVALID_CONFIG, text)
        else:
            present = getattr(topic.config, option.attribute)
            overrides[option_name] = ",".join(option_changes.edited(present, operation, value))
    state.topics.check_config(overrides)
    if not validate_only:
        state.topics.alter_config(name, overrides)


def guard_alter_configs(response: type[wire.AlterConfigsResponse | wire.IncrementalAlterConfigsResponse]) -> Guard:
    def guard(rights: Rights) -> Steps[GuardResult]:
        resources = rights.request.message.resources
        allowed, denied = yield from option_changes.authorized_resources(rights, Operation.ALTER_CONFIGS, resources)
        refused = yield from each(denied, lambda pair: _not_altered(*pair), DENY_US)
        return serve_allowed(rights, allowed, Denials("resources", "responses", refused), response)

    return guard


def _not_altered(one: Any, code: ErrorCode) -> wire.AlterConfigsResourceResponse:
    kind, name, refusal = one.resource_type, one.resource_name, Refusal(code, DENIAL_TEXTS[code])
    return wire.AlterConfigsResourceResponse(resource_type=kind, resource_name=name, **refusal.fields)


ALTER_CONFIGS = BrokerApi(
    wire.AlterConfigsRequest,
    alter_configs,
    guard_alter_configs(wire.AlterConfigsResponse),
    Cost(AnswerBound.REQUEST),
    names={"resources.resource_name": NameKind.RESOURCE},
)
INCREMENTAL_ALTER_CONFIGS = BrokerApi(
    wire.IncrementalAlterConfigsRequest,
    incremental_alter_configs,
    guard_alter_configs(wire.IncrementalAlterConfigsResponse),
    Cost(AnswerBound.REQUEST),
    names={"resources.resource_name": NameKind.RESOURCE},
)
