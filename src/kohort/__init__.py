"""kohort: Kafka consumer groups for Python.

All types of public calls can be imported from here.
"""

# ruff: noqa: I001 - dense lists of names
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import (
    ApiError, ApiTimeout, AuthenticationFailed, CommitFailed, ConfigError, ConnectionFailed, CorruptLog,
    CorruptRecord, DataDirInUse, DeadLetterFailed, ErrorCode, HandlerFailed, KohortError, LogTruncated, MissingExtra,
    NoOffsetForPartition, NotKafka, ProducerFenced, ProtocolError, RecordsRefused, SchemaRegistryError, StorageError,
    TableError, TransactionFailed, UndecodableValue, UnsupportedVersion, UsageError, Wakeup,
)  # fmt: skip
from kohort.model import GroupMetadata, Node, OffsetAndMetadata, Record, SubscriptionPattern, TopicPartition
from kohort.secret import Secret
from kohort.version import VERSION

if TYPE_CHECKING:
    from kohort.aio.admin import Admin, AsyncAdmin
    from kohort.aio.consuming.async_consumer import AsyncConsumer
    from kohort.aio.consuming.async_waits import AsyncRebalanceListener
    from kohort.aio.consuming.consumer import Consumer
    from kohort.aio.group.async_consumer_group import (
        AsyncClaim, AsyncConsumerGroup, AsyncGroupHandler, AsyncGroupSession, AsyncHandler,
    )  # fmt: skip
    from kohort.aio.group.consumer_group import Claim, ConsumerGroup, GroupHandler, GroupSession, Handler
    from kohort.aio.option_types import (
        AdminOptions, BrokerOptions, ClientOptions, ConsumerOptions, HandlerOptions, ProducerOptions, TokenProvider,
    )  # fmt: skip
    from kohort.aio.producing.async_producer import AsyncProducer
    from kohort.aio.producing.delivery import Delivery
    from kohort.aio.producing.producer import Producer
    from kohort.aio.schema_registry import AsyncSchemaRegistry, SchemaRegistry
    from kohort.aio.serving.embedded import Broker
    from kohort.assignors.custom import assignor
    from kohort.assignors.spec import Assignor, MemberSubscription, SubscribedTopics
    from kohort.client.admin.acls import AclBinding, AclBindingFilter
    from kohort.client.admin.model import (
        ClusterDescription, ConfigEntry, ConfigResource, CreatedTopic, FirstRecord, GroupDescription,
        GroupListing, ListedOffset, LogDirDescription, LogEnds, MemberDescription, NewTopic, PartitionDescription,
        PartitionOffset, ProducerState, Reassignment, TopicDescription, TopicListing, TransactionDescription,
        TransactionListing,
    )  # fmt: skip
    from kohort.client.admin.operations import Results
    from kohort.client.admin.quotas import ClientQuotaEntity, QuotaMatch
    from kohort.client.admin.scram_users import (
        ScramCredentialInfo, UserScramCredentialDeletion, UserScramCredentialUpsertion,
    )  # fmt: skip
    from kohort.client.group.membership import RebalanceListener
    from kohort.client.handling.failures import Failure, failure_of
    from kohort.client.metrics.names import MetricName, MetricsSnapshot
    from kohort.client.producer import RecordMetadata
    from kohort.client.reading.list_offsets import OffsetAndTimestamp
    from kohort.columns.avro_values.format import AvroFormat
    from kohort.instruments.instrument import Instrumentation, instrument
    from kohort.instruments.prometheus import MeasuredClient, MetricsCollector
    from kohort.schemas.avro import AvroDeserializer, AvroSerializer
    from kohort.schemas.json_schema import JSONDeserializer, JSONSerializer
    from kohort.schemas.protobuf import ProtobufDeserializer, ProtobufSerializer
    from kohort.schemas.schema import RegisteredSchema, Schema, SchemaReference
    from kohort.schemas.registered import DeserializerOptions, SerializerOptions
    from kohort.schemas.serde import AnySchemaRegistry, Deserializer, SerializationContext, Serializer, Undecodable

__version__ = VERSION

_LATE: Final = {
    "kohort.aio.admin": "Admin AsyncAdmin",
    "kohort.aio.consuming.async_consumer": "AsyncConsumer",
    "kohort.aio.consuming.async_waits": "AsyncRebalanceListener",
    "kohort.aio.consuming.consumer": "Consumer",
    "kohort.aio.group.async_consumer_group": (
        "AsyncClaim AsyncConsumerGroup AsyncGroupHandler AsyncGroupSession AsyncHandler"
    ),
    "kohort.aio.group.consumer_group": "Claim ConsumerGroup GroupHandler GroupSession Handler",
    "kohort.aio.option_types": (
        "AdminOptions BrokerOptions ClientOptions ConsumerOptions HandlerOptions ProducerOptions TokenProvider"
    ),
    "kohort.aio.producing.async_producer": "AsyncProducer",
    "kohort.aio.producing.delivery": "Delivery",
    "kohort.aio.producing.producer": "Producer",
    "kohort.aio.schema_registry": "AsyncSchemaRegistry SchemaRegistry",
    "kohort.aio.serving.embedded": "Broker",
    "kohort.assignors.custom": "assignor",
    "kohort.assignors.spec": "Assignor MemberSubscription SubscribedTopics",
    "kohort.client.admin.acls": "AclBinding AclBindingFilter",
    "kohort.client.admin.model": """
        ClusterDescription ConfigEntry ConfigResource CreatedTopic FirstRecord GroupDescription GroupListing
        ListedOffset LogDirDescription LogEnds MemberDescription NewTopic PartitionDescription PartitionOffset
        ProducerState Reassignment TopicDescription TopicListing TransactionDescription TransactionListing
    """,
    "kohort.client.admin.operations": "Results",
    "kohort.client.admin.quotas": "ClientQuotaEntity QuotaMatch",
    "kohort.client.admin.scram_users": "ScramCredentialInfo UserScramCredentialDeletion UserScramCredentialUpsertion",
    "kohort.client.group.membership": "RebalanceListener",
    "kohort.client.handling.failures": "Failure failure_of",
    "kohort.client.metrics.names": "MetricName MetricsSnapshot",
    "kohort.client.producer": "RecordMetadata",
    "kohort.client.reading.list_offsets": "OffsetAndTimestamp",
    "kohort.columns.avro_values.format": "AvroFormat",
    "kohort.instruments.instrument": "Instrumentation instrument",
    "kohort.instruments.prometheus": "MeasuredClient MetricsCollector",
    "kohort.schemas.avro": "AvroDeserializer AvroSerializer",
    "kohort.schemas.json_schema": "JSONDeserializer JSONSerializer",
    "kohort.schemas.protobuf": "ProtobufDeserializer ProtobufSerializer",
    "kohort.schemas.schema": "RegisteredSchema Schema SchemaReference",
    "kohort.schemas.registered": "DeserializerOptions SerializerOptions",
    "kohort.schemas.serde": "AnySchemaRegistry Deserializer SerializationContext Serializer Undecodable",
}
"""Public names by module. The first use of a name imports its module (PEP 562), which may load sockets and threads."""
_LAZY: Final = {name: module for module, names in _LATE.items() for name in names.split()}

__all__ = [
    "AclBinding", "AclBindingFilter", "Admin", "AdminOptions", "AnySchemaRegistry", "ApiError", "ApiTimeout",
    "Assignor", "AsyncAdmin", "AsyncClaim", "AsyncConsumer", "AsyncConsumerGroup", "AsyncGroupHandler",
    "AsyncGroupSession", "AsyncHandler", "AsyncProducer", "AsyncRebalanceListener", "AsyncSchemaRegistry",
    "AuthenticationFailed", "AvroDeserializer", "AvroFormat", "AvroSerializer", "Broker", "BrokerOptions", "Claim",
    "ClientOptions", "ClientQuotaEntity", "ClusterDescription", "CommitFailed", "ConfigEntry", "ConfigError",
    "ConfigResource", "ConnectionFailed", "Consumer", "ConsumerGroup", "ConsumerOptions", "CorruptLog",
    "CorruptRecord", "CreatedTopic", "DataDirInUse", "DeadLetterFailed", "Delivery", "Deserializer",
    "DeserializerOptions", "ErrorCode", "Failure", "FirstRecord", "GroupDescription", "GroupHandler", "GroupListing",
    "GroupMetadata", "GroupSession", "Handler", "HandlerFailed", "HandlerOptions", "Instrumentation",
    "JSONDeserializer", "JSONSerializer", "KohortError", "ListedOffset", "LogDirDescription", "LogEnds",
    "LogTruncated", "MeasuredClient", "MemberDescription", "MemberSubscription", "MetricName", "MetricsCollector",
    "MetricsSnapshot", "MissingExtra", "NewTopic", "NoOffsetForPartition", "Node", "NotKafka", "OffsetAndMetadata",
    "OffsetAndTimestamp", "PartitionDescription", "PartitionOffset", "Producer", "ProducerFenced", "ProducerOptions",
    "ProducerState", "ProtobufDeserializer", "ProtobufSerializer", "ProtocolError", "QuotaMatch", "Reassignment",
    "RebalanceListener", "Record", "RecordMetadata", "RecordsRefused", "RegisteredSchema", "Results", "Schema",
    "SchemaReference", "SchemaRegistry", "SchemaRegistryError", "ScramCredentialInfo", "Secret",
    "SerializationContext", "Serializer", "SerializerOptions", "StorageError", "SubscribedTopics",
    "SubscriptionPattern", "TableError", "TokenProvider", "TopicDescription", "TopicListing", "TopicPartition",
    "TransactionDescription", "TransactionFailed", "TransactionListing", "Undecodable", "UndecodableValue",
    "UnsupportedVersion", "UsageError", "UserScramCredentialDeletion", "UserScramCredentialUpsertion", "Wakeup",
    "__version__", "assignor", "failure_of", "instrument",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'kohort' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
