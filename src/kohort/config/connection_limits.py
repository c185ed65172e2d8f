"""How many connections are taken from some addresses (``max.connections.per.ip.overrides``) and by some listeners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any

from kohort.config.broker import BrokerConfig
from kohort.config.listener_overrides import LIMITS, PREFIX, option_of
from kohort.config.options import INT_MAX
from kohort.errors import ConfigError

OPTION = "max.connections.per.ip.overrides"


def parse_overrides(given: list[str]) -> dict[str, int]:
    """``ADDRESS:COUNT`` as address and count. Raises ConfigError for anything else; names are not looked up."""
    overrides = {}
    for text in given:
        address, _, count = text.rpartition(":")
        try:
            most = int(count)
            host = str(ip_address(address.removeprefix("[").removesuffix("]")))
        except ValueError:
            raise ConfigError(f"{OPTION}={text!r}: expected ADDRESS:COUNT, such as 10.0.0.7:100") from None
        if most < 0:
            raise ConfigError(f"{OPTION}={text!r}: expected ADDRESS:COUNT, with a count of at least 0")
        overrides[host] = most
    return overrides


def check_limits(name: str, value: Any) -> None:
    """Raise ConfigError for ``max.connections.per.ip.overrides`` that are malformed; other options pass."""
    if name == OPTION:
        parse_overrides(value)


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """How many connections a listener takes, and how many per second."""

    most: int = INT_MAX
    rate: int = INT_MAX


def limits_of_listeners(config: BrokerConfig) -> dict[str, ListenerLimits]:
    """Return what is said of listeners by ``listener.name.<name>.max.connections`` and
    ``.max.connection.creation.rate``, by their names in small letters. Raises ConfigError."""
    return {
        listener: ListenerLimits(*(_limit(listener, name, said) for name in LIMITS))
        for listener, said in config.listener_overrides.items()
        if any(name in said for name in LIMITS)
    }


def _limit(listener: str, name: str, said: Mapping[str, Any]) -> int:
    declared = option_of(name)
    if name not in said or declared is None:
        return INT_MAX
    value: int = replace(declared, name=f"{PREFIX}{listener}.{name}").parse(said[name])
    return value
