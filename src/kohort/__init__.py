"""kohort: Kafka consumer groups, in Python, whole.

What a public call takes, returns or raises can be imported from here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import (
    ApiError,
    ApiTimeout,
    AuthenticationFailed,
    CommitFailed,
    ConfigError,
    ConnectionFailed,
    CorruptLog,
    CorruptRecord,
    DataDirInUse,
    ErrorCode,
    HandlerFailed,
    KohortError,
    LogTruncated,
    MissingExtra,
    NoOffsetForPartition,
    NotKafka,
    ProducerFenced,
    ProtocolError,
    RecordsRefused,
    StorageError,
    TransactionFailed,
    UndecodableValue,
    UnsupportedVersion,
    UsageError,
    Wakeup,
)
from kohort.model import GroupMetadata, Node, OffsetAndMetadata, Record, SubscriptionPattern, TopicPartition
from kohort.secret import Secret
from kohort.version import VERSION

if TYPE_CHECKING:
    from kohort.aio.admin import Admin, AsyncAdmin
    from kohort.aio.consuming.async_consumer import AsyncConsumer
    from kohort.aio.consuming.async_waits import AsyncRebalanceListener
    from kohort.aio.consuming.consumer import Consumer
    from kohort.aio.group.async_consumer_group import AsyncConsumerGroup
    from kohort.aio.group.consumer_group import ConsumerGroup
    from kohort.aio.group.group_tasks import AsyncClaim, AsyncGroupHandler, AsyncGroupSession, AsyncHandler
    from kohort.aio.group.group_threads import Claim, GroupHandler, GroupSession, Handler
    from kohort.aio.producing.async_producer import AsyncProducer
    from kohort.aio.producing.delivery import Delivery
    from kohort.aio.producing.producer import Producer
    from kohort.aio.serving.embedded import Broker
    from kohort.assignors.custom import assignor
    from kohort.assignors.spec import Assignor, MemberSubscription, SubscribedTopics
    from kohort.client.admin.acls import AclBinding, AclBindingFilter
    from kohort.client.admin.model import (
        ClusterDescription,
        ConfigEntry,
        ConfigResource,
        CreatedTopic,
        FirstRecord,
        GroupDescription,
        GroupListing,
        ListedOffset,
        LogEnds,
        MemberDescription,
        NewTopic,
        PartitionDescription,
        PartitionOffset,
        ProducerState,
        Reassignment,
        TopicDescription,
        TopicListing,
        TransactionDescription,
        TransactionListing,
    )
    from kohort.client.admin.operations import Results
    from kohort.client.admin.quotas import ClientQuotaEntity, QuotaMatch
    from kohort.client.admin.scram_users import (
        ScramCredentialInfo,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from kohort.client.group.membership import RebalanceListener
    from kohort.client.metrics.names import MetricName, MetricsSnapshot
    from kohort.client.producer import RecordMetadata
    from kohort.client.reading.list_offsets import OffsetAndTimestamp
    from kohort.instruments.instrument import Instrumentation, instrument
    from kohort.instruments.prometheus import MeasuredClient, MetricsCollector

__version__ = VERSION

_LAZY: Final = {
    "AclBinding": "kohort.client.admin.acls",
    "AclBindingFilter": "kohort.client.admin.acls",
    "MetricsSnapshot": "kohort.client.metrics.names",
    "MetricName": "kohort.client.metrics.names",
    "MetricsCollector": "kohort.instruments.prometheus",
    "Instrumentation": "kohort.instruments.instrument",
    "instrument": "kohort.instruments.instrument",
    "MeasuredClient": "kohort.instruments.prometheus",
    "ClientQuotaEntity": "kohort.client.admin.quotas",
    "QuotaMatch": "kohort.client.admin.quotas",
    "ScramCredentialInfo": "kohort.client.admin.scram_users",
    "UserScramCredentialDeletion": "kohort.client.admin.scram_users",
    "UserScramCredentialUpsertion": "kohort.client.admin.scram_users",
    "Admin": "kohort.aio.admin",
    "Assignor": "kohort.assignors.spec",
    "MemberSubscription": "kohort.assignors.spec",
    "SubscribedTopics": "kohort.assignors.spec",
    "AsyncAdmin": "kohort.aio.admin",
    "AsyncClaim": "kohort.aio.group.group_tasks",
    "AsyncConsumer": "kohort.aio.consuming.async_consumer",
    "AsyncConsumerGroup": "kohort.aio.group.async_consumer_group",
    "AsyncGroupHandler": "kohort.aio.group.group_tasks",
    "AsyncGroupSession": "kohort.aio.group.group_tasks",
    "AsyncHandler": "kohort.aio.group.group_tasks",
    "AsyncProducer": "kohort.aio.producing.async_producer",
    "AsyncRebalanceListener": "kohort.aio.consuming.async_waits",
    "Broker": "kohort.aio.serving.embedded",
    "Claim": "kohort.aio.group.group_threads",
    "ClusterDescription": "kohort.client.admin.model",
    "ConfigEntry": "kohort.client.admin.model",
    "ConfigResource": "kohort.client.admin.model",
    "Consumer": "kohort.aio.consuming.consumer",
    "ConsumerGroup": "kohort.aio.group.consumer_group",
    "CreatedTopic": "kohort.client.admin.model",
    "Delivery": "kohort.aio.producing.delivery",
    "FirstRecord": "kohort.client.admin.model",
    "GroupDescription": "kohort.client.admin.model",
    "GroupHandler": "kohort.aio.group.group_threads",
    "GroupListing": "kohort.client.admin.model",
    "GroupSession": "kohort.aio.group.group_threads",
    "Handler": "kohort.aio.group.group_threads",
    "ListedOffset": "kohort.client.admin.model",
    "LogEnds": "kohort.client.admin.model",
    "MemberDescription": "kohort.client.admin.model",
    "NewTopic": "kohort.client.admin.model",
    "OffsetAndTimestamp": "kohort.client.reading.list_offsets",
    "PartitionDescription": "kohort.client.admin.model",
    "PartitionOffset": "kohort.client.admin.model",
    "Producer": "kohort.aio.producing.producer",
    "ProducerState": "kohort.client.admin.model",
    "Reassignment": "kohort.client.admin.model",
    "RebalanceListener": "kohort.client.group.membership",
    "RecordMetadata": "kohort.client.producer",
    "Results": "kohort.client.admin.operations",
    "TopicDescription": "kohort.client.admin.model",
    "TopicListing": "kohort.client.admin.model",
    "TransactionDescription": "kohort.client.admin.model",
    "TransactionListing": "kohort.client.admin.model",
    "assignor": "kohort.assignors.custom",
}
"""Public names that bring much with them, sockets and threads above all: imported when first used (PEP 562)."""

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "Admin",
    "ApiError",
    "ApiTimeout",
    "Assignor",
    "AsyncAdmin",
    "AsyncClaim",
    "AsyncConsumer",
    "AsyncConsumerGroup",
    "AsyncGroupHandler",
    "AsyncGroupSession",
    "AsyncHandler",
    "AsyncProducer",
    "AsyncRebalanceListener",
    "AuthenticationFailed",
    "Broker",
    "Claim",
    "ClientQuotaEntity",
    "ClusterDescription",
    "CommitFailed",
    "ConfigEntry",
    "ConfigError",
    "ConfigResource",
    "ConnectionFailed",
    "Consumer",
    "ConsumerGroup",
    "CorruptLog",
    "CorruptRecord",
    "CreatedTopic",
    "DataDirInUse",
    "Delivery",
    "ErrorCode",
    "FirstRecord",
    "GroupDescription",
    "GroupHandler",
    "GroupListing",
    "GroupMetadata",
    "GroupSession",
    "Handler",
    "HandlerFailed",
    "Instrumentation",
    "KohortError",
    "ListedOffset",
    "LogEnds",
    "LogTruncated",
    "MeasuredClient",
    "MemberDescription",
    "MemberSubscription",
    "MetricName",
    "MetricsCollector",
    "MetricsSnapshot",
    "MissingExtra",
    "NewTopic",
    "NoOffsetForPartition",
    "Node",
    "NotKafka",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionDescription",
    "PartitionOffset",
    "Producer",
    "ProducerFenced",
    "ProducerState",
    "ProtocolError",
    "QuotaMatch",
    "Reassignment",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "RecordsRefused",
    "Results",
    "ScramCredentialInfo",
    "Secret",
    "StorageError",
    "SubscribedTopics",
    "SubscriptionPattern",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TransactionDescription",
    "TransactionFailed",
    "TransactionListing",
    "UndecodableValue",
    "UnsupportedVersion",
    "UsageError",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "Wakeup",
    "__version__",
    "assignor",
    "instrument",
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
