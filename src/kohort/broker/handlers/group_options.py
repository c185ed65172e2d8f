"""The options of groups (KIP-848), for AlterConfigs, IncrementalAlterConfigs and DescribeConfigs.

Deleting what is not set succeeds, whatever it is, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kohort.broker.handlers.broker_options import levels_of
from kohort.broker.handlers.option_changes import APPEND, DELETE, SET, SUBTRACT, Change
from kohort.broker.request import Request, sender_of
from kohort.broker.state import BrokerState
from kohort.broker.topic_settings import Setting, group_settings
from kohort.config.group import parse_group_options
from kohort.coordinator.journal_events import OptionsChanged
from kohort.errors import ApiError, ErrorCode

NO_DEFAULT: Final = "Default group resources are not allowed."


def alter_group(
    state: BrokerState, request: Request, name: str, changes: list[Change], *, keep: bool, validate_only: bool
) -> None:
    """Carry out the changes; ``keep`` leaves options that are not named as they are. Raises ApiError or ConfigError."""
    _check_named(name)
    kept = state.cluster.group_options
    given = {option: str(value) for option, value in kept.of(name).items()} if keep else {}
    for option, operation, value in changes:
        if operation == DELETE:
            given.pop(option, None)
        else:
            given[option] = _new_value(option, operation, value)
    own = parse_group_options(state.config, given)
    if not validate_only and own != kept.of(name):
        before = kept.of(name)
        kept.replace(name, own)
        told = {o: (before.get(o), own.get(o)) for o in {*before, *own} if before.get(o) != own.get(o)}
        by = sender_of(request)
        state.coordinator.note(OptionsChanged(at_ms=request.now_ms, group=name, options=told, by=by))


def _new_value(option: str, operation: int, value: str | None) -> str:
    if value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{option}: a value is missing")
    if operation in (APPEND, SUBTRACT):
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{option} is no list: nothing can be appended or subtracted")
    if operation != SET:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"operation {operation}")
    return value


def settings_of_group(state: BrokerState, name: str) -> Sequence[Setting]:
    """Return the options of a group, whether it is there or not. Raises ApiError without a name."""
    _check_named(name)
    return group_settings(levels_of(state), state.cluster.group_options.of(name))


def _check_named(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, NO_DEFAULT)
