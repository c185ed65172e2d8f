"""OpenTelemetry's semantic conventions for messaging (1.44): attributes of spans and metrics.

``OTEL_SEMCONV_STABILITY_OPT_IN=messaging/dup`` adds the attributes of 1.24, which dashboards of other Kafka
instrumentations for Python use. Otherwise, also with ``messaging``, only the new ones are set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kohort.errors import ApiError

Attributes = dict[str, Any]
SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
OFFSET: Final = "messaging.kafka.offset"
KEY: Final = "messaging.kafka.message.key"
TOMBSTONE: Final = "messaging.kafka.message.tombstone"
GROUP: Final = "messaging.consumer.group.name"
CLIENT: Final = "messaging.client.id"
COUNT: Final = "messaging.batch.message_count"
ADDRESS: Final = "server.address"
PORT: Final = "server.port"
ERROR: Final = "error.type"

SENT: Final = "messaging.client.sent.messages"
CONSUMED: Final = "messaging.client.consumed.messages"
OPERATION_DURATION: Final = "messaging.client.operation.duration"
PROCESS_DURATION: Final = "messaging.process.duration"
BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
BOTH: Final = "messaging/dup"
OF_METRICS: Final = frozenset({SYSTEM, OPERATION, OPERATION_TYPE, DESTINATION, PARTITION, GROUP, ADDRESS, PORT, ERROR})
"""Attributes of metrics: those with few values."""
_OLD: Final = {
    PARTITION: "messaging.kafka.destination.partition",
    OFFSET: "messaging.kafka.message.offset",
    GROUP: "messaging.kafka.consumer.group",
    CLIENT: "messaging.client_id",
}
_OLD_OPERATIONS: Final = {"send": "publish", "receive": "receive", "process": "process"}


def requests_old_names(environment: Mapping[str, str]) -> bool:
    """Return True if the environment requests the old attributes too."""
    return BOTH in {word.strip() for word in environment.get(OPT_IN, "").split(",")}


def with_old_names(attributes: Attributes) -> Attributes:
    found = dict(attributes)
    for new, old in _OLD.items():
        if new in attributes:
            found[old] = int(attributes[new]) if new == PARTITION else attributes[new]
    found["messaging.operation"] = _OLD_OPERATIONS[attributes[OPERATION_TYPE]]
    return found


def of_metrics(attributes: Attributes) -> Attributes:
    return {name: value for name, value in attributes.items() if name in OF_METRICS}


def error_type(error: BaseException) -> str:
    return error.code.name if isinstance(error, ApiError) else type(error).__qualname__


def common_value(values: Sequence[Any]) -> Any:
    return values[0] if values and all(value == values[0] for value in values) else None
