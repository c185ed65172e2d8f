"""The options of a topic or of the broker as the protocol tells them: value, type, origin and meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kohort.config.broker import BrokerConfig
from kohort.config.options import Option, options_of
from kohort.config.topic import BROKER_SYNONYMS, TopicConfig

TOPIC_CONFIG: Final = 1
DYNAMIC_DEFAULT_BROKER_CONFIG: Final = 3
STATIC_BROKER_CONFIG: Final = 4
DEFAULT_CONFIG: Final = 5

STOPPED_NODES: Final = "kohort.stopped.nodes"
"""The one option of all brokers that changes while they run."""
INT_MAX: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Setting:
    """One option as DescribeConfigs answers it; ``synonyms`` are (name, value, source), the one in force first."""

    name: str
    value: str | None
    source: int
    type: int
    doc: str
    synonyms: tuple[tuple[str, str | None, int], ...]


def text_of(value: Any) -> str | None:
    """A value as Kafka writes it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)


def type_of(option: Option) -> int:
    """Kafka's number for the type: BOOLEAN 1, STRING 2, INT 3, LONG 5, DOUBLE 6, LIST 7."""
    if option.type is int:
        wide = option.default is not None and option.default > INT_MAX
        return 5 if wide or option.name.endswith(("ms", "retention.bytes", "messages")) else 3
    return {bool: 1, float: 6, list: 7}.get(option.type, 2)


def broker_settings(config: BrokerConfig) -> list[Setting]:
    """Every option of the broker."""
    return [_broker_setting(config, option) for option in options_of(BrokerConfig)]


def _broker_setting(config: BrokerConfig, option: Option) -> Setting:
    value = text_of(getattr(config, option.attribute))
    default = text_of(option.default)
    synonyms: list[tuple[str, str | None, int]] = [(option.name, default, DEFAULT_CONFIG)]
    if value != default:
        synonyms.insert(0, (option.name, value, STATIC_BROKER_CONFIG))
    return Setting(option.name, value, synonyms[0][2], type_of(option), option.doc, tuple(synonyms))


def cluster_settings(stopped: Iterable[int]) -> list[Setting]:
    """What holds for all brokers and can be changed while they run."""
    value = ",".join(map(str, stopped))
    doc = "Ids of the nodes that are stopped: append one to stop a node, subtract it to start it."
    return [Setting(STOPPED_NODES, value, DYNAMIC_DEFAULT_BROKER_CONFIG, 7, doc, ())]


def topic_settings(broker: BrokerConfig, config: TopicConfig, overrides: Mapping[str, str | None]) -> list[Setting]:
    """Every option of a topic, with the broker's option that each falls back to."""
    theirs = {option.attribute: option for option in options_of(BrokerConfig)}
    settings = []
    for option in options_of(TopicConfig):
        fallback = BROKER_SYNONYMS.get(option.attribute)
        if fallback is None:
            synonyms: list[tuple[str, str | None, int]] = [(option.name, text_of(option.default), DEFAULT_CONFIG)]
        else:
            synonyms = list(_broker_setting(broker, theirs[fallback]).synonyms)
        value = text_of(getattr(config, option.attribute))
        if overrides.get(option.name) is not None:
            synonyms.insert(0, (option.name, value, TOPIC_CONFIG))
        settings.append(Setting(option.name, value, synonyms[0][2], type_of(option), option.doc, tuple(synonyms)))
    return settings
