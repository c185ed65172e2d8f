"""Options of a subscription to client metrics (KIP-714), checked as in Apache Kafka 4.4, with its messages.

A subscription is a resource of type CLIENT_METRICS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kohort.config.options import Option, option, options_of
from kohort.errors import ApiError, ConfigError, ErrorCode

INTERVAL_MS: Final = 300_000
"""Push interval of clients without a subscription, and the longest of a subscription."""
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
    interval_ms = _interval_ms(given["interval.ms"]) if "interval.ms" in given else INTERVAL_MS
    lists = {name: _parts(name, given.get(name, "")) for name in ("match", "metrics")}
    parse_match(lists["match"])
    return SubscriptionConfig(interval_ms=interval_ms, match=lists["match"], metrics=lists["metrics"])


def parse_match(patterns: list[str]) -> dict[str, str]:
    """Return the pattern of each matched property; the last duplicate counts. Raises ConfigError."""
    return dict(_named(pattern) for pattern in patterns)


def _named(pattern: str) -> tuple[str, str]:
    name, *rest = re.sub("=+$", "", pattern).split("=")  # Java's split drops empty parts at the end
    if len(rest) != 1 or name.strip() not in MATCHED:
        raise refused_match(pattern)
    return name.strip(), rest[0].strip()


def refused_match(pattern: str) -> ConfigError:
    return ConfigError(f"Illegal client matching pattern: {pattern}")


def _interval_ms(text: str) -> int:
    digits = text.strip()
    if not re.fullmatch("[+-]?[0-9]{1,19}", digits) or not -(1 << 31) <= int(digits) < 1 << 31:
        raise ConfigError(f"Invalid value {text} for configuration interval.ms: Not a number of type INT")
    value = int(digits)
    if not SHORTEST_MS <= value <= LONGEST_MS:
        words = f"interval must be between {SHORTEST_MS} and {LONGEST_MS} (1 hour)"
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid value {value} for interval.ms, {words}")
    return value


def _parts(name: str, text: str) -> list[str]:
    return list(dict.fromkeys(_split(name, text)))


def _split(name: str, text: str) -> Iterator[str]:
    if not text.strip():
        return
    for part in text.split(","):
        if not part.strip():
            raise ConfigError(f"Configuration '{name}' values must not be empty.")
        yield part.strip()
