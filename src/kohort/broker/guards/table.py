"""Every API and its guard, in one table: what is served must stand here (protocol/security.md#checks)."""

from __future__ import annotations

from typing import Final

from kohort.broker.guards import cluster, consumer_groups, groups, records, topics, transactions
from kohort.broker.guards.guard import Guard, unguarded
from kohort.wire.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.cluster import DescribeClusterRequest, DescribeQuorumRequest
from kohort.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
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

GUARDS: Final[dict[type[Message], Guard]] = {
    # Everybody may ask these; who may not do more is told less by their handlers.
    ApiVersionsRequest: unguarded,
    SaslHandshakeRequest: unguarded,
    SaslAuthenticateRequest: unguarded,
    DescribeClusterRequest: unguarded,
    GetTelemetrySubscriptionsRequest: unguarded,
    PushTelemetryRequest: unguarded,
    # The handlers of these ask for each topic as they come to it.
    FetchRequest: unguarded,
    DescribeTopicPartitionsRequest: unguarded,
    ProduceRequest: records.guard_produce,
    ListOffsetsRequest: records.guard_list_offsets,
    OffsetForLeaderEpochRequest: records.guard_epochs,
    DeleteRecordsRequest: records.guard_delete_records,
    DescribeProducersRequest: records.guard_describe_producers,
    MetadataRequest: topics.guard_metadata,
    CreateTopicsRequest: topics.guard_create_topics,
    CreatePartitionsRequest: topics.guard_create_partitions,
    DeleteTopicsRequest: topics.guard_delete_topics,
    JoinGroupRequest: groups.guard_join,
    SyncGroupRequest: groups.guard_sync,
    HeartbeatRequest: groups.guard_member,
    LeaveGroupRequest: groups.guard_member,
    ConsumerGroupHeartbeatRequest: groups.guard_consumer_heartbeat,
    OffsetCommitRequest: groups.guard_commit,
    OffsetFetchRequest: groups.guard_offset_fetch,
    OffsetDeleteRequest: groups.guard_offset_delete,
    DescribeGroupsRequest: groups.guard_describe_groups,
    DeleteGroupsRequest: groups.guard_delete_groups,
    ConsumerGroupDescribeRequest: consumer_groups.guard_describe_consumer_groups,
    ListGroupsRequest: groups.guard_list_groups,
    InitProducerIdRequest: transactions.guard_init_producer_id,
    AddPartitionsToTxnRequest: transactions.guard_add_partitions,
    AddOffsetsToTxnRequest: transactions.guard_add_offsets,
    TxnOffsetCommitRequest: transactions.guard_commit_in_transaction,
    EndTxnRequest: transactions.guard_end,
    WriteTxnMarkersRequest: transactions.guard_markers,
    DescribeTransactionsRequest: transactions.guard_describe_transactions,
    ListTransactionsRequest: transactions.guard_list_transactions,
    FindCoordinatorRequest: cluster.guard_find_coordinator,
    DescribeConfigsRequest: cluster.guard_describe_configs,
    AlterConfigsRequest: cluster.guard_alter_configs(AlterConfigsResponse),
    IncrementalAlterConfigsRequest: cluster.guard_alter_configs(IncrementalAlterConfigsResponse),
    ListConfigResourcesRequest: cluster.guard_list_config_resources,
    DescribeLogDirsRequest: cluster.guard_describe_log_dirs,
    AlterReplicaLogDirsRequest: cluster.guard_alter_log_dirs,
    ElectLeadersRequest: cluster.guard_elect_leaders,
    AlterPartitionReassignmentsRequest: cluster.guard_alter_reassignments,
    ListPartitionReassignmentsRequest: cluster.guard_list_reassignments,
    DescribeQuorumRequest: cluster.guard_describe_quorum,
    DescribeAclsRequest: cluster.guard_describe_acls,
    CreateAclsRequest: cluster.guard_create_acls,
    DeleteAclsRequest: cluster.guard_delete_acls,
    DescribeClientQuotasRequest: cluster.guard_describe_quotas,
    AlterClientQuotasRequest: cluster.guard_alter_quotas,
    DescribeUserScramCredentialsRequest: cluster.guard_describe_users,
    AlterUserScramCredentialsRequest: cluster.guard_alter_users,
}
