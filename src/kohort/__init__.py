"""kohort: Kafka consumer groups, in Python, whole."""

from __future__ import annotations

import importlib
from typing import Any

from kohort.errors import (
    ApiError,
    ApiTimeout,
    CommitFailed,
    ConfigError,
    ConnectionFailed,
    CorruptRecord,
    ErrorCode,
    HandlerFailed,
    KohortError,
    NoOffsetForPartition,
    ProtocolError,
    StorageError,
    UndecodableValue,
    UsageError,
    Wakeup,
)
from kohort.model import Node, OffsetAndMetadata, Record, TopicPartition
from kohort.version import VERSION

__version__ = VERSION

_LAZY = {
    "Admin": "kohort.aio.admin",
    "AsyncAdmin": "kohort.aio.admin",
    "AsyncConsumer": "kohort.aio.async_consumer",
    "AsyncConsumerGroup": "kohort.aio.async_consumer_group",
    "AsyncGroupHandler": "kohort.aio.group_tasks",
    "AsyncProducer": "kohort.aio.producer",
    "Broker": "kohort.aio.embedded",
    "Consumer": "kohort.aio.consumer",
    "ConsumerGroup": "kohort.aio.consumer_group",
    "GroupHandler": "kohort.aio.group_threads",
    "Producer": "kohort.aio.producer",
    "assignor": "kohort.assignors.custom",
}
"""Public names that bring much with them, sockets and threads above all: imported when first used (PEP 562)."""

__all__ = [
    "Admin",
    "ApiError",
    "ApiTimeout",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncConsumerGroup",
    "AsyncGroupHandler",
    "AsyncProducer",
    "Broker",
    "CommitFailed",
    "ConfigError",
    "ConnectionFailed",
    "Consumer",
    "ConsumerGroup",
    "CorruptRecord",
    "ErrorCode",
    "GroupHandler",
    "HandlerFailed",
    "KohortError",
    "NoOffsetForPartition",
    "Node",
    "OffsetAndMetadata",
    "Producer",
    "ProtocolError",
    "Record",
    "StorageError",
    "TopicPartition",
    "UndecodableValue",
    "UsageError",
    "Wakeup",
    "__version__",
    "assignor",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'kohort' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
