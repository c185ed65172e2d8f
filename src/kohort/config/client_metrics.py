"""Options of a CLIENT_METRICS resource (KIP-714): a subscription to client metrics, checked with Kafka's messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kohort.config.options import Option, kafka_int, option, options_of
from kohort.errors import ApiError, ConfigError, ErrorCode

INTERVAL_MS: Final = 300_000
"""Default push interval of a subscription, and the longest interval that clients get."""
SHORTEST_MS: Final = 100
LONGEST_MS: Final = 3_600_000
ALL_METRICS: Final = "*"
MATCHED: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionConfig:
    interval_ms: int = option(INTERVAL_MS, "Metrics push interval in milliseconds.", bits=32)
    match: list[str] = option([], "Client match criteria.")
    metrics: list[str] = option([], "Telemetry metric name prefix list.")


OPTIONS: Final[Mapping[str, Option]] = {option.name: option for option in options_of(SubscriptionConfig)}


def parse_subscription(given: Mapping[str, str]) -> SubscriptionConfig:
    """Parse the options of a subscription. Raises ApiError or ConfigError."""
    for name in given:
        if name not in OPTIONS:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
    interval_ms = kafka_int("interval.ms", given.get("interval.ms", str(INTERVAL_MS)))
    if not SHORTEST_MS <= interval_ms <= LONGEST_MS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, interval must be between {SHORTEST_MS} and {LONGEST_MS} "
            "(1 hour)",
        )
    match, metrics = _parts("match", given), _parts("metrics", given)
    parse_match(match)
    return SubscriptionConfig(interval_ms=interval_ms, match=match, metrics=metrics)


def parse_match(patterns: list[str]) -> dict[str, str]:
    """Return the regular expression of each matched client property; the last duplicate counts. Raises ConfigError."""
    return dict(_named(pattern) for pattern in patterns)


def _named(pattern: str) -> tuple[str, str]:
    name, *rest = re.sub("=+$", "", pattern).split("=")  # Java's split drops empty parts at the end
    if len(rest) != 1 or name.strip() not in MATCHED:
        raise refused_match(pattern)
    return name.strip(), rest[0].strip()


def refused_match(pattern: str) -> ConfigError:
    return ConfigError(f"Illegal client matching pattern: {pattern}")


def _parts(name: str, given: Mapping[str, str]) -> list[str]:
    text = given.get(name, "").strip()
    parts = [part.strip() for part in text.split(",")] if text else []
    if "" in parts:
        raise ConfigError(f"Configuration '{name}' values must not be empty.")
    return list(dict.fromkeys(parts))
