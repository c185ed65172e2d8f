"""Options of Kafka's clients as Spark hands them over: text, names in small letters, ``kafka.`` taken off.

They are taken by any name that a client knows, and handed on by our own. A secret is hidden from the moment it is read;
what Spark itself shows of options is in docs/guides/connecting.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kohort.config.client import AdminConfig, ConsumerConfig, ProducerConfig, client_config
from kohort.config.client_files import read_profile
from kohort.config.options import options_of, unknown_option
from kohort.config.properties import escaped, fill_in
from kohort.config.security_names import is_hidden, translated
from kohort.errors import ConfigError
from kohort.secret import Secret

PREFIX: Final = "kafka."
SERVERS: Final = "bootstrap.servers"
TOKENS: Final = "sasl.oauth.token.provider"


def client_options(config: type[Any], given: Mapping[str, Any], profile: str = "") -> dict[str, Any]:
    """Return the options of a client by our own names, from a profile and from what is said beside it.

    Places such as ``${KAFKA_PASSWORD}`` are filled in, here on the driver. Raises ConfigError, naming the option with
    its prefix, for one that the client does not have, or a value that is not allowed.
    """
    said: dict[str, Any] = {}
    for name, value in given.items():
        try:
            filled = fill_in(value, os.environ) if isinstance(value, str) else value
        except ConfigError as error:
            raise ConfigError(f"{PREFIX}{name}: {error}") from None
        said[name] = Secret(filled) if is_hidden(name) and isinstance(filled, str) else filled
    by_profile = _meant_for(config, read_profile(profile, os.environ).options) if profile else {}
    ours = _by_our_names(by_profile) | _by_our_names(said)
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


def _meant_for(config: type[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    others = {o.name for cls in (ConsumerConfig, ProducerConfig) for o in options_of(cls)}
    others -= {o.name for o in options_of(config)}
    return {name: value for name, value in options.items() if name not in others}


def connecting(client: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options that are about the way to the brokers, which clients of every kind have."""
    known = {o.name for o in options_of(AdminConfig)} - {"client.id"}
    return {name: value for name, value in client.items() if name in known}


def as_spark_options(options: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return options as Spark takes them: text, in which nothing is filled in again."""
    return {f"{PREFIX}{name}": escaped(_text(value)) for name, value in options}


def _text(value: Any) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    return ",".join(value) if isinstance(value, list) else str(value)
