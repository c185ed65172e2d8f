"""Cost of every API that is served, in one table: a test fails for an API without an entry."""

from __future__ import annotations

from typing import Any, Final

from kohort.broker.costs.brought import (
    members_of_consumer_group,
    members_of_group,
    offsets_of_group,
    partitions_of_transaction,
    producers_of_partition,
)
from kohort.broker.costs.cost import AnswerBound, Cost, Noun, Parts
from kohort.broker.costs.refused import (
    refuse_configs,
    refuse_consumer_groups,
    refuse_groups,
    refuse_offsets,
    refuse_producers,
    refuse_transactions,
)
from kohort.coordinator.offsets.fetch import FIRST_WITH_GROUPS
from kohort.wire.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.cluster import DescribeClusterRequest, DescribeQuorumRequest
from kohort.wire.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kohort.wire.messages.list_offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kohort.wire.messages.log_dirs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kohort.wire.messages.produce import ProduceRequest
from kohort.wire.messages.producer_ids import DescribeProducersRequest, InitProducerIdRequest
from kohort.wire.messages.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest
from kohort.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kohort.wire.messages.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kohort.wire.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from kohort.wire.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeTopicPartitionsRequest,
)
from kohort.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from kohort.wire.schema import Message

PARTITIONS: Final = ("topics", "partitions")
TOPICS: Final = {"topics.name": Noun.TOPIC}
TOPICS_BY_ID: Final = {**TOPICS, "topics.topic_id": Noun.TOPIC_ID}
FEW_KEYS: Final = 10
"""A resource with more keys is described at each mention: its keys cost more than its options."""
ONE_NAME: Final = "one name"


def _itself(item: Any) -> Any:
    return item


def _all_offsets(group: Any) -> tuple[Any, ...] | None:
    return (group.group_id, group.member_id, group.member_epoch) if group.topics is None else None


def _resource(resource: Any) -> tuple[Any, ...] | None:
    keys = resource.configuration_keys or ()
    return (resource.resource_type, resource.resource_name, *keys) if len(keys) <= FEW_KEYS else None


def _steps(answer: AnswerBound = AnswerBound.REQUEST, **names: Noun) -> Cost:
    """Return the cost of an API whose handler works in steps; in a field of a field ``__`` stands for the dot."""
    return Cost(answer, {path.replace("__", "."): noun for path, noun in names.items()}, in_steps=True)


COSTS: Final[dict[type[Message], Cost]] = {
    # Records.
    ProduceRequest: _steps(topic_data__name=Noun.TOPIC, topic_data__topic_id=Noun.TOPIC_ID),
    FetchRequest: _steps(AnswerBound.FETCH, topics__topic=Noun.TOPIC, topics__topic_id=Noun.TOPIC_ID),
    ListOffsetsRequest: _steps(topics__name=Noun.TOPIC),
    OffsetForLeaderEpochRequest: Cost(
        AnswerBound.REQUEST, {"topics.topic": Noun.TOPIC}, parts=Parts(PARTITIONS, PARTITIONS, 1_000)
    ),
    DeleteRecordsRequest: Cost(AnswerBound.REQUEST, TOPICS, parts=Parts(PARTITIONS, PARTITIONS, 50, writes=True)),
    DescribeProducersRequest: Cost(
        AnswerBound.UNREAD,
        TOPICS,
        parts=Parts(
            ("topics", "partition_indexes"), PARTITIONS, 500, brings=producers_of_partition, refuse=refuse_producers
        ),
    ),
    # Topics.
    MetadataRequest: _steps(AnswerBound.HELD, topics__name=Noun.TOPIC, topics__topic_id=Noun.TOPIC_ID),
    DescribeTopicPartitionsRequest: _steps(AnswerBound.PAGE, topics__name=Noun.TOPIC),
    CreateTopicsRequest: _steps(),
    CreatePartitionsRequest: _steps(topics__name=Noun.TOPIC),
    DeleteTopicsRequest: _steps(topics__name=Noun.TOPIC, topics__topic_id=Noun.TOPIC_ID, topic_names=Noun.TOPIC),
    # Groups.
    JoinGroupRequest: Cost(
        AnswerBound.HELD,
        {"group_id": Noun.GROUP, "protocols.metadata": Noun.SUBSCRIPTION},
        one_step="10,000 protocols and 16 MiB of metadata at most",
    ),
    SyncGroupRequest: Cost(
        AnswerBound.HELD,
        {"group_id": Noun.GROUP, "assignments.assignment": Noun.ASSIGNMENT},
        one_step="100,000 assignments and 16 MiB of them at most; evidence is taken from 128 KiB at most",
    ),
    HeartbeatRequest: Cost(AnswerBound.FIXED, {"group_id": Noun.GROUP}, one_step=ONE_NAME),
    LeaveGroupRequest: Cost(
        AnswerBound.REQUEST, {"group_id": Noun.GROUP}, parts=Parts(("members",), ("members",), 200, writes=True)
    ),
    ConsumerGroupHeartbeatRequest: Cost(
        AnswerBound.HELD,
        {
            "group_id": Noun.GROUP,
            "subscribed_topic_names": Noun.TOPIC,
            "subscribed_topic_regex": Noun.EXPRESSION,
            "topic_partitions.topic_id": Noun.TOPIC_ID,
        },
        one_step="names, expression and owned partitions are bounded by the coordinator",
    ),
    OffsetCommitRequest: Cost(
        AnswerBound.REQUEST,
        {"group_id": Noun.GROUP, **TOPICS_BY_ID},
        parts=Parts(PARTITIONS, PARTITIONS, 300, writes=True),
    ),
    OffsetFetchRequest: Cost(
        AnswerBound.UNREAD,
        {
            "group_id": Noun.GROUP,
            "topics.name": Noun.TOPIC,
            "groups.group_id": Noun.GROUP,
            "groups.topics.name": Noun.TOPIC,
            "groups.topics.topic_id": Noun.TOPIC_ID,
        },
        once=("groups", _all_offsets),
        parts=Parts(
            ("groups", "topics", "partition_indexes"),
            ("groups", "topics", "partitions"),
            1_000,
            brings=offsets_of_group,
            refuse=refuse_offsets,
        ),
        older_parts=(
            FIRST_WITH_GROUPS,
            Parts(("topics", "partition_indexes"), PARTITIONS, 1_000, refuse=refuse_offsets),
        ),
    ),
    OffsetDeleteRequest: Cost(
        AnswerBound.REQUEST, {"group_id": Noun.GROUP, **TOPICS}, parts=Parts(PARTITIONS, PARTITIONS, 300, writes=True)
    ),
    DescribeGroupsRequest: Cost(
        AnswerBound.UNREAD,
        {"groups": Noun.GROUP},
        once=("groups", _itself),
        parts=Parts(("groups",), ("groups",), 500, brings=members_of_group, refuse=refuse_groups),
    ),
    ConsumerGroupDescribeRequest: Cost(
        AnswerBound.UNREAD,
        {"group_ids": Noun.GROUP},
        once=("group_ids", _itself),
        parts=Parts(("group_ids",), ("groups",), 500, brings=members_of_consumer_group, refuse=refuse_consumer_groups),
    ),
    ListGroupsRequest: _steps(AnswerBound.HELD),
    DeleteGroupsRequest: Cost(
        AnswerBound.REQUEST,
        {"groups_names": Noun.GROUP},
        once=("groups_names", _itself),
        parts=Parts(("groups_names",), ("results",), 50, writes=True),
    ),
    FindCoordinatorRequest: Cost(
        AnswerBound.REQUEST,
        {"key": Noun.GROUP, "coordinator_keys": Noun.GROUP},
        parts=Parts(("coordinator_keys",), ("coordinators",), 1_000),
    ),
    # Transactions.
    InitProducerIdRequest: Cost(AnswerBound.FIXED, {"transactional_id": Noun.TRANSACTIONAL_ID}, one_step=ONE_NAME),
    AddPartitionsToTxnRequest: _steps(
        v3_and_below_transactional_id=Noun.TRANSACTIONAL_ID,
        v3_and_below_topics__name=Noun.TOPIC,
        transactions__transactional_id=Noun.TRANSACTIONAL_ID,
        transactions__topics__name=Noun.TOPIC,
    ),
    AddOffsetsToTxnRequest: Cost(
        AnswerBound.FIXED, {"transactional_id": Noun.TRANSACTIONAL_ID, "group_id": Noun.GROUP}, one_step=ONE_NAME
    ),
    EndTxnRequest: Cost(
        AnswerBound.FIXED,
        {"transactional_id": Noun.TRANSACTIONAL_ID},
        one_step="markers are written later",
    ),
    TxnOffsetCommitRequest: Cost(
        AnswerBound.REQUEST,
        {"transactional_id": Noun.TRANSACTIONAL_ID, "group_id": Noun.GROUP, **TOPICS_BY_ID},
        parts=Parts(PARTITIONS, PARTITIONS, 300, writes=True),
    ),
    WriteTxnMarkersRequest: Cost(
        AnswerBound.REQUEST,
        {"markers.topics.name": Noun.TOPIC},
        parts=Parts(("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions"), 50, writes=True),
    ),
    DescribeTransactionsRequest: Cost(
        AnswerBound.UNREAD,
        {"transactional_ids": Noun.TRANSACTIONAL_ID},
        once=("transactional_ids", _itself),
        parts=Parts(
            ("transactional_ids",),
            ("transaction_states",),
            500,
            brings=partitions_of_transaction,
            refuse=refuse_transactions,
        ),
    ),
    ListTransactionsRequest: _steps(AnswerBound.HELD, transactional_id_pattern=Noun.EXPRESSION),
    # Options.
    DescribeConfigsRequest: Cost(
        AnswerBound.UNREAD,
        {"resources.resource_name": Noun.RESOURCE},
        once=("resources", _resource),
        parts=Parts(("resources",), ("results",), 15, refuse=refuse_configs),
    ),
    AlterConfigsRequest: _steps(resources__resource_name=Noun.RESOURCE),
    IncrementalAlterConfigsRequest: _steps(resources__resource_name=Noun.RESOURCE),
    ListConfigResourcesRequest: _steps(AnswerBound.HELD),
    # Replicas and log directories.
    AlterReplicaLogDirsRequest: _steps(dirs__topics__name=Noun.TOPIC),
    DescribeLogDirsRequest: _steps(AnswerBound.HELD, topics__topic=Noun.TOPIC),
    ElectLeadersRequest: _steps(topic_partitions__topic=Noun.TOPIC),
    AlterPartitionReassignmentsRequest: Cost(
        AnswerBound.REQUEST, TOPICS, parts=Parts(PARTITIONS, ("responses", "partitions"), 20, writes=True)
    ),
    ListPartitionReassignmentsRequest: _steps(AnswerBound.HELD, topics__name=Noun.TOPIC),
    DescribeQuorumRequest: _steps(topics__topic_name=Noun.TOPIC),
    # Users and rights.
    DescribeAclsRequest: _steps(AnswerBound.HELD),
    CreateAclsRequest: _steps(),
    DeleteAclsRequest: _steps(),
    DescribeClientQuotasRequest: _steps(AnswerBound.HELD),
    AlterClientQuotasRequest: _steps(),
    DescribeUserScramCredentialsRequest: _steps(AnswerBound.HELD, users__name=Noun.USER),
    AlterUserScramCredentialsRequest: _steps(deletions__name=Noun.USER, upsertions__name=Noun.USER),
    # Connections and the cluster.
    ApiVersionsRequest: Cost(AnswerBound.FIXED, one_step="no names"),
    SaslHandshakeRequest: Cost(AnswerBound.FIXED, one_step=ONE_NAME),
    SaslAuthenticateRequest: Cost(AnswerBound.FIXED, one_step="sasl.server.max.receive.size bounds the request"),
    DescribeClusterRequest: Cost(AnswerBound.FIXED, one_step="the nodes of one process"),
    GetTelemetrySubscriptionsRequest: Cost(AnswerBound.FIXED, one_step="one client instance"),
    PushTelemetryRequest: _steps(AnswerBound.FIXED),
}
