"""Options of one group, with the broker's options as defaults (protocol/consumer-groups.md#options-of-groups).

Errors have Apache Kafka's messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from kohort.config.broker import BrokerConfig
from kohort.config.options import Option, as_in, kafka_int, options_of
from kohort.errors import ConfigError

GroupOptions: TypeAlias = Mapping[str, int]
NO_OPTIONS: Final[GroupOptions] = {}

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    session_timeout_ms: int = as_in(BrokerConfig, "group_consumer_session_timeout_ms", name=SESSION_TIMEOUT)
    heartbeat_interval_ms: int = as_in(BrokerConfig, "group_consumer_heartbeat_interval_ms", name=HEARTBEAT_INTERVAL)
    assignment_interval_ms: int = as_in(BrokerConfig, "group_consumer_assignment_interval_ms", name=ASSIGNMENT_INTERVAL)


OPTIONS: Final[Mapping[str, Option]] = {option.name: option for option in options_of(GroupConfig)}


def bounds(broker: BrokerConfig, name: str) -> tuple[int, int]:
    """Return the broker's bounds of a group's option."""
    match name:
        case "consumer.session.timeout.ms":
            return broker.group_consumer_min_session_timeout_ms, broker.group_consumer_max_session_timeout_ms
        case "consumer.heartbeat.interval.ms":
            return broker.group_consumer_min_heartbeat_interval_ms, broker.group_consumer_max_heartbeat_interval_ms
    return broker.group_consumer_min_assignment_interval_ms, broker.group_consumer_max_assignment_interval_ms


def of_broker(broker: BrokerConfig, name: str) -> int:
    """Return the default of a group's option."""
    value: int = getattr(broker, OPTIONS[name].falls_back_to or "")
    return value


def in_force(broker: BrokerConfig, own: GroupOptions, name: str) -> int:
    """Return the effective value: the group's own, clamped to the broker's bounds, or the default."""
    if name not in own:
        return of_broker(broker, name)
    low, high = bounds(broker, name)
    return max(low, min(own[name], high))


def parse_group_options(broker: BrokerConfig, given: Mapping[str, str]) -> dict[str, int]:
    """Parse the options of a group. Raises ConfigError for an unknown name or a value out of bounds.

    The session timeout must exceed the heartbeat interval.
    """
    for name in given:
        if name not in OPTIONS:
            raise ConfigError(f"Unknown group config name: {name}")
    own = {name: _parsed(OPTIONS[name], text) for name, text in given.items()}
    for name, value in own.items():
        low, high = bounds(broker, name)
        if not low <= value <= high:
            raise ConfigError(f"{name} must be in the range {low} to {high} inclusive.")
    if own and in_force(broker, own, SESSION_TIMEOUT) <= in_force(broker, own, HEARTBEAT_INTERVAL):
        raise ConfigError(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")
    return own


def _parsed(option: Option, text: str) -> int:
    value = kafka_int(option.name, text)
    if option.low is not None and value < option.low:
        raise ConfigError(f"Invalid value {text} for configuration {option.name}: Value must be at least {option.low}")
    return value
