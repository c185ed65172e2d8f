"""Apply the user's ``key_deserializer`` and ``value_deserializer`` to records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from kohort.config.client import ConsumerConfig
from kohort.errors import UndecodableValue, UsageError
from kohort.model import Record

NOT_FOR_ARROW: Final = (
    "key_deserializer and value_deserializer do not apply to Arrow: read JSON with json=, or use another consumer"
)


@dataclass(frozen=True, slots=True)
class Deserializers:
    """The user's deserializers. They are also called for null keys and values, as in kafka-python and aiokafka."""

    key: Callable[[Any], Any] | None
    value: Callable[[Any], Any] | None

    @classmethod
    def of(cls, config: ConsumerConfig) -> Deserializers | None:
        if config.key_deserializer is None and config.value_deserializer is None:
            return None
        return cls(config.key_deserializer, config.value_deserializer)

    def apply(self, record: Record) -> Record:
        """Return the record with deserialized key and value. Raises UndecodableValue with the record's place."""
        if self.key is not None:
            record = replace(record, key=_called("key_deserializer", self.key, record, record.key))
        if self.value is not None:
            record = replace(record, value=_called("value_deserializer", self.value, record, record.value))
        return record

    def until_error(self, records: Iterable[Record]) -> tuple[list[Record], UndecodableValue | None]:
        """Return the deserialized records before the first error, and that error."""
        found: list[Record] = []
        try:
            found.extend(map(self.apply, records))
        except UndecodableValue as error:
            return found, error
        return found, None


def _called(name: str, function: Callable[[Any], Any], record: Record, given: bytes | None) -> Any:
    try:
        return function(given)
    except Exception as error:
        problem = f"the {name} failed: {type(error).__name__}: {error}"
        raise UndecodableValue(problem, topic=record.topic, partition=record.partition, offset=record.offset) from error


def refuse_arrow(deserializers: Deserializers | None) -> None:
    """Raise UsageError if a consumer reads Arrow batches but has deserializers."""
    if deserializers is not None:
        raise UsageError(NOT_FOR_ARROW)
