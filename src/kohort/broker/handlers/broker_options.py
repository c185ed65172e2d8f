"""What can be changed of brokers while they run, for AlterConfigs and IncrementalAlterConfigs.

Of one broker, or as a default of all of them (resource name ``""``): the options of ``DynamicBrokerConfig``, which do
nothing here; those of logins only of one broker, as in Kafka. Of all of them also kohort's own
``kohort.stopped.nodes``, the ids of the nodes that are stopped: appending an id stops a node, subtracting it starts it.
Deleting what is not set succeeds, whatever it is, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.broker.handlers.option_changes import APPEND, DELETE, SET, SUBTRACT, Change, edited
from kohort.broker.state import BrokerState
from kohort.broker.topic_settings import STOPPED_NODES, text_of
from kohort.config.broker import BrokerConfig
from kohort.config.dynamic_broker import OF_ONE_BROKER, DynamicBrokerConfig
from kohort.config.options import options_of, unknown_option
from kohort.config.server_properties import IGNORED
from kohort.errors import ApiError, ConfigError, ErrorCode

DYNAMIC: Final = {option.name: option for option in options_of(DynamicBrokerConfig)}


def check_broker(state: BrokerState, name: str) -> None:
    """Raise ApiError INVALID_REQUEST unless ``name`` is the id of this broker."""
    if name != str(state.node.node_id):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"no broker {name!r}; this one is {state.node.node_id}")


def alter_broker(state: BrokerState, name: str, changes: list[Change], *, keep: bool, validate_only: bool) -> None:
    """Carry out the changes; ``keep`` leaves options that are not named as they are. Raises ApiError or ConfigError."""
    if name:
        check_broker(state, name)
    of_nodes = [change for change in changes if change[0] == STOPPED_NODES and not name]
    options = dict(state.cluster.dynamic_options.get(name, {})) if keep else {}
    for option, operation, value in changes:
        if operation == DELETE:
            options.pop(option, None)
        elif (option, operation, value) not in of_nodes:
            options[option] = _checked(options, option, operation, value)
            _check_level(name, option)
    stopped = _stopped_after(state, of_nodes)
    if not validate_only:
        state.cluster.dynamic_options[name] = options
        if of_nodes:
            _stop(state, stopped)


def _checked(held: Mapping[str, str], name: str, operation: int, value: str | None) -> str:
    option = DYNAMIC.get(name)
    if option is None:
        known = {o.name for o in options_of(BrokerConfig)} | IGNORED
        if name in known:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} is given when a broker is started")
        raise unknown_option(name, known | DYNAMIC.keys())
    if value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name}: a value is missing")
    if operation in (APPEND, SUBTRACT):
        if option.type is not list:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{name} is no list: nothing can be appended or subtracted")
        before = option.parse(held.get(name, option.default))
        return ",".join(edited(before, operation, value))
    if operation != SET:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"operation {operation}")
    try:
        return text_of(option.parse(value)) or ""
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
