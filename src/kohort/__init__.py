"""kohort: Kafka consumer groups, in Python, whole."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
    MissingExtra,
    NoOffsetForPartition,
    NotKafka,
    ProducerFenced,
    ProtocolError,
    StorageError,
    TransactionFailed,
    UndecodableValue,
    UsageError,
    Wakeup,
)
from kohort.model import GroupMetadata, Node, OffsetAndMetadata, Record, TopicPartition
from kohort.version import VERSION

if TYPE_CHECKING:
    from kohort.aio.admin import Admin, AsyncAdmin
    from kohort.aio.consuming.async_consumer import AsyncConsumer
    from kohort.aio.consuming.consumer import Consumer
    from kohort.aio.group.async_consumer_group import AsyncConsumerGroup
    from kohort.aio.group.consumer_group import ConsumerGroup
    from kohort.aio.group.group_tasks import AsyncClaim, AsyncGroupHandler, AsyncGroupSession
    from kohort.aio.group.group_threads import Claim, GroupHandler, GroupSession
    from kohort.aio.producing.async_producer import AsyncProducer
    from kohort.aio.producing.delivery import Delivery
    from kohort.aio.producing.producer import Producer
    from kohort.aio.serving.embedded import Broker
    from kohort.assignors.custom import assignor
    from kohort.client.group.rebalance import RebalanceListener

__version__ = VERSION

_LAZY = {
    "Admin": "kohort.aio.admin",
    "AsyncAdmin": "kohort.aio.admin",
    "AsyncClaim": "kohort.aio.group.group_tasks",
    "AsyncConsumer": "kohort.aio.consuming.async_consumer",
    "AsyncConsumerGroup": "kohort.aio.group.async_consumer_group",
    "AsyncGroupHandler": "kohort.aio.group.group_tasks",
    "AsyncGroupSession": "kohort.aio.group.group_tasks",
    "AsyncProducer": "kohort.aio.producing.async_producer",
    "Broker": "kohort.aio.serving.embedded",
    "Claim": "kohort.aio.group.group_threads",
    "Consumer": "kohort.aio.consuming.consumer",
    "ConsumerGroup": "kohort.aio.group.consumer_group",
    "Delivery": "kohort.aio.producing.delivery",
    "GroupHandler": "kohort.aio.group.group_threads",
    "GroupSession": "kohort.aio.group.group_threads",
    "Producer": "kohort.aio.producing.producer",
    "RebalanceListener": "kohort.client.group.rebalance",
    "assignor": "kohort.assignors.custom",
}
"""Public names that bring much with them, sockets and threads above all: imported when first used (PEP 562)."""

__all__ = [
    "Admin",
    "ApiError",
    "ApiTimeout",
    "AsyncAdmin",
    "AsyncClaim",
    "AsyncConsumer",
    "AsyncConsumerGroup",
    "AsyncGroupHandler",
    "AsyncGroupSession",
    "AsyncProducer",
    "Broker",
    "Claim",
    "CommitFailed",
    "ConfigError",
    "ConnectionFailed",
    "Consumer",
    "ConsumerGroup",
    "CorruptRecord",
    "Delivery",
    "ErrorCode",
    "GroupHandler",
    "GroupMetadata",
    "GroupSession",
    "HandlerFailed",
    "KohortError",
    "MissingExtra",
    "NoOffsetForPartition",
    "Node",
    "NotKafka",
    "OffsetAndMetadata",
    "Producer",
    "ProducerFenced",
    "ProtocolError",
    "RebalanceListener",
    "Record",
    "StorageError",
    "TopicPartition",
    "TransactionFailed",
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
