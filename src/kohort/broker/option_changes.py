"""Options that change at run time, for AlterConfigs, IncrementalAlterConfigs and DescribeConfigs.

Options of brokers (KIP-226) are set on one broker, or as the default of all brokers (resource name ``""``); options of
logins only on one broker, as in Kafka. ``config/dynamic_broker.py`` lists them. The default of all brokers has one more
option, ``kohort.stopped.nodes``: appending the id of a node stops it, subtracting the id starts it.

Groups (KIP-848) and subscriptions to metrics of clients (KIP-714) have options of their own. Kafka neither appends to
nor subtracts from their lists. A subscription whose last option is deleted is gone. Deleting an option that is not set
succeeds, whatever its name is, as in Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kohort.broker.authorization import CHECK_US, CLUSTER_DENIED, Rights
from kohort.broker.cluster.stored_options import ALL
from kohort.broker.request import Request, sender_of
from kohort.broker.settings import STOPPED_NODES, BrokerLevels, Setting, group_settings, subscription_settings, text_of
from kohort.broker.state import BrokerState
from kohort.config.broker import BrokerConfig
from kohort.config.dynamic_broker import DYNAMIC, OF_ONE_BROKER
from kohort.config.group import parse_group_options
from kohort.config.listeners import check_limits
from kohort.config.options import options_of, unknown_option
from kohort.config.server_properties import COARSER, IGNORED
from kohort.coordinator.journal_events import OptionsChanged
from kohort.errors import ApiError, ConfigError, ErrorCode
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps
from kohort.wire.messages.configs import ConfigResourceType

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
Change = tuple[str, int, str | None]
"""Name, operation, value."""
NO_DEFAULT: Final = "Default group resources are not allowed."
OF_CLUSTER: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER, ConfigResourceType.CLIENT_METRICS)


def edited(now: list[str], operation: int, value: str) -> list[str]:
    """Return a list after SET, APPEND or SUBTRACT of the comma-separated ``value``. Raises ApiError INVALID_REQUEST."""
    given = [part.strip() for part in value.split(",") if part.strip()]
    if operation == SET:
        return given
    if operation == APPEND:
        return [*now, *(part for part in given if part not in now)]
    if operation == SUBTRACT:
        return [part for part in now if part not in given]
    raise ApiError(ErrorCode.INVALID_REQUEST, f"operation {operation}")


def levels_of(state: BrokerState) -> BrokerLevels:
    """Return the options of this broker by level."""
    kept = state.cluster.broker_options
    return BrokerLevels(kept.of(str(state.node.node_id)), kept.of(ALL), state.started_with)


def levels_of_logs(state: BrokerState) -> BrokerLevels:
    """Return the options that topics fall back to: of several nodes, which share their logs, none alone counts."""
    levels = levels_of(state)
    return levels if state.cluster.is_alone else levels._replace(own={})


def check_broker(state: BrokerState, name: str) -> None:
    """Raise ApiError INVALID_REQUEST unless ``name`` is the id of this broker."""
    if name != str(state.node.node_id):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"no broker {name!r}; this one is {state.node.node_id}")


def alter_broker(state: BrokerState, name: str, changes: list[Change], *, keep: bool, validate_only: bool) -> None:
    """Carry out the changes; ``keep`` leaves options that are not named as they are. Raises ApiError or ConfigError."""
    if name:
        check_broker(state, name)
    of_nodes = [change for change in changes if change[0] == STOPPED_NODES and not name]
    kept = state.cluster.broker_options
    options = dict(kept.of(name)) if keep else {}
    for option, operation, value in changes:
        if operation == DELETE:
            options.pop(option, None)
        elif (option, operation, value) not in of_nodes:
            now = {**levels_of(state).of_all, **options}
            options[option] = _checked(state, now, option, operation, value)
            _check_level(name, option)
    stopped = _stopped_after(state, of_nodes)
    if not validate_only:
        kept.replace(name, options)
        if of_nodes:
            _stop(state, stopped)


def take_effect(state: BrokerState) -> Steps[None]:
    """Put changed options in force, on this node first."""
    state.reconfigure()
    yield from state.cluster.reconfigure()


def _checked(state: BrokerState, held: Mapping[str, str], name: str, operation: int, value: str | None) -> str:
    option = DYNAMIC.get(name)
    if option is None:
        known = {o.name for o in options_of(BrokerConfig)} | IGNORED | COARSER
        if name in known:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} is given when a broker is started")
        raise unknown_option(name, known | DYNAMIC.keys())
    if value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name}: a value is missing")
    if operation in (APPEND, SUBTRACT):
        if option.type is not list:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{name} is no list: nothing can be appended or subtracted")
        static = getattr(state.started_with, option.attribute, option.default)
        before = option.parse(held[name]) if name in held else static
        return ",".join(edited(before, operation, value))
    if operation != SET:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"operation {operation}")
    try:
        parsed = option.parse(value)
        check_limits(name, parsed)
        return text_of(parsed) or ""
    except ConfigError as error:  # of brokers Kafka says it with this code
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _check_level(broker: str, name: str) -> None:
    if not broker and name.startswith(OF_ONE_BROKER):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} is given for one broker, not as a default of all of them")


def _stopped_after(state: BrokerState, changes: list[Change]) -> list[str]:
    """Return the nodes that are to be stopped. Raises ApiError for one that is not there, or if none were left."""
    cluster = state.cluster
    stopped = [str(node_id) for node_id in sorted(cluster.nodes) if node_id not in cluster.wanted]
    for _, operation, value in changes:
        stopped = [] if operation == DELETE else edited(stopped, operation, value or "")
    unknown = [text for text in stopped if not text.isdecimal() or int(text) not in cluster.nodes]
    if unknown:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"there is no node {unknown[0]}, only {sorted(cluster.nodes)}")
    if len(set(stopped)) == len(cluster.nodes):
        raise ApiError(ErrorCode.INVALID_CONFIG, "one node has to be up; end the process instead")
    return stopped


def _stop(state: BrokerState, stopped: list[str]) -> None:
    cluster = state.cluster
    down = {int(text) for text in stopped}
    for node_id in sorted(cluster.nodes, key=down.__contains__):  # start first, so that someone is always up
        if (node_id in cluster.wanted) == (node_id in down):
            cluster.want(node_id, up=node_id not in down)


def alter_group(
    state: BrokerState, request: Request, name: str, changes: list[Change], *, keep: bool, validate_only: bool
) -> None:
    """Carry out the changes; ``keep`` leaves options that are not named as they are. Raises ApiError or ConfigError."""
    _check_group_name(name)
    kept = state.cluster.group_options
    given = {option: str(value) for option, value in kept.of(name).items()} if keep else {}
    for option, operation, value in changes:
        if operation == DELETE:
            given.pop(option, None)
        else:
            given[option] = _group_value(option, operation, value)
    own = parse_group_options(state.config, given)
    if not validate_only and own != kept.of(name):
        before = kept.of(name)
        kept.replace(name, own)
        told = {o: (before.get(o), own.get(o)) for o in {*before, *own} if before.get(o) != own.get(o)}
        by = sender_of(request)
        state.coordinator.note(OptionsChanged(at_ms=request.now_ms, group=name, options=told, by=by))


def _group_value(option: str, operation: int, value: str | None) -> str:
    if value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{option}: a value is missing")
    if operation in (APPEND, SUBTRACT):
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{option} is no list: nothing can be appended or subtracted")
    if operation != SET:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"operation {operation}")
    return value


def settings_of_group(state: BrokerState, name: str) -> Sequence[Setting]:
    """Return the options of a group, whether it is there or not. Raises ApiError without a name."""
    _check_group_name(name)
    return group_settings(levels_of(state), state.cluster.group_options.of(name))


def _check_group_name(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, NO_DEFAULT)


def alter_subscription(
    state: BrokerState, name: str, changes: list[Change], *, keep: bool, validate_only: bool
) -> None:
    """Carry out the changes; ``keep`` leaves options that are not named as they are. Raises ApiError or ConfigError."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    kept = state.cluster.subscriptions
    given = dict(kept.by_name.get(name, {})) if keep else {}
    for option, operation, value in changes:
        if operation == DELETE:
            given.pop(option, None)
        else:
            given[option] = _subscription_value(option, operation, value)
    kept.replace(name, given, validate_only=validate_only)


def _subscription_value(option: str, operation: int, value: str | None) -> str:
    if operation in (APPEND, SUBTRACT):
        verb = "APPEND" if operation == APPEND else "SUBTRACT"
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {option} because its type is not LIST.")
    if operation != SET:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"operation {operation}")
    if value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {option}")
    return value


def settings_of_subscription(state: BrokerState, name: str) -> Sequence[Setting]:
    """Return the options of a subscription, whether it is there or not. Raises ApiError without a name."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    return subscription_settings(state.cluster.subscriptions.by_name.get(name, {}))


def authorized_resources(
    rights: Rights, operation: Operation, resources: list[Any]
) -> Steps[tuple[list[Any], list[tuple[Any, ErrorCode]]]]:
    """Return the resources whose options the caller may see or change, and the others with why not; the topics and
    groups by their name, everything else by the cluster. What is named twice is refused for that."""
    times = Counter((one.resource_type, one.resource_name) for one in resources)
    allowed: list[Any] = []
    refused: list[tuple[Any, ErrorCode]] = []
    of_cluster: bool | None = None
    pace = Pace(goes_on=True)
    for one in resources:
        kind, name = one.resource_type, one.resource_name
        code = ErrorCode.NONE
        if times[kind, name] > 1 and operation is Operation.ALTER_CONFIGS:
            pass
        elif kind == ConfigResourceType.TOPIC:
            if not rights.may(operation, ResourceType.TOPIC, name):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif kind == ConfigResourceType.GROUP:
            if not rights.may(operation, ResourceType.GROUP, name):
                code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        elif kind in OF_CLUSTER:
            if of_cluster is None:
                of_cluster = rights.may_on_cluster(operation)
            code = ErrorCode.NONE if of_cluster else CLUSTER_DENIED
        if code is ErrorCode.NONE:
            allowed.append(one)
        else:
            refused.append((one, code))
        if pace.is_due(CHECK_US):
            yield
    return allowed, refused
