"""Listeners of a broker, and addresses: ``PLAINTEXT://host:port``, ``host:port``, ``[::1]:port``, ``:port``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from kohort.config.broker import BrokerConfig
from kohort.config.listener_overrides import LIMITS, PREFIX, option_of, overlaid
from kohort.config.listener_security import SIGNED_TOKENS, ListenerConfig, SecurityProtocol
from kohort.config.options import INT_MAX
from kohort.errors import ConfigError

DEFAULT_LISTENER: Final = "PLAINTEXT"
OAUTHBEARER: Final = "OAUTHBEARER"
EVERY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})
"""Hosts that mean every address of a computer."""


class Listener(NamedTuple):
    """Address of a broker, with its name in capitals and its protocol."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int

    def at(self, host: str, port: int) -> Listener:
        return Listener(self.name, self.protocol, host, port)

    def __str__(self) -> str:
        return f"{self.name}://{address_text(self.host, self.port)}"


def address_text(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_listener(text: str, option: str) -> tuple[str, int]:
    """Return host and port of one plaintext address. Raises ConfigError with ``option``."""
    name, host, port = parse_endpoint(text, option)
    if name not in {"", DEFAULT_LISTENER}:
        raise ConfigError(f"{option}={text!r}: expected HOST:PORT, or PLAINTEXT://HOST:PORT")
    return host, port


def parse_endpoint(text: str, option: str) -> tuple[str, str, int]:
    """Return name in capitals (or empty), host and port of ``NAME://HOST:PORT``. Raises ConfigError."""
    name, _, rest = text.strip().rpartition("://")
    host, colon, port = rest.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise ConfigError(f"{option}={text!r}: expected HOST:PORT, with a port from 0 to 65535")
    return name.upper(), host.removeprefix("[").removesuffix("]"), int(port)


def listeners_of(config: BrokerConfig) -> list[Listener]:
    """Return the broker's listeners. Raises ConfigError for two with one name or port, and for a missing protocol."""
    protocols = protocols_of(config)
    if not config.listeners:
        return [_listener(f"listeners={DEFAULT_LISTENER!r}", protocols, config.listen_host, config.listen_port)]
    found: list[Listener] = []
    for text in config.listeners:
        name, host, port = parse_endpoint(text, "listeners")
        made = _listener(f"listeners={text!r}", protocols, host, port, name or DEFAULT_LISTENER)
        for other in found:
            if other.name == made.name:
                raise ConfigError(f"listeners: {made.name} occurs twice; each listener needs a unique name")
            if other.port == made.port != 0 and _families(other.host, made.host) != {4, 6}:
                raise ConfigError(f"listeners: {other} and {made} have the same port; each listener needs its own")
        found.append(made)
    return found


def advertised_of(config: BrokerConfig) -> list[Listener]:
    """Return the advertised listeners, in listener order. Raises ConfigError for an invalid address.

    A listener missing from ``advertised.listeners`` is not advertised.
    """
    listening = listeners_of(config)
    if not config.advertised_listeners:
        return listening
    option, usual = "advertised.listeners", listening[0].name if len(listening) == 1 else DEFAULT_LISTENER
    found: dict[str, tuple[str, int]] = {}
    for text in config.advertised_listeners:
        name, host, port = parse_endpoint(text, option)
        name = name or usual
        if name in found:
            raise ConfigError(f"{option}: {name} occurs twice")
        if host in EVERY_ADDRESS:
            raise ConfigError(f"{option}={text!r}: clients cannot connect to a wildcard address: give one host")
        found[name] = host, port
    if unknown := found.keys() - {listener.name for listener in listening}:
        known = ", ".join(listener.name for listener in listening)
        raise ConfigError(f"{option}: unknown listener {min(unknown)}; the listeners are {known}")
    return [listener.at(*found[listener.name]) for listener in listening if listener.name in found]


def inter_broker_listener(config: BrokerConfig) -> str | None:
    """Return the name of the inter-broker listener, exempt from ``max.connections``; None without other listeners."""
    name = config.inter_broker_listener_name
    return name.upper() if name and len(listeners_of(config)) > 1 else None


def check_listeners(config: BrokerConfig) -> None:
    """Raise ConfigError for options of an unknown listener, and for an unadvertised inter-broker listener."""
    names = {listener.name for listener in listeners_of(config)}
    advertised = {listener.name for listener in advertised_of(config)}
    if unknown := config.listener_overrides.keys() - {name.lower() for name in names}:
        option = f"{PREFIX}{min(unknown)}.{min(config.listener_overrides[min(unknown)])}"
        known = ", ".join(sorted(names))
        raise ConfigError(f"{option}: unknown listener {min(unknown).upper()}; the listeners are {known}")
    own = config.inter_broker_listener_name
    if own and own.upper() not in advertised:
        raise ConfigError(f"inter.broker.listener.name={own!r}: expected one of {', '.join(sorted(advertised))}")


def listener_config(config: BrokerConfig, name: str, mechanism: str = "") -> ListenerConfig:
    """Return the options of one listener, and of ``mechanism`` there if given.

    ``listener.name.<name>.`` options override the common ones. A common ``ssl.client.auth`` does not apply to listeners
    with SASL (KIP-684).
    """
    base: ListenerConfig = config
    if protocols_of(config).get(name.upper()) is SecurityProtocol.SASL_SSL:
        base = replace(config, ssl_client_auth=ListenerConfig().ssl_client_auth)
    return overlaid(base, config.listener_overrides.get(name.lower(), {}), name, mechanism)


def believes_every_token(config: BrokerConfig, name: str) -> bool:
    """True if clients of a listener can choose their user name, by unsigned OAUTHBEARER tokens."""
    if OAUTHBEARER not in listener_config(config, name).sasl_enabled_mechanisms:
        return False
    return not demands_signed_tokens(listener_config(config, name, OAUTHBEARER))


def demands_signed_tokens(said: ListenerConfig) -> bool:
    """True if tokens must be signed: by the handler's class, else if keys are configured."""
    handler = (said.sasl_server_callback_handler_class or "").rpartition(".")[2]
    return handler == SIGNED_TOKENS or (not handler and bool(said.sasl_oauthbearer_jwks_endpoint_url))


def with_ports(config: BrokerConfig, ports: Sequence[int]) -> BrokerConfig:
    """Return ``config`` with ``ports`` for its listeners, in their order."""
    if not config.listeners:
        return replace(config, listen_port=ports[0])
    found = [listener.at(listener.host, port) for listener, port in zip(listeners_of(config), ports, strict=True)]
    return replace(config, listeners=[str(listener) for listener in found])


def _listener(
    text: str, protocols: Mapping[str, SecurityProtocol], host: str, port: int, name: str = DEFAULT_LISTENER
) -> Listener:
    if name not in protocols:
        raise ConfigError(f"{text}: listener.security.protocol.map has no protocol for {name}")
    return Listener(name, protocols[name], host, port)


def _families(*hosts: str) -> set[int]:
    found: set[int] = set()
    for host in hosts:
        try:
            found.add(ip_address(host).version)
        except ValueError:
            found.add(0)
    return found


def protocols_of(config: BrokerConfig) -> dict[str, SecurityProtocol]:
    """Return the security protocol of each listener. Raises ConfigError."""
    option, found = "listener.security.protocol.map", {}
    for text in config.listener_security_protocol_map:
        name, colon, protocol = text.partition(":")
        try:
            found[name.strip().upper()] = SecurityProtocol(protocol.strip().upper() if colon else "")
        except ValueError:
            expected = ", ".join(p.value for p in SecurityProtocol)
            raise ConfigError(f"{option}: {text!r}: expected NAME:PROTOCOL, one of {expected}") from None
    return found


OPTION = "max.connections.per.ip.overrides"


def parse_overrides(given: list[str]) -> dict[str, int]:
    """Parse ``max.connections.per.ip.overrides``: ADDRESS:COUNT. Raises ConfigError, also for a host name."""
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
    """Raise ConfigError for malformed ``max.connections.per.ip.overrides``; ignore other options."""
    if name == OPTION:
        parse_overrides(value)


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    most: int = INT_MAX
    rate: int = INT_MAX


def limits_of_listeners(config: BrokerConfig) -> dict[str, ListenerLimits]:
    """Return the connection limits of single listeners, by their names in lower case. Raises ConfigError."""
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
