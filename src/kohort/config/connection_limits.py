"""``max.connections.per.ip.overrides``: other limits for some addresses."""

from __future__ import annotations

from ipaddress import ip_address

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
