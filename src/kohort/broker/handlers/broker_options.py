"""Options of brokers that change at run time, for AlterConfigs, IncrementalAlterConfigs and DescribeConfigs (KIP-226).

They are set on one broker, or as the default of all brokers (resource name ``""``); options of logins only on one
broker, as in Kafka. ``config/dynamic_broker.py`` lists them. The default of all brokers has one more option,
``kohort.stopped.nodes``: appending the id of a node stops it, subtracting the id starts it. Deleting an option that is
not set succeeds, whatever its name is, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.broker.cluster.kept_broker_options import ALL
from kohort.broker.handlers.option_changes import APPEND, DELETE, SET, SUBTRACT, Change, edited
from kohort.broker.state import BrokerState
from kohort.broker.topic_settings import STOPPED_NODES, BrokerLevels, text_of
from kohort.config.broker import BrokerConfig
from kohort.config.dynamic_broker import DYNAMIC, OF_ONE_BROKER
from kohort.config.listeners import check_limits
from kohort.config.options import options_of, unknown_option
from kohort.config.server_properties import COARSER, IGNORED
from kohort.errors import ApiError, ConfigError, ErrorCode
from kohort.steps import Steps


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
