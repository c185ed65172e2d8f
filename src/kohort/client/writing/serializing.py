"""Apply ``key_serializer`` and ``value_serializer`` to records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kohort.config.client import ProducerConfig
from kohort.errors import KohortError, UsageError
from kohort.schemas.by_name import named_serializer
from kohort.schemas.serde import KEY, VALUE, AnySchemaRegistry, SchemaNeeded, SerializationContext, Serializer

NOT_FOR_ARROW: Final = "key_serializer and value_serializer do not apply to send_arrow: use another producer"
Encode = Callable[[str, Any, Any], tuple[Any, Any]]
"""Function of topic, value and headers that returns the encoded value and the headers."""


class Serializers:
    """Serializers of keys and values. Functions get None for a null, as in kafka-python and aiokafka."""

    def __init__(self, key: Encode | None, value: Encode | None) -> None:
        self._key = key
        self._value = value

    @classmethod
    def of(cls, config: ProducerConfig, registry: Callable[[], AnySchemaRegistry]) -> Serializers | None:
        """Return the serializers of a producer; None without any. ``registry`` makes the one of its options."""
        if config.key_serializer is None and config.value_serializer is None:
            return None
        return cls(_encode(config.key_serializer, KEY, registry), _encode(config.value_serializer, VALUE, registry))

    def record(self, topic: str, key: Any, value: Any, headers: Any) -> tuple[Any, Any, Any]:
        """Return serialized key and value, and the headers. Raises UsageError for an error, and SchemaNeeded."""
        if self._key is not None:
            key, headers = self._key(topic, key, headers)
        if self._value is not None:
            value, headers = self._value(topic, value, headers)
        return key, value, headers

    def in_batch(self, topic: str, record: Any) -> Any:
        """Return a record of ``send_batch`` with serialized key and value. Raises as ``record``."""
        if not isinstance(record, tuple) or len(record) < 2:
            value, headers = (record, ()) if self._value is None else self._value(topic, record, ())
            return (None, value, headers) if headers else value
        key, value, headers = self.record(topic, record[0], record[1], record[2] if len(record) > 2 else ())
        return (key, value, headers, *record[3:]) if headers or len(record) > 2 else (key, value)


def _encode(given: Any, field: str, registry: Callable[[], AnySchemaRegistry]) -> Encode | None:
    if given is None:
        return None
    if isinstance(given, str):
        given = named_serializer(given, registry)
    name = f"{field}_serializer"
    if isinstance(given, Serializer):
        serialize = given.serialize

        def encode(topic: str, value: Any, headers: Any) -> tuple[Any, Any]:
            if value is None:
                return None, headers
            ctx = SerializationContext(topic, field, headers)
            try:
                return serialize(value, ctx), ctx.headers
            except (KohortError, SchemaNeeded):
                raise
            except Exception as error:
                raise _failed(name, topic, error) from error

        return encode
    function = given

    def call(topic: str, value: Any, headers: Any) -> tuple[Any, Any]:
        try:
            return function(value), headers
        except Exception as error:
            raise _failed(name, topic, error) from error

    return call


def _failed(name: str, topic: str, error: Exception) -> UsageError:
    return UsageError(f"the {name} failed for a record of {topic!r}: {type(error).__name__}: {error}")
