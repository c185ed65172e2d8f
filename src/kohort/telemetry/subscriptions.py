"""Subscriptions: which metrics each client pushes, and how often (KIP-714).

All matching subscriptions apply: a client pushes the union of their metrics at the shortest interval. A client without
a match gets the broker's default subscription, if any.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kohort.config.client_metrics import ALL_METRICS, INTERVAL_MS, SubscriptionConfig, parse_match, refused_match
from kohort.errors import ApiError, ErrorCode
from kohort.model import uuid_to_text
from kohort.pattern import Pattern

SUBSCRIPTIONS_MOST: Final = 1_000
RDKAFKA: Final = "rdkafka"
"""Part of the software name or version of clients that use librdkafka."""
STEPS_MOST: Final = 200_000
"""Maximum RE2 program steps of all patterns together, which take about ten megabytes of memory."""


class ClientFacts(NamedTuple):
    """Properties of a client that are matched with subscriptions; None if unknown."""

    client_id: str
    address: str
    port: int | None = None
    software_name: str | None = None
    software_version: str | None = None


class RequestedMetrics(NamedTuple):
    """Subscription of a client. Without ``metrics``, the client only requests it again every ``interval_ms``.

    ``subscription_id`` changes with the metrics or the interval; it is the same on all nodes.
    """

    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int


class MetricsSubscription:
    """A subscription with compiled patterns. Raises ConfigError for an invalid pattern."""

    def __init__(self, config: SubscriptionConfig) -> None:
        self.config = config
        self.patterns: dict[str, Pattern] = {}
        for name, text in parse_match(config.match).items():
            try:
                self.patterns[name] = Pattern(text)
            except ApiError:
                raise refused_match(f"{name}={text}") from None

    @property
    def steps(self) -> int:
        return sum(pattern.size for pattern in self.patterns.values())

    def matches(self, attributes: Mapping[str, str | None]) -> bool:
        """Return True if each pattern matches the whole value of its attribute, or if there are no patterns."""
        return all(_fullmatch(pattern, attributes[name]) for name, pattern in self.patterns.items())


def _fullmatch(pattern: Pattern, text: str | None) -> bool:
    if text is None:
        return False
    pattern.begin()
    try:
        return pattern.fullmatch(text)
    except ApiError:  # the match exceeded the work limit of a pattern
        return False


class MetricsSubscriptions:
    """All metrics subscriptions of a cluster. ``version`` increases with every change."""

    def __init__(self, given: Mapping[str, SubscriptionConfig], default: SubscriptionConfig | None) -> None:
        """``default``: subscription of clients that match no other. Raises ConfigError for an invalid pattern."""
        self._default = default
        self._by_name = {name: MetricsSubscription(config) for name, config in given.items()}
        self.version = 0

    def apply_to(self, software: str) -> bool:
        """Return True if clients of this software (name and version) may have a subscription.

        The default subscription excludes librdkafka, which prints a line to stderr for each client with a subscription.
        """
        return bool(self._by_name) or (self._default is not None and RDKAFKA not in software.lower())

    def checked(self, name: str, config: SubscriptionConfig) -> MetricsSubscription:
        """Check a subscription for ``replace``. Raises ConfigError for an invalid pattern, ApiError beyond a limit."""
        made = MetricsSubscription(config)
        others = [other for other_name, other in self._by_name.items() if other_name != name]
        if len(others) >= SUBSCRIPTIONS_MOST:
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"more than {SUBSCRIPTIONS_MOST} metrics subscriptions")
        if made.patterns and made.steps + sum(other.steps for other in others) > STEPS_MOST:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"match: with these patterns of {made.steps} RE2 steps, all subscriptions exceed {STEPS_MOST} steps",
            )
        return made

    def replace(self, name: str, subscription: MetricsSubscription | None) -> None:
        if subscription is None:
            self._by_name.pop(name, None)
        else:
            self._by_name[name] = subscription
        self.version += 1

    def requested_of(self, client_instance_id: bytes, client: ClientFacts) -> RequestedMetrics:
        """Return the union of the subscriptions that match a client."""
        attributes = {
            "client_instance_id": uuid_to_text(client_instance_id),
            "client_id": client.client_id,
            "client_software_name": client.software_name,
            "client_software_version": client.software_version,
            "client_source_address": client.address,
            "client_source_port": None if client.port is None else str(client.port),
        }
        matching = [other.config for other in self._by_name.values() if other.matches(attributes)]
        if not matching and self._default is not None:
            matching = [self._default]
        metrics = sorted({metric for config in matching for metric in config.metrics})
        if ALL_METRICS in metrics:
            metrics = [ALL_METRICS]
        interval_ms = min([INTERVAL_MS, *(config.interval_ms for config in matching)])
        return RequestedMetrics(tuple(metrics), interval_ms, _number(metrics, interval_ms, client_instance_id))


def _number(metrics: Sequence[str], interval_ms: int, client_instance_id: bytes) -> int:
    number = zlib.crc32(repr((*metrics, interval_ms)).encode()) ^ zlib.crc32(client_instance_id)
    return number - (1 << 32) if number >= 1 << 31 else number
