"""Which metrics are asked of which client, and how often (KIP-714).

Every subscription that matches a client counts: it pushes what any of them asks for, as often as the one that wants it
most often. A client that none matches has the broker's own default subscription, if there is one.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kohort.config.client_metrics import ALL_METRICS, INTERVAL_MS, SubscriptionConfig, parse_match, refused_match
from kohort.errors import ApiError, ErrorCode
from kohort.pattern import Pattern

SUBSCRIPTIONS_MOST: Final = 1_000
RDKAFKA: Final = "rdkafka"
"""Part of the name or version that clients on librdkafka give as their software."""
STEPS_MOST: Final = 200_000
"""Of the machines of all patterns together: some ten megabytes."""


class ClientFacts(NamedTuple):
    """What is known of a client, by which subscriptions choose theirs; None for what it did not say."""

    client_id: str
    address: str
    port: int | None = None
    software_name: str | None = None
    software_version: str | None = None


class RequestedMetrics(NamedTuple):
    """What is asked of one client. Without ``metrics`` it pushes nothing, and asks again after ``interval_ms``.

    ``subscription_id`` is another one whenever something else is asked, and the same on all nodes.
    """

    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int


class MetricsSubscription:
    """One subscription, its patterns compiled. Raises ConfigError for a pattern that is none."""

    __slots__ = ("config", "patterns")

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
        """Of the machines of its patterns."""
        return sum(pattern.size for pattern in self.patterns.values())

    def matches(self, attributes: Mapping[str, str | None]) -> bool:
        """Tell whether all its patterns match the whole of what they are about; one without patterns matches all."""
        return all(_fullmatch(pattern, attributes[name]) for name, pattern in self.patterns.items())


def _fullmatch(pattern: Pattern, text: str | None) -> bool:
    if text is None:
        return False
    pattern.begin()
    try:
        return pattern.fullmatch(text)
    except ApiError:  # too much work
        return False


class MetricsSubscriptions:
    """The subscriptions of a cluster. ``version`` is raised with every change."""

    def __init__(self, given: Mapping[str, SubscriptionConfig], default: SubscriptionConfig | None) -> None:
        """``default`` is for clients that none of ``given`` matches. Raises ConfigError for a pattern that is none."""
        self._default = default
        self._by_name = {name: MetricsSubscription(config) for name, config in given.items()}
        self.version = 0

    def are_for(self, software: str) -> bool:
        """Tell whether clients of this software, name and version, are asked for metrics.

        librdkafka prints a line to stderr for each client that is asked: the default alone does not ask it.
        """
        return bool(self._by_name) or (self._default is not None and RDKAFKA not in software.lower())

    @property
    def names(self) -> Sequence[str]:
        """Of all, in order."""
        return sorted(self._by_name)

    def checked(self, name: str, config: SubscriptionConfig) -> MetricsSubscription:
        """Return a subscription for ``replace``. Raises ConfigError for a pattern that is none, ApiError where there
        is no room for it."""
        made = MetricsSubscription(config)
        others = [held for other, held in self._by_name.items() if other != name]
        if len(others) >= SUBSCRIPTIONS_MOST:
            told = f"there can be {SUBSCRIPTIONS_MOST} subscriptions to metrics of clients"
            raise ApiError(ErrorCode.POLICY_VIOLATION, told)
        if made.patterns and made.steps + sum(held.steps for held in others) > STEPS_MOST:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, f"match: its patterns, with those of others, are too large: {made.steps}"
            )
        return made

    def replace(self, name: str, subscription: MetricsSubscription | None) -> None:
        if subscription is None:
            self._by_name.pop(name, None)
        else:
            self._by_name[name] = subscription
        self.version += 1

    def requested_of(self, client_instance_id: bytes, text: str, client: ClientFacts) -> RequestedMetrics:
        """Return what is asked of a client, whose id is ``text`` where a pattern is about it."""
        attributes = _attributes(text, client)
        matching = [held.config for held in self._by_name.values() if held.matches(attributes)]
        if not matching and self._default is not None:
            matching = [self._default]
        metrics = sorted({metric for config in matching for metric in config.metrics})
        if ALL_METRICS in metrics:
            metrics = [ALL_METRICS]
        interval_ms = min([INTERVAL_MS, *(config.interval_ms for config in matching)])
        return RequestedMetrics(tuple(metrics), interval_ms, _number(metrics, interval_ms, client_instance_id))


def _attributes(text: str, client: ClientFacts) -> dict[str, str | None]:
    return {
        "client_instance_id": text,
        "client_id": client.client_id,
        "client_software_name": client.software_name,
        "client_software_version": client.software_version,
        "client_source_address": client.address,
        "client_source_port": None if client.port is None else str(client.port),
    }


def _number(metrics: Sequence[str], interval_ms: int, client_instance_id: bytes) -> int:
    number = zlib.crc32(repr((*metrics, interval_ms)).encode()) ^ zlib.crc32(client_instance_id)
    return number - (1 << 32) if number >= 1 << 31 else number
