"""Kafka client options of a Spark query. Their names are in lower case and have the prefix ``kafka.``.

Every option name of Kafka's clients is accepted and translated to kohort's name. Secret values become ``Secret``
objects, which hide the value when printed. See docs/guides/connecting.md for the option values that Spark itself shows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kohort.config.client import AdminConfig
from kohort.config.client_files import options_for, read_profile
from kohort.config.client_options import client_config
from kohort.config.options import options_of, unknown_option
from kohort.config.properties import escaped, fill_in_value
from kohort.config.security_names import is_hidden, translated
from kohort.errors import ConfigError
from kohort.secret import Secret

PREFIX: Final = "kafka."
SERVERS: Final = "bootstrap.servers"
TOKENS: Final = "sasl.oauth.token.provider"


def client_options(config: type[Any], given: Mapping[str, Any], profile: str = "") -> dict[str, Any]:
    """Check Kafka client options and translate their names to kohort's names.

    Options in ``given`` override those of the profile. The driver replaces ``${KAFKA_PASSWORD}`` in an option value by
    the environment variable of this name. Raises ConfigError with the prefixed option name for an unknown option and
    for an invalid value.
    """
    said: dict[str, Any] = {}
    for name, value in given.items():
        try:
            filled = fill_in_value(value, os.environ)
        except ConfigError as error:
            raise ConfigError(f"{PREFIX}{name}: {error}") from None
        said[name] = Secret(filled) if is_hidden(name) and isinstance(filled, str) else filled
    by_profile = read_profile(profile, os.environ).options if profile else {}
    ours = _by_our_names(options_for(config, by_profile)) | _by_our_names(said)
    if not ours.get(SERVERS):
        raise ConfigError("option 'kafka.bootstrap.servers' is missing: give HOST:PORT of a broker")
    known = [o.name for o in options_of(config)]
    for name in ours:
        if name not in known:
            raise unknown_option(f"{PREFIX}{name}", [f"{PREFIX}{each}" for each in known])
    client_config(config, ours, {})
    return ours


def _by_our_names(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: said.get(name, value) if name == TOKENS else value for name, value in translated(said).items()}


def connecting(client: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that producers, consumers and admin clients share, such as brokers and security."""
    known = {o.name for o in options_of(AdminConfig)} - {"client.id"}
    return {name: value for name, value in client.items() if name in known}


def as_spark_options(options: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Convert Kafka client options into Spark options, whose values are strings. Escape ``${...}`` in values."""
    return {f"{PREFIX}{name}": escaped(_text(value)) for name, value in options}


def _text(value: Any) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    return ",".join(value) if isinstance(value, list) else str(value)
