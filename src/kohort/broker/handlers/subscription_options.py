"""The options of subscriptions to metrics of clients (KIP-714), for AlterConfigs, IncrementalAlterConfigs and
DescribeConfigs: resources of type CLIENT_METRICS.

Kafka appends to none of their lists and subtracts from none, though they are lists. One whose last option is deleted is
gone; deleting what is not set succeeds, whatever it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.handlers.option_changes import APPEND, DELETE, SET, SUBTRACT, Change
from kohort.broker.state import BrokerState
from kohort.broker.topic_settings import Setting, subscription_settings
from kohort.errors import ApiError, ErrorCode


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
            given[option] = _new_value(option, operation, value)
    kept.replace(name, given, validate_only=validate_only)


def _new_value(option: str, operation: int, value: str | None) -> str:
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
