"""The subscriptions to metrics of clients, kept for all nodes of a cluster in ``kohort-client-metrics.json``.

Kafka keeps them in its metadata quorum; the format is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kohort.config.broker import BrokerConfig
from kohort.config.client_metrics import SubscriptionConfig, parse_subscription
from kohort.errors import ApiError, ConfigError, ErrorCode, StorageError
from kohort.log.storage import Storage, read_json
from kohort.telemetry.subscriptions import MetricsSubscriptions

SUBSCRIPTIONS_FILE: Final = "kohort-client-metrics.json"
VERSION: Final = 1
MOST_BYTES: Final = 1 << 20
"""Of all subscriptions: the file is written anew with every change."""
ADVICE: Final = "Mend it, or remove it to begin without subscriptions to metrics of clients"


class KeptSubscriptions:
    """What was set of each subscription, as text, and what follows from all of them."""

    __slots__ = ("_storage", "by_name", "in_force")

    def __init__(self, config: BrokerConfig, storage: Storage) -> None:
        """Take what is kept. Raises StorageError where it cannot be read."""
        self._storage = storage
        self.by_name: Mapping[str, Mapping[str, str]] = read_json(storage, SUBSCRIPTIONS_FILE, _parse, ADVICE) or {}
        given = {name: parse_subscription(texts) for name, texts in self.by_name.items()}
        self.in_force = MetricsSubscriptions(given, default_subscription(config))

    def replace(self, name: str, texts: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Let a subscription have these options and no others, from now on and for good; without any it is gone.

        Raises ApiError or ConfigError for options that cannot be taken, ApiError POLICY_VIOLATION where there is no
        room for more, KAFKA_STORAGE_ERROR where they cannot be written; then all is as it was.
        """
        made = self.in_force.checked(name, parse_subscription(texts)) if texts else None
        others = {held: own for held, own in self.by_name.items() if held != name}
        wanted = {**others, name: dict(texts)} if texts else others
        data = msgspec.json.encode({"version": VERSION, "subscriptions": wanted})
        if texts and len(data) > MOST_BYTES:
            told = f"there is no room for more subscriptions to metrics of clients than {MOST_BYTES} bytes hold"
            raise ApiError(ErrorCode.POLICY_VIOLATION, told)
        if validate_only or wanted == self.by_name:
            return
        try:
            self._storage.replace(SUBSCRIPTIONS_FILE, data)
        except StorageError as error:
            told = f"{SUBSCRIPTIONS_FILE} cannot be written: {error}"
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, told) from error
        self.by_name = wanted
        self.in_force.replace(name, made)


def default_subscription(config: BrokerConfig) -> SubscriptionConfig | None:
    """Return what is asked of clients that no subscription matches; None for nothing, as in Kafka."""
    if not config.client_metrics_default:
        return None
    return SubscriptionConfig(
        interval_ms=config.client_metrics_default_interval_ms, metrics=config.client_metrics_default
    )


def _parse(content: Any) -> dict[str, dict[str, str]]:
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']}; this broker reads {VERSION}")
    subscriptions: dict[str, dict[str, str]] = content["subscriptions"]
    try:
        for texts in subscriptions.values():
            MetricsSubscriptions({"": parse_subscription(texts)}, None)
    except (ApiError, ConfigError) as error:
        raise ValueError(str(error)) from None
    return subscriptions
