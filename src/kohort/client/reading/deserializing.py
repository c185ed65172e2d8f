"""Apply ``key_deserializer`` and ``value_deserializer`` to records, and ``on_decode_error`` to bad values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from kohort.config.client import ConsumerConfig
from kohort.errors import KohortError, UndecodableValue, UsageError
from kohort.model import Record
from kohort.schemas.by_name import named_deserializer
from kohort.schemas.serde import (
    KEY,
    VALUE,
    AnySchemaRegistry,
    Deserializer,
    SchemaNeeded,
    SerializationContext,
    Undecodable,
)

NOT_FOR_ARROW: Final = (
    "key_deserializer and value_deserializer do not apply to Arrow: read JSON with json=, or use another consumer"
)
Decode = Callable[[Any, Record], Any]
"""Function of the bytes (None: a null) and their record."""


class Deserialized(NamedTuple):
    """Deserialized records, the number of records that were read, and the error of the next record."""

    records: list[Record]
    read: int
    error: KohortError | SchemaNeeded | None = None


class Deserializers:
    """Deserializers of keys and values.

    ``blocks``: True to wait for a schema registry in the caller's thread. Otherwise SchemaNeeded is the error of a
    record, and the caller awaits the schema.
    """

    def __init__(
        self, key: Decode | None, value: Decode | None, *, on_error: str = "raise", blocks: bool = True
    ) -> None:
        self._key = key
        self._value = value
        self._on_error = on_error
        self._blocks = blocks

    @classmethod
    def of(
        cls, config: ConsumerConfig, registry: Callable[[], AnySchemaRegistry], *, blocks: bool = True
    ) -> Deserializers | None:
        """Return the deserializers of a consumer; None without any. ``registry`` makes the one of its options."""
        if config.key_deserializer is None and config.value_deserializer is None:
            return None
        key, value = (_decode(given, field, registry) for given, field in (
            (config.key_deserializer, KEY), (config.value_deserializer, VALUE)
        ))  # fmt: skip
        return cls(key, value, on_error=config.on_decode_error, blocks=blocks)

    def apply(self, record: Record) -> Record | None:
        """Return the record with deserialized key and value; None for a record to skip.

        Raises UndecodableValue with the record's place, and SchemaNeeded.
        """
        try:
            key = record.key if self._key is None else self._key(record.key, record)
        except Exception as cause:  # noqa: BLE001  # any error of a user's function
            key = self._rejected("key_deserializer", cause, record.key, record)
            if key is None:
                return None
        try:
            value = record.value if self._value is None else self._value(record.value, record)
        except Exception as cause:  # noqa: BLE001
            value = self._rejected("value_deserializer", cause, record.value, record)
            if value is None:
                return None
        return _copy(record, key, value)

    def _rejected(self, field: str, cause: Exception, data: bytes | None, record: Record) -> Undecodable | None:
        """Return the Undecodable for a rejected key or value, or None for a record to skip. Raises as ``apply``."""
        if isinstance(cause, SchemaNeeded):
            raise cause
        if self._on_error == "skip":
            return None
        error = _undecodable(field, cause, record)
        error.__cause__ = cause
        if self._on_error == "raise":
            raise error
        return Undecodable(data, error)

    def until_error(self, records: Iterable[Record]) -> Deserialized:
        """Return the deserialized records before the first error, and that error."""
        found: list[Record] = []
        read = 0
        try:
            for record in records:
                done = self._applied(record)
                read += 1
                if done is not None:
                    found.append(done)
        except (KohortError, SchemaNeeded) as error:
            return Deserialized(found, read, error)
        return Deserialized(found, read)

    def _applied(self, record: Record) -> Record | None:
        while True:
            try:
                return self.apply(record)
            except SchemaNeeded as needed:
                if not self._blocks:
                    raise
                needed.fetch()


def _decode(given: Any, field: str, registry: Callable[[], AnySchemaRegistry]) -> Decode | None:
    if given is None:
        return None
    if isinstance(given, str):
        given = named_deserializer(given, registry)
    if isinstance(given, Deserializer):
        deserialize = given.deserialize
        return lambda data, record: (
            None if data is None else deserialize(data, SerializationContext(record.topic, field, record.headers))
        )
    function = given
    return lambda data, _record: function(data)


def _copy(record: Record, key: Any, value: Any) -> Record:
    return Record(
        record.topic, record.partition, record.offset, record.timestamp_ms, key, value,
        record.headers, record.timestamp_type, record.leader_epoch,
    )  # fmt: skip


def _undecodable(field: str, cause: Exception, record: Record) -> UndecodableValue:
    problem = cause.problem if isinstance(cause, UndecodableValue) else f"{type(cause).__name__}: {cause}"
    return UndecodableValue(
        f"the {field} failed: {problem}", topic=record.topic, partition=record.partition, offset=record.offset
    )


def refuse_arrow(deserializers: Deserializers | None) -> None:
    """Raise UsageError if a consumer reads Arrow batches but has deserializers."""
    if deserializers is not None:
        raise UsageError(NOT_FOR_ARROW)
