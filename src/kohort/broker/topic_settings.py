"""The options of a topic, a group or the broker as the protocol tells them: value, type, origin and meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kohort.config.broker import BrokerConfig
from kohort.config.client_metrics import OPTIONS as SUBSCRIPTION_OPTIONS
from kohort.config.client_metrics import parse_subscription
from kohort.config.dynamic_broker import DynamicBrokerConfig
from kohort.config.group import GroupConfig, GroupOptions, of_broker
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
"""The type of options whose values are told to nobody."""

STOPPED_NODES: Final = "kohort.stopped.nodes"
"""Kohort's own option of all brokers, which changes while they run."""
IN_COARSER_UNITS: Final = frozenset({"log.retention.ms", "log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms"})
"""Options without a default of their own in Kafka: another has it (in hours, or of the flusher)."""


Synonym = tuple[str, str | None, int]
"""Name, value, source."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One option as DescribeConfigs answers it; the one in force is the first of ``synonyms``."""

    name: str
    value: str | None
    source: int
    type: int
    doc: str
    synonyms: tuple[Synonym, ...]
    read_only: bool = False


def text_of(value: Any) -> str | None:
    """Return a value as Kafka writes it; a secret is told to nobody."""
    if value is None or isinstance(value, Secret):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)


def type_of(option: Option) -> int:
    """Return Kafka's number for the type: BOOLEAN 1, STRING 2, INT 3, SHORT 4, LONG 5, DOUBLE 6, LIST 7, PASSWORD 9."""
    if option.type is int:
        return {16: 4, 32: 3, 64: 5}[option.bits]
    return {bool: 1, float: 6, list: 7, Secret: PASSWORD}.get(option.type, 2)


def broker_settings(config: BrokerConfig) -> list[Setting]:
    """Return every option of the broker."""
    settings = [_broker_setting(config, option) for option in options_of(BrokerConfig)]
    return [replace(setting, read_only=True) for setting in settings]  # they are those of its start


def _broker_setting(config: BrokerConfig, option: Option) -> Setting:
    held = getattr(config, option.attribute)
    value = text_of(held)
    default = text_of(option.default)
    given = [(option.name, value, STATIC_BROKER_CONFIG)] if value != default or isinstance(held, Secret) else []
    usual = [(option.name, default, DEFAULT_CONFIG)] if option.name not in IN_COARSER_UNITS else []
    return _setting(option, value, [*given, *usual])


def _setting(option: Option, value: str | None, synonyms: list[Synonym]) -> Setting:
    source = synonyms[0][2] if synonyms else DEFAULT_CONFIG
    return Setting(option.name, value, source, type_of(option), option.told(), tuple(synonyms))


def cluster_settings(stopped: Iterable[int]) -> list[Setting]:
    """Return what holds for all brokers and can be changed while they run."""
    value = ",".join(map(str, stopped))
    doc = "Ids of the nodes that are stopped: append one to stop a node, subtract it to start it."
    return [Setting(STOPPED_NODES, value, DYNAMIC_DEFAULT_BROKER_CONFIG, 7, doc, ())]


def topic_settings(broker: BrokerConfig, config: TopicConfig, overrides: Mapping[str, str | None]) -> list[Setting]:
    """Return every option of a topic, with the broker's option that each falls back to."""
    theirs = {option.attribute: option for option in options_of(BrokerConfig)}
    settings = []
    for option in options_of(TopicConfig):
        synonyms: list[Synonym] = []
        if option.falls_back_to is not None:
            synonyms += _broker_setting(broker, theirs[option.falls_back_to]).synonyms
        value = text_of(getattr(config, option.attribute))
        if overrides.get(option.name) is not None:
            synonyms.insert(0, (option.name, value, TOPIC_CONFIG))
        settings.append(_setting(option, value, synonyms))
    return settings


def group_settings(broker: BrokerConfig, own: GroupOptions) -> list[Setting]:
    """Return every option of a group: what was set on it, else what the broker has, which counts as the default."""
    settings = []
    for option in options_of(GroupConfig):
        synonyms: list[Synonym] = [(option.name, str(of_broker(broker, option.name)), DEFAULT_CONFIG)]
        if option.name in own:
            synonyms.insert(0, (option.name, str(own[option.name]), GROUP_CONFIG))
        settings.append(_setting(option, synonyms[0][1], synonyms))
    return settings


def subscription_settings(own: Mapping[str, str]) -> list[Setting]:
    """Return every option of a subscription to metrics of clients; Kafka tells no synonyms of their defaults."""
    config = parse_subscription(own)
    settings = []
    for option in SUBSCRIPTION_OPTIONS.values():
        value = text_of(getattr(config, option.attribute))
        synonyms: list[Synonym] = [(option.name, value, CLIENT_METRICS_CONFIG)] if option.name in own else []
        settings.append(_setting(option, value, synonyms))
    return settings


def dynamic_settings(given_while_running: Mapping[str, Mapping[str, str]], name: str) -> list[Setting]:
    """Return what was set while it runs of the broker ``name``, or of all of them under ``""``."""
    settings = []
    for option in options_of(DynamicBrokerConfig):
        synonyms: list[Synonym] = [
            (option.name, given[option.name], source)
            for given, source in (
                (given_while_running.get(name, {}) if name else {}, DYNAMIC_BROKER_CONFIG),
                (given_while_running.get("", {}), DYNAMIC_DEFAULT_BROKER_CONFIG),
            )
            if option.name in given
        ]
        if synonyms:
            settings.append(_setting(option, synonyms[0][1], synonyms))
    return settings
