"""Options of brokers that were changed at run time, in ``kohort-broker-options.json``.

Kafka keeps them in its metadata quorum; the format is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from kohort.config.broker import BrokerConfig
from kohort.config.dynamic_broker import DYNAMIC, OF_BROKER
from kohort.config.listeners import check_limits
from kohort.errors import ApiError, ConfigError, ErrorCode, StorageError
from kohort.log.storage import Storage, read_json

BROKER_OPTIONS_FILE: Final = "kohort-broker-options.json"
VERSION: Final = 1
ALL: Final = ""
"""Resource name of the default of all brokers."""
ADVICE: Final = "Mend it, or remove it to begin with the options that the brokers are started with"

OptionTexts = Mapping[str, str]
"""Texts of options, by Kafka's names."""


class KeptBrokerOptions:
    """Options of one broker, by its id as text, and of all brokers, under ``""``."""

    __slots__ = ("_storage", "by_name")

    def __init__(self, storage: Storage) -> None:
        """Read the file. Raises StorageError where it cannot be read."""
        self._storage = storage
        self.by_name: Mapping[str, OptionTexts] = read_json(storage, BROKER_OPTIONS_FILE, _parse, ADVICE) or {}

    def of(self, name: str) -> OptionTexts:
        """Return the options of one broker, or of all brokers under ``""``."""
        return self.by_name.get(name, {})

    def replace(self, name: str, texts: OptionTexts) -> None:
        """Keep exactly these options. Raises ApiError KAFKA_STORAGE_ERROR, and changes nothing, if the disk refuses."""
        others = {held: own for held, own in self.by_name.items() if held != name}
        wanted = {**others, name: dict(texts)} if texts else others
        if wanted == self.by_name:
            return
        data = msgspec.json.encode({"version": VERSION, "options": wanted})
        try:
            self._storage.replace(BROKER_OPTIONS_FILE, data)
        except StorageError as error:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{BROKER_OPTIONS_FILE} cannot be written: {error}"
            ) from error
        self.by_name = wanted

    def in_force(self, started_with: BrokerConfig, name: str) -> BrokerConfig:
        """Return the options of a broker: its own before the default of all, before those of its start."""
        texts = {**self.of(ALL), **self.of(name)}
        values = {OF_BROKER[n].attribute: OF_BROKER[n].parse(text) for n, text in texts.items() if n in OF_BROKER}
        return replace(started_with, **values) if values else started_with


def _parse(content: Any) -> dict[str, OptionTexts]:
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']}; this broker reads {VERSION}")
    options: dict[str, OptionTexts] = content["options"]
    try:
        for texts in options.values():
            for name, text in texts.items():
                check_limits(name, DYNAMIC[name].parse(text))
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return options
