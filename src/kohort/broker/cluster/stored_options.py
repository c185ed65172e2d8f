"""Options that change at run time, kept for all nodes of a cluster, each kind in a JSON file.

Kafka keeps them in its metadata quorum; the format is ours. Options of brokers: ``kohort-broker-options.json``. Options
of groups: ``kohort-group-options.json``; they outlive their group, and need none. Subscriptions to metrics of clients:
``kohort-client-metrics.json``.
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
"""Resource name of the default of all brokers."""
ADVICE: Final = "Mend it, or remove it to begin with the options that the brokers are started with"
OptionTexts = Mapping[str, str]
"""Texts of options, by Kafka's names."""
GROUP_OPTIONS_FILE: Final = "kohort-group-options.json"
GROUPS_MOST_BYTES: Final = 2 << 20
"""Of all groups' options, by estimate: the file is written anew with every change."""
BYTES_PER_OPTION: Final = 50
BYTES_PER_GROUP: Final = 10
SUBSCRIPTIONS_FILE: Final = "kohort-client-metrics.json"
SUBSCRIPTIONS_MOST_BYTES: Final = 1 << 20
"""Of all subscriptions: the file is written anew with every change."""
SUBSCRIPTIONS_ADVICE: Final = "Mend it, or remove it to begin without subscriptions to metrics of clients"


class StoredBrokerOptions:
    """Options of one broker, by its id as text, and of all brokers, under ``""``."""

    __slots__ = ("_storage", "by_name")

    def __init__(self, storage: Storage) -> None:
        """Read the file. Raises StorageError where it cannot be read."""
        self._storage = storage
        self.by_name: Mapping[str, OptionTexts] = (
            load(storage, BROKER_OPTIONS_FILE, _parse_broker_options, ADVICE) or {}
        )

    def of(self, name: str) -> OptionTexts:
        """Return the options of one broker, or of all brokers under ``""``."""
        return self.by_name.get(name, {})

    def replace(self, name: str, texts: OptionTexts) -> None:
        """Keep exactly these options. Raises ApiError KAFKA_STORAGE_ERROR, and changes nothing, if the disk refuses."""
        others = {held: own for held, own in self.by_name.items() if held != name}
        wanted = {**others, name: dict(texts)} if texts else others
        if wanted == self.by_name:
            return
        save(self._storage, BROKER_OPTIONS_FILE, {"options": wanted})
        self.by_name = wanted

    def in_force(self, started_with: BrokerConfig, name: str) -> BrokerConfig:
        """Return the options of a broker: its own before the default of all, before those of its start."""
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
    """What holds for groups beside the broker's options. ``by_group`` names only groups that have options."""

    __slots__ = ("_held_bytes", "_storage", "by_group")

    def __init__(self, storage: Storage) -> None:
        """Load the options. Raises StorageError if the file is unreadable."""
        self._storage = storage
        advice = "Mend it, or remove it to begin without options of groups"
        self.by_group: Mapping[str, GroupOptions] = (
            load(storage, GROUP_OPTIONS_FILE, _parse_group_options, advice) or {}
        )
        self._held_bytes = sum(_bytes_of(group_id, options) for group_id, options in self.by_group.items())

    def of(self, group_id: str) -> GroupOptions:
        return self.by_group.get(group_id, NO_OPTIONS)

    def replace(self, group_id: str, options: GroupOptions) -> None:
        """Let a group have these options and no others, from now on and for good.

        Raises ApiError POLICY_VIOLATION where there is no room for more, KAFKA_STORAGE_ERROR where they cannot be
        written; then all is as it was.
        """
        held = self._held_bytes + _bytes_of(group_id, options) - _bytes_of(group_id, self.of(group_id))
        if held > max(GROUPS_MOST_BYTES, self._held_bytes):
            told = f"there is no room for more options of groups than {GROUPS_MOST_BYTES} bytes hold"
            raise ApiError(ErrorCode.POLICY_VIOLATION, told)
        others = {name: own for name, own in self.by_group.items() if name != group_id}
        groups = {**others, group_id: dict(options)} if options else others
        save(self._storage, GROUP_OPTIONS_FILE, {"groups": groups})
        self.by_group = groups
        self._held_bytes = held


def _bytes_of(group_id: str, options: GroupOptions) -> int:
    return len(msgspec.json.encode(group_id)) + BYTES_PER_GROUP + BYTES_PER_OPTION * len(options) if options else 0


def _parse_group_options(content: Any) -> dict[str, GroupOptions]:
    groups: dict[str, GroupOptions] = {}
    for group_id, options in content["groups"].items():
        for name, value in options.items():
            if name not in OPTIONS or type(value) is not int:
                raise ValueError(f"{name!r} of group {group_id!r} is no option of a group, or {value!r} no value of it")
        groups[group_id] = options
    return groups


class StoredSubscriptions:
    """Options of each metrics subscription as text, and the subscriptions in force."""

    __slots__ = ("_storage", "by_name", "in_force")

    def __init__(self, config: BrokerConfig, storage: Storage) -> None:
        """Load the options. Raises StorageError if the file is unreadable."""
        self._storage = storage
        self.by_name: Mapping[str, Mapping[str, str]] = (
            load(storage, SUBSCRIPTIONS_FILE, _parse_subscriptions, SUBSCRIPTIONS_ADVICE) or {}
        )
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
        if texts and len(encoded({"subscriptions": wanted})) > SUBSCRIPTIONS_MOST_BYTES:
            room = f"{SUBSCRIPTIONS_MOST_BYTES} bytes hold no more subscriptions to metrics of clients"
            raise ApiError(ErrorCode.POLICY_VIOLATION, room)
        if validate_only or wanted == self.by_name:
            return
        save(self._storage, SUBSCRIPTIONS_FILE, {"subscriptions": wanted})
        self.by_name = wanted
        self.in_force.replace(name, made)


def default_subscription(config: BrokerConfig) -> SubscriptionConfig | None:
    """Return what is asked of clients that no subscription matches; None for nothing, as in Kafka."""
    if not config.client_metrics_default:
        return None
    return SubscriptionConfig(
        interval_ms=config.client_metrics_default_interval_ms, metrics=config.client_metrics_default
    )


def _parse_subscriptions(content: Any) -> dict[str, dict[str, str]]:
    subscriptions: dict[str, dict[str, str]] = content["subscriptions"]
    try:
        for texts in subscriptions.values():
            MetricsSubscriptions({"": parse_subscription(texts)}, None)
    except (ApiError, ConfigError) as error:
        raise ValueError(str(error)) from None
    return subscriptions
