"""Addresses as Kafka and people write them: ``PLAINTEXT://host:port``, ``host:port``, ``[::1]:port``, ``:port``; and
the listeners that a broker's options name."""

from __future__ import annotations

from typing import Final, NamedTuple

from kohort.config.broker import BrokerConfig
from kohort.config.security_protocol import SecurityProtocol
from kohort.errors import ConfigError

DEFAULT_LISTENER: Final = "PLAINTEXT"
"""The name of the listener where none is named."""


class Listener(NamedTuple):
    """One address that a broker listens on, its name in capitals, and what is spoken there."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{address_text(self.host, self.port)}"


def address_text(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an address of IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_listener(text: str, option: str) -> tuple[str, int]:
    """Host and port of one plaintext address. Raises ConfigError, naming ``option``, for anything else."""
    name, host, port = parse_endpoint(text, option)
    if name not in {"", DEFAULT_LISTENER}:
        raise ConfigError(f"{option}={text!r}: expected HOST:PORT, or PLAINTEXT://HOST:PORT")
    return host, port


def parse_endpoint(text: str, option: str) -> tuple[str, str, int]:
    """Name in capitals (empty where there is none), host and port of ``NAME://HOST:PORT``. Raises ConfigError."""
    name, _, rest = text.strip().rpartition("://")
    host, colon, port = rest.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{option}={text!r}: expected HOST:PORT, with a port from 0 to 65535")
    return name.upper(), host.removeprefix("[").removesuffix("]"), int(port)


def listeners_of(config: BrokerConfig) -> list[Listener]:
    """Return what the broker listens on. Raises ConfigError for listeners that cannot be together, or have no
    protocol."""
    if not config.listeners:
        return [Listener(DEFAULT_LISTENER, SecurityProtocol.PLAINTEXT, config.listen_host, config.listen_port)]
    protocols = _protocols(config)
    found: list[Listener] = []
    for text in config.listeners:
        name, host, port = parse_endpoint(text, "listeners")
        name = name or DEFAULT_LISTENER
        if name not in protocols:
            raise ConfigError(f"listeners={text!r}: listener.security.protocol.map says nothing of {name}")
        if any(other.name == name for other in found):
            raise ConfigError(f"listeners: {name} is there twice")
        found.append(Listener(name, protocols[name], host, port))
    return found


def _protocols(config: BrokerConfig) -> dict[str, SecurityProtocol]:
    option, found = "listener.security.protocol.map", {}
    for text in config.listener_security_protocol_map:
        name, colon, protocol = text.partition(":")
        try:
            found[name.strip().upper()] = SecurityProtocol(protocol.strip().upper() if colon else "")
        except ValueError:
            expected = ", ".join(p.value for p in SecurityProtocol)
            raise ConfigError(f"{option}: {text!r}: expected NAME:PROTOCOL, one of {expected}") from None
    return found
