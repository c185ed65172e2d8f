"""Client options from files: a ``client.properties`` of Kafka's tools, and named clusters in TOML.

A profile is a table of ``clusters.toml`` with client options by any of their names::

    [prod]
    bootstrap.servers = "kafka-1:9093,kafka-2:9093"
    security.protocol = "SASL_SSL"
    sasl.mechanism = "SCRAM-SHA-512"
    sasl.username = "reports"
    sasl.password = "${KAFKA_PASSWORD}"
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kohort.config.client import ConsumerConfig, ProducerConfig
from kohort.config.options import options_of
from kohort.config.properties import fill_in_value, parse_properties
from kohort.config.security_names import is_hidden
from kohort.errors import ConfigError
from kohort.nearest import did_you_mean
from kohort.secret import Secret

_READABLE: Final = stat.S_IRGRP | stat.S_IROTH
"""Mode bits of a file that other users can read, on POSIX systems."""
OF_PROGRAMS: Final = frozenset({"key.deserializer", "value.deserializer", "key.serializer", "value.serializer"})
"""Options with functions. In files they name Java's classes, and are ignored."""
_NEVER_PASSED_OVER: Final = ("ssl.", "sasl.", "security.", "bootstrap.")
"""Prefixes of options that are never ignored: without them a connection might be less secure."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Client options of a file; ``where`` names the file in errors."""

    where: str
    options: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


def read_client_file(path: Path, environ: Mapping[str, str]) -> ClientSettings:
    """Parse a ``client.properties``. Raises ConfigError with the file and the problem."""
    try:
        pairs = parse_properties(_text_of(path))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from None
    return _settings(path, str(path), pairs, environ)


def profiles_file(environ: Mapping[str, str]) -> Path:
    """Return the profiles file: ``KOHORT_PROFILES``, or ``kohort/clusters.toml`` in the user's settings."""
    if named := environ.get("KOHORT_PROFILES"):
        return Path(named)
    return Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "kohort" / "clusters.toml"


def read_profile(name: str, environ: Mapping[str, str]) -> ClientSettings:
    """Return the options of a profile. Raises ConfigError, with the nearest name, if it is missing."""
    path = profiles_file(environ)
    if not path.exists():
        raise ConfigError(f"profile {name!r}: {path} does not exist (KOHORT_PROFILES names another file)")
    found = _profiles(path)
    if name not in found:
        raise ConfigError(f"profile {name!r}: {path} has {', '.join(found) or 'none'}{did_you_mean(name, found)}")
    return _settings(path, f"{path}, profile {name}", dict(_flat(found[name])), environ)


def options_for(config: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the options of other kinds of clients: one file may serve consumers, producers and admin clients."""
    others = {o.name for cls in (ConsumerConfig, ProducerConfig) for o in options_of(cls)}
    others -= {o.name for o in options_of(config)}
    return {name: value for name, value in given.items() if name not in others}


def profile_names(environ: Mapping[str, str]) -> list[str]:
    path = profiles_file(environ)
    return list(_profiles(path)) if path.exists() else []


def _profiles(path: Path) -> dict[str, dict[str, Any]]:
    try:
        found = tomllib.loads(_text_of(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    for name, table in found.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {name} is outside of a profile: add a line [NAME] before it")
    return found


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: cannot be read: not UTF-8") from None


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names: TOML reads ``security.protocol`` without quotes as nested tables."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _settings(path: Path, where: str, given: Mapping[str, Any], environ: Mapping[str, str]) -> ClientSettings:
    known = {o.name for cls in (ConsumerConfig, ProducerConfig) for o in options_of(cls)}
    options: dict[str, Any] = {}
    unknown, plain = [], []
    for spelling, value in given.items():
        name = spelling.replace("_", ".")
        if (name not in known or name in OF_PROGRAMS) and not name.startswith(_NEVER_PASSED_OVER):
            unknown.append(spelling)
            continue
        try:
            filled = fill_in_value(value, environ)
        except ConfigError as error:
            raise ConfigError(f"{where}: {spelling}: {error}") from None
        if is_hidden(name) and isinstance(filled, str):
            if filled == value:
                plain.append(spelling)
            filled = Secret(filled)
        options[name] = filled
    warnings = []
    if unknown:
        warnings.append(f"{where}: ignored unknown options: {', '.join(unknown)}")
    if plain and os.name == "posix" and path.stat().st_mode & _READABLE:
        warnings.append(f"{path}: other users can read its {', '.join(plain)}: chmod 600 {path}")
    return ClientSettings(where, options, tuple(warnings))
