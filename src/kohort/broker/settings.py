"""Options of topics, groups and brokers for DescribeConfigs: value, type, source and documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kohort.config.broker import BrokerConfig
from kohort.config.client_metrics import OPTIONS as SUBSCRIPTION_OPTIONS
from kohort.config.client_metrics import parse_subscription
from kohort.config.dynamic_broker import DYNAMIC
from kohort.config.group import GroupConfig, GroupOptions
from kohort.config.options import Option, options_of
from kohort.config.topic import TopicConfig
from kohort.secret import Secret

TOPIC_CONFIG: Final = 1
DYNAMIC_BROKER_CONFIG: Final = 2
DYNAMIC_DEFAULT_BROKER_CONFIG: Final = 3
STATIC_BROKER_CONFIG: Final = 4
DEFAULT_CONFIG: Final = 5
CLIENT_METRICS_CONFIG: Final = 7
GROUP_CONFIG: Final = 8

PASSWORD: Final = 9
"""Number of the option type PASSWORD in Kafka's protocol; values of this type are hidden."""

STOPPED_NODES: Final = "kohort.stopped.nodes"
"""Option among the default options of all brokers: ids of the nodes to stop."""
IN_COARSER_UNITS: Final = frozenset({"log.retention.ms", "log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms"})
"""Options described without default value, as in Kafka: the option with the same purpose in hours has the default."""


BROKER_OPTIONS: Final = {option.attribute: option for option in options_of(BrokerConfig)}

Synonym = tuple[str, str | None, int]


@dataclass(frozen=True, slots=True)
class Setting:
    """An option in a DescribeConfigs response; the value of its first synonym is in effect."""

    name: str
    value: str | None
    source: int
    type: int
    doc: str
    synonyms: tuple[Synonym, ...]
    read_only: bool = False


def text_of(value: Any) -> str | None:
    """Return an option's value in Kafka's format; None for a secret, which is hidden."""
    if value is None or isinstance(value, Secret):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)


def type_of(option: Option) -> int:
    """Return Kafka's number of an option's type (BOOLEAN 1, STRING 2, ... PASSWORD 9)."""
    if option.type is int:
        return {16: 4, 32: 3, 64: 5}[option.bits]
    return {bool: 1, float: 6, list: 7, Secret: PASSWORD}.get(option.type, 2)


class BrokerLevels(NamedTuple):
    """Broker options on three levels: set on this broker, default of all brokers, set at broker start."""

    own: Mapping[str, str]
    """Options that were set on this broker at run time."""
    of_all: Mapping[str, str]
    """Options that were set at run time as the default of all brokers."""
    started_with: BrokerConfig

    def dynamic(self, name: str) -> list[Synonym]:
        """Return the values of an option that were set at run time; the first one is in effect."""
        levels = (self.own, DYNAMIC_BROKER_CONFIG), (self.of_all, DYNAMIC_DEFAULT_BROKER_CONFIG)
        return [(name, texts[name], source) for texts, source in levels if name in texts]

    def synonyms(self, option: Option) -> list[Synonym]:
        """Return the values of an option on all levels; the first one is in effect."""
        current = getattr(self.started_with, option.attribute)
        value, default = text_of(current), text_of(option.default)
        static = [(option.name, value, STATIC_BROKER_CONFIG)] if value != default or isinstance(current, Secret) else []
        usual = [(option.name, default, DEFAULT_CONFIG)] if option.name not in IN_COARSER_UNITS else []
        return [*self.dynamic(option.name), *static, *usual]


def broker_settings(levels: BrokerLevels) -> list[Setting]:
    settings = []
    for option in options_of(BrokerConfig):
        synonyms = levels.synonyms(option)
        value = synonyms[0][1] if synonyms else text_of(getattr(levels.started_with, option.attribute))
        settings.append(replace(_setting(option, value, synonyms), read_only=option.name not in DYNAMIC))
    return settings


def _setting(option: Option, value: str | None, synonyms: list[Synonym]) -> Setting:
    source = synonyms[0][2] if synonyms else DEFAULT_CONFIG
    return Setting(option.name, value, source, type_of(option), option.description(), tuple(synonyms))


def cluster_settings(stopped: Iterable[int]) -> list[Setting]:
    value = ",".join(map(str, stopped))
    doc = "Ids of the nodes that are stopped: append one to stop a node, subtract it to start it."
    return [Setting(STOPPED_NODES, value, DYNAMIC_DEFAULT_BROKER_CONFIG, 7, doc, ())]


def topic_settings(levels: BrokerLevels, config: TopicConfig, overrides: Mapping[str, str | None]) -> list[Setting]:
    """Return all options of a topic, with the broker options that they inherit, for DescribeConfigs."""
    settings = []
    for option in options_of(TopicConfig):
        synonyms: list[Synonym] = []
        if option.falls_back_to is not None:
            synonyms += levels.synonyms(BROKER_OPTIONS[option.falls_back_to])
        value = text_of(getattr(config, option.attribute))
        if overrides.get(option.name) is not None:
            synonyms.insert(0, (option.name, value, TOPIC_CONFIG))
        settings.append(_setting(option, value, synonyms))
    return settings


def group_settings(levels: BrokerLevels, own: GroupOptions) -> list[Setting]:
    """Return all options of a group, with the broker options that they inherit, for DescribeConfigs."""
    settings = []
    for option in options_of(GroupConfig):
        synonyms = levels.synonyms(BROKER_OPTIONS[option.falls_back_to or ""])
        if option.name in own:
            synonyms.insert(0, (option.name, str(own[option.name]), GROUP_CONFIG))
        settings.append(_setting(option, synonyms[0][1], synonyms))
    return settings


def subscription_settings(own: Mapping[str, str]) -> list[Setting]:
    """Return all options of a metrics subscription; as in Kafka, defaults have no synonyms."""
    config = parse_subscription(own)
    settings = []
    for option in SUBSCRIPTION_OPTIONS.values():
        value = text_of(getattr(config, option.attribute))
        synonyms: list[Synonym] = [(option.name, value, CLIENT_METRICS_CONFIG)] if option.name in own else []
        settings.append(_setting(option, value, synonyms))
    return settings


def dynamic_settings(levels: BrokerLevels, options: Iterable[Option]) -> list[Setting]:
    found = [(option, levels.dynamic(option.name)) for option in options]
    return [_setting(option, synonyms[0][1], synonyms) for option, synonyms in found if synonyms]
