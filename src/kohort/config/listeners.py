"""Addresses as Kafka and people write them: ``PLAINTEXT://host:port``, ``host:port``, ``[::1]:port``, ``:port``."""

from __future__ import annotations

from kohort.errors import ConfigError


def parse_listener(text: str, option: str) -> tuple[str, int]:
    """Host and port of one listener. Raises ConfigError, naming ``option``, for anything else than plaintext."""
    scheme, separator, rest = text.strip().rpartition("://")
    if separator and scheme.upper() != "PLAINTEXT":
        raise ConfigError(f"{option}={text!r}: only PLAINTEXT:// is served")
    host, colon, port = rest.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{option}={text!r}: expected HOST:PORT, with a port from 0 to 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)
