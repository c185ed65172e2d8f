"""Changes of options at run time, for AlterConfigs, IncrementalAlterConfigs and DescribeConfigs.

Broker options (KIP-226) are set on one broker, or as the default of all (resource name ``""``); login options only on
one broker, as in Kafka (``config/dynamic_broker.py``). The default of all brokers has the additional option
``kohort.stopped.nodes``: appending a node id stops the node, subtracting it starts the node.

Options of groups (KIP-848) and metrics subscriptions (KIP-714) accept only SET and DELETE, as in Kafka. A subscription
without options is removed. Deleting an unset or unknown option succeeds, as in Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from kohort.broker.authorization import CHECK_US, CLUSTER_DENIED, GROUP_DENIED, TOPIC_DENIED, Rights
from kohort.broker.cluster.stored_options import ALL
from kohort.broker.request import Request, sender_of
from kohort.broker.settings import STOPPED_NODES, BrokerLevels, text_of
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
OF_CLUSTER: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER, ConfigResourceType.CLIENT_METRICS)


def edited(now: list[str], operation: int, value: str) -> list[str]:
    """Apply SET, APPEND or SUBTRACT to a list option; return the new list. Raises ApiError."""
    given = [part.strip() for part in value.split(",") if part.strip()]
    if operation == SET:
        return given
    if operation == APPEND:
        return [*now, *(part for part in given if part not in now)]
    if operation == SUBTRACT:
        return [part for part in now if part not in given]
    raise ApiError(ErrorCode.INVALID_REQUEST, f"unknown config operation {operation}")


def new_value(name: str, operation: int, value: str | None, present: list[str] | None = None) -> str:
    """Return an option's value after SET, APPEND or SUBTRACT. Raises ApiError.

    ``present``: value of a list option before the change; None for an option that is not a list.
    """
    if value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"option {name} has no value")
    if operation == SET:
        return value
    if present is None and operation in (APPEND, SUBTRACT):
        raise ApiError(ErrorCode.INVALID_CONFIG, f"option {name} is not a list: only SET and DELETE are possible")
    return ",".join(edited(present or [], operation, value))


def levels_of(state: BrokerState) -> BrokerLevels:
    kept = state.cluster.broker_options
    return BrokerLevels(kept.of(str(state.node.node_id)), kept.of(ALL), state.started_with)


def levels_of_logs(state: BrokerState) -> BrokerLevels:
    """Return the broker options that topics inherit; nodes that share logs use only the default of all brokers."""
    levels = levels_of(state)
    return levels if state.cluster.is_alone else levels._replace(own={})


def check_broker(state: BrokerState, name: str) -> None:
    """Raise ApiError if ``name`` is not the id of this node."""
    if name != str(state.node.node_id):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"unknown broker {name!r}: this is broker {state.node.node_id}")


def alter_broker(state: BrokerState, name: str, changes: list[Change], *, keep: bool, validate_only: bool) -> None:
    """Change options of a broker; without ``keep``, reset its other options. Raises ApiError or ConfigError."""
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
            if not name and option.startswith(OF_ONE_BROKER):
                text = f"{option} cannot be set for all brokers: set it on a single broker"
                raise ApiError(ErrorCode.INVALID_REQUEST, text)
    stopped = _stopped_after(state, of_nodes)
    if not validate_only:
        kept.replace(name, options)
        if of_nodes:
            _stop(state, stopped)


def take_effect(state: BrokerState) -> Steps[None]:
    """Apply changed broker options to all nodes, this node first."""
    state.reconfigure()
    yield from state.cluster.reconfigure()


def _checked(state: BrokerState, values: Mapping[str, str], name: str, operation: int, value: str | None) -> str:
    option = DYNAMIC.get(name)
    if option is None:
        known = {o.name for o in options_of(BrokerConfig)} | IGNORED | COARSER
        if name in known:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} can only be set when a broker starts")
        raise unknown_option(name, known | DYNAMIC.keys())
    present = None
    if option.type is list:
        static = getattr(state.started_with, option.attribute, option.default)
        present = option.parse(values[name]) if name in values else static
    changed = new_value(name, operation, value, present)
    if operation != SET:
        return changed
    try:
        parsed = option.parse(changed)
        check_limits(name, parsed)
        return text_of(parsed) or ""
    except ConfigError as error:  # INVALID_REQUEST, as in Kafka, for invalid broker options
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _stopped_after(state: BrokerState, changes: list[Change]) -> list[str]:
    """Return the ids of nodes to stop. Raises ApiError for an unknown id, or if no node would stay up."""
    cluster = state.cluster
    stopped = [str(node_id) for node_id in sorted(cluster.nodes) if node_id not in cluster.wanted]
    for _, operation, value in changes:
        stopped = [] if operation == DELETE else edited(stopped, operation, value or "")
    unknown = [text for text in stopped if not text.isdecimal() or int(text) not in cluster.nodes]
    if unknown:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"unknown node {unknown[0]}, expected {sorted(cluster.nodes)}")
    if len(set(stopped)) == len(cluster.nodes):
        raise ApiError(ErrorCode.INVALID_CONFIG, "cannot stop all nodes: stop the broker process instead")
    return stopped


def _stop(state: BrokerState, stopped: list[str]) -> None:
    cluster = state.cluster
    down = {int(text) for text in stopped}
    # start nodes before stopping others, so that a node is always up
    for node_id in sorted(cluster.nodes, key=down.__contains__):
        if (node_id in cluster.wanted) == (node_id in down):
            cluster.want(node_id, up=node_id not in down)


def alter_group(
    state: BrokerState, request: Request, name: str, changes: list[Change], *, keep: bool, validate_only: bool
) -> None:
    """Change options of a group; without ``keep``, reset its other options. Raises ApiError or ConfigError."""
    check_group_name(name)
    kept = state.cluster.group_options
    given = {option: str(value) for option, value in kept.of(name).items()} if keep else {}
    for option, operation, value in changes:
        if operation == DELETE:
            given.pop(option, None)
        else:
            given[option] = new_value(option, operation, value)
    own, before = parse_group_options(state.config, given), kept.of(name)
    if not validate_only and own != before:
        kept.replace(name, own)
        changed = {o: (before.get(o), own.get(o)) for o in {*before, *own} if before.get(o) != own.get(o)}
        state.coordinator.note(OptionsChanged(at_ms=request.now_ms, group=name, options=changed, by=sender_of(request)))


def check_group_name(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")


def alter_subscription(
    state: BrokerState, name: str, changes: list[Change], *, keep: bool, validate_only: bool
) -> None:
    """Change options of a metrics subscription; without ``keep``, reset its other options. Raises ApiError."""
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
        raise ApiError(ErrorCode.INVALID_REQUEST, f"unknown config operation {operation}")
    if value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {option}")
    return value


def authorized_resources(
    rights: Rights, operation: Operation, resources: list[Any]
) -> Steps[tuple[list[Any], list[tuple[Any, ErrorCode]]]]:
    """Split config resources: those that the client may read or change, and denied ones with an error code.

    Each topic or group needs its own right; all other resources need a right on the cluster. The handler rejects
    duplicates.
    """
    times = Counter((one.resource_type, one.resource_name) for one in resources)
    allowed: list[Any] = []
    refused: list[tuple[Any, ErrorCode]] = []
    of_cluster: bool | None = None
    pace = Pace(goes_on=True)
    for one in resources:
        kind, name = one.resource_type, one.resource_name
        is_allowed, code = True, CLUSTER_DENIED
        if times[kind, name] > 1 and operation is Operation.ALTER_CONFIGS:
            pass
        elif kind == ConfigResourceType.TOPIC:
            is_allowed, code = rights.may(operation, ResourceType.TOPIC, name), TOPIC_DENIED
        elif kind == ConfigResourceType.GROUP:
            is_allowed, code = rights.may(operation, ResourceType.GROUP, name), GROUP_DENIED
        elif kind in OF_CLUSTER:
            is_allowed = of_cluster = rights.may_on_cluster(operation) if of_cluster is None else of_cluster
        if is_allowed:
            allowed.append(one)
        else:
            refused.append((one, code))
        if pace.is_due(CHECK_US):
            yield
    return allowed, refused
