"""Serializers and deserializers by name: ``value_deserializer="json"``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.errors import ConfigError
from kohort.schemas.avro import AvroDeserializer, AvroSerializer
from kohort.schemas.json_schema import JSONDeserializer, JSONSerializer
from kohort.schemas.plain import NAMES, PLAIN
from kohort.schemas.serde import AnySchemaRegistry, Deserializer, Serializer

Convert = Callable[[Any], Any]


def named_deserializer(name: str, registry: Callable[[], AnySchemaRegistry]) -> Deserializer | Convert:
    """Return a deserializer. ``registry`` makes the registry of ``schema.registry.url``. Raises ConfigError."""
    if name in PLAIN:
        return _unless_null(PLAIN[name][1])
    if name == "avro":
        return AvroDeserializer(registry())
    if name == "json-schema":
        return JSONDeserializer(registry=registry())
    raise _unknown(name)


def named_serializer(name: str, registry: Callable[[], AnySchemaRegistry]) -> Serializer | Convert:
    """Return a serializer; with a registry, one for the latest version of the subject. Raises ConfigError."""
    if name in PLAIN:
        return _unless_null(PLAIN[name][0])
    if name == "avro":
        return AvroSerializer(registry(), use_latest_version=True)
    if name == "json-schema":
        return JSONSerializer(None, registry(), use_latest_version=True)
    raise _unknown(name)


def _unless_null(convert: Convert) -> Convert:
    return lambda given: None if given is None else convert(given)


def _unknown(name: str) -> ConfigError:
    return ConfigError(f"unknown serializer {name!r}: expected one of {', '.join(NAMES)}")
