"""Options that changed at run time, stored for all nodes of a cluster in JSON files.

Broker options: ``kohort-broker-options.json``. Group options: ``kohort-group-options.json``; a group need not exist.
Subscriptions to client metrics: ``kohort-client-metrics.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from kohort.broker.cluster.json_files import encoded, load, save
from kohort.config.broker import BrokerConfig
from kohort.config.client_metrics import SubscriptionConfig, parse_subscription
from kohort.config.dynamic_broker import DYNAMIC, OF_BROKER
from kohort.config.group import NO_OPTIONS, OPTIONS, GroupOptions
from kohort.config.listeners import check_limits
from kohort.errors import ApiError, ConfigError, ErrorCode
from kohort.log.storage import Storage
from kohort.telemetry.subscriptions import MetricsSubscriptions

BROKER_OPTIONS_FILE: Final = "kohort-broker-options.json"
ALL: Final = ""
"""Resource name of the default options of all brokers."""
ADVICE: Final = "Repair the file, or remove it to drop all broker options that were changed at run time"
OptionTexts = Mapping[str, str]
GROUP_OPTIONS_FILE: Final = "kohort-group-options.json"
GROUPS_MOST_BYTES: Final = 2 << 20
"""Maximum size of the options of all groups in bytes, estimated; each change rewrites the whole file."""
BYTES_PER_OPTION: Final = 50
BYTES_PER_GROUP: Final = 10
SUBSCRIPTIONS_FILE: Final = "kohort-client-metrics.json"
SUBSCRIPTIONS_MOST_BYTES: Final = 1 << 20
"""Maximum size of all client-metrics subscriptions in bytes; each change rewrites the whole file."""
SUBSCRIPTIONS_ADVICE: Final = "Repair the file, or remove it to start without metrics subscriptions"


class StoredBrokerOptions:
    """Changed broker options of each broker id; the name ``""`` stands for the default of all brokers."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.by_name: Mapping[str, OptionTexts] = (
            load(storage, BROKER_OPTIONS_FILE, _parse_broker_options, ADVICE) or {}
        )

    def of(self, name: str) -> OptionTexts:
        return self.by_name.get(name, {})

    def replace(self, name: str, texts: OptionTexts) -> None:
        """Store the changed options of a broker. If the write fails, raises ApiError and changes nothing."""
        others = {other: own for other, own in self.by_name.items() if other != name}
        changed = {**others, name: dict(texts)} if texts else others
        if changed == self.by_name:
            return
        save(self._storage, BROKER_OPTIONS_FILE, {"options": changed})
        self.by_name = changed

    def in_force(self, started_with: BrokerConfig, name: str) -> BrokerConfig:
        """Return a broker's effective options: its own, then the default of all brokers, then the start options."""
        texts = {**self.of(ALL), **self.of(name)}
        values = {OF_BROKER[n].attribute: OF_BROKER[n].parse(text) for n, text in texts.items() if n in OF_BROKER}
        return replace(started_with, **values) if values else started_with


def _parse_broker_options(content: Any) -> dict[str, OptionTexts]:
    options: dict[str, OptionTexts] = content["options"]
    try:
        for texts in options.values():
            for name, text in texts.items():
                check_limits(name, DYNAMIC[name].parse(text))
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return options


class StoredGroupOptions:
    """Options of groups that differ from the broker's group options."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        advice = "Repair the file, or remove it to start without group options"
        self.by_group: Mapping[str, GroupOptions] = (
            load(storage, GROUP_OPTIONS_FILE, _parse_group_options, advice) or {}
        )
        self._held_bytes = sum(_bytes_of(group_id, options) for group_id, options in self.by_group.items())

    def of(self, group_id: str) -> GroupOptions:
        return self.by_group.get(group_id, NO_OPTIONS)

    def replace(self, group_id: str, options: GroupOptions) -> None:
        """Store the options of a group.

        Raises POLICY_VIOLATION above the size limit, KAFKA_STORAGE_ERROR for a failed write. After an error, the
        former options stay.
        """
        used_bytes = self._held_bytes + _bytes_of(group_id, options) - _bytes_of(group_id, self.of(group_id))
        if used_bytes > max(GROUPS_MOST_BYTES, self._held_bytes):
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"the options of all groups exceed {GROUPS_MOST_BYTES} bytes")
        others = {name: own for name, own in self.by_group.items() if name != group_id}
        groups = {**others, group_id: dict(options)} if options else others
        save(self._storage, GROUP_OPTIONS_FILE, {"groups": groups})
        self.by_group = groups
        self._held_bytes = used_bytes


def _bytes_of(group_id: str, options: GroupOptions) -> int:
    return len(msgspec.json.encode(group_id)) + BYTES_PER_GROUP + BYTES_PER_OPTION * len(options) if options else 0


def _parse_group_options(content: Any) -> dict[str, GroupOptions]:
    groups: dict[str, GroupOptions] = {}
    for group_id, options in content["groups"].items():
        for name, value in options.items():
            if name not in OPTIONS or type(value) is not int:
                raise ValueError(f"group {group_id!r} has an invalid option {name!r} or value {value!r}")
        groups[group_id] = options
    return groups


class StoredSubscriptions:
    """Options of each client-metrics subscription: stored texts, and the subscriptions made from them."""

    def __init__(self, config: BrokerConfig, storage: Storage) -> None:
        self._storage = storage
        self.by_name: Mapping[str, Mapping[str, str]] = (
            load(storage, SUBSCRIPTIONS_FILE, _parse_subscriptions, SUBSCRIPTIONS_ADVICE) or {}
        )
        configs = {name: parse_subscription(texts) for name, texts in self.by_name.items()}
        default = None
        if metrics := config.client_metrics_default:
            default = SubscriptionConfig(interval_ms=config.client_metrics_default_interval_ms, metrics=metrics)
        self.in_force = MetricsSubscriptions(configs, default)

    def replace(self, name: str, texts: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Store the options of a client-metrics subscription; empty ``texts`` remove it.

        Raises ApiError or ConfigError for invalid options, POLICY_VIOLATION above the size limit, KAFKA_STORAGE_ERROR
        for a failed write. After an error, the former options stay.
        """
        made = self.in_force.checked(name, parse_subscription(texts)) if texts else None
        others = {other: own for other, own in self.by_name.items() if other != name}
        changed = {**others, name: dict(texts)} if texts else others
        if texts and len(encoded({"subscriptions": changed})) > SUBSCRIPTIONS_MOST_BYTES:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, f"all metrics subscriptions exceed {SUBSCRIPTIONS_MOST_BYTES} bytes"
            )
        if validate_only or changed == self.by_name:
            return
        save(self._storage, SUBSCRIPTIONS_FILE, {"subscriptions": changed})
        self.by_name = changed
        self.in_force.replace(name, made)


def _parse_subscriptions(content: Any) -> dict[str, dict[str, str]]:
    subscriptions: dict[str, dict[str, str]] = content["subscriptions"]
    try:
        for texts in subscriptions.values():
            MetricsSubscriptions({"": parse_subscription(texts)}, None)
    except (ApiError, ConfigError) as error:
        raise ValueError(str(error)) from None
    return subscriptions
