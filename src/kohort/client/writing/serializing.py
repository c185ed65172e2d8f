"""Apply the user's ``key_serializer`` and ``value_serializer`` to records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kohort.config.client import ProducerConfig
from kohort.errors import UsageError

NOT_FOR_ARROW: Final = "key_serializer and value_serializer do not apply to send_arrow: use another producer"


@dataclass(frozen=True, slots=True)
class Serializers:
    """The user's serializers. They are also called for null keys and values, as in kafka-python and aiokafka."""

    key_function: Callable[[Any], Any] | None
    value_function: Callable[[Any], Any] | None

    @classmethod
    def of(cls, config: ProducerConfig) -> Serializers | None:
        if config.key_serializer is None and config.value_serializer is None:
            return None
        return cls(config.key_serializer, config.value_serializer)

    def key(self, topic: str, given: Any) -> Any:
        return _called("key_serializer", self.key_function, topic, given)

    def value(self, topic: str, given: Any) -> Any:
        return _called("value_serializer", self.value_function, topic, given)

    def records(self, topic: str, records: Iterable[Any]) -> Iterator[Any]:
        """Yield the records of ``send_batch`` with serialized keys and values."""
        for record in records:
            if isinstance(record, tuple) and len(record) > 1:
                yield self.key(topic, record[0]), self.value(topic, record[1]), *record[2:]
            else:
                yield self.value(topic, record)


def _called(name: str, function: Callable[[Any], Any] | None, topic: str, given: Any) -> Any:
    if function is None:
        return given
    try:
        return function(given)
    except Exception as error:
        raise UsageError(f"the {name} failed for a record of {topic!r}: {type(error).__name__}: {error}") from error
