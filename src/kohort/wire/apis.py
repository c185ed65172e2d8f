"""The APIs that kohort speaks, and the versions of each that it serves and asks for.

The versions are those of Apache Kafka 4.3 (protocol/requests.md#served-versions): where a message declares one more, it
was drafted in 4.4 or is not yet stable, and is read and written but neither advertised nor negotiated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kohort.wire.messages import (
    acls,
    api_versions,
    cluster,
    configs,
    epochs,
    fetch,
    find_coordinator,
    group_admin,
    group_classic,
    list_offsets,
    log_dirs,
    metadata,
    offsets,
    produce,
    producer_ids,
    quorum,
    reassignments,
    topic_partitions,
    topics,
    transaction_admin,
    transactions,
)
from kohort.wire.schema import MAX_VERSION, Message

PRODUCE: Final = 0
API_VERSIONS: Final = 18


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its two messages, the versions served (both ends included), the first version that is flexible."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    low: int
    high: int
    flexible_from: int

    @property
    def advertised_low(self) -> int:
        """The lowest version shown to clients: Produce claims 0, or librdkafka gives up compression (KAFKA-18659)."""
        return 0 if self.key == PRODUCE else self.low

    def serves(self, version: int) -> bool:
        """Whether a request of this version is answered."""
        return self.low <= version <= self.high


HIGHEST_SERVED: Final = {API_VERSIONS: 4, 22: 5, 42: 2}
"""Where 4.3 stops short of what is declared: ApiVersions 5 and DeleteGroups 3 are of 4.4, InitProducerId 6 is draft."""

_PAIRS: Final[tuple[tuple[type[Message], type[Message]], ...]] = (
    (produce.ProduceRequest, produce.ProduceResponse),
    (fetch.FetchRequest, fetch.FetchResponse),
    (list_offsets.ListOffsetsRequest, list_offsets.ListOffsetsResponse),
    (metadata.MetadataRequest, metadata.MetadataResponse),
    (offsets.OffsetCommitRequest, offsets.OffsetCommitResponse),
    (offsets.OffsetFetchRequest, offsets.OffsetFetchResponse),
    (find_coordinator.FindCoordinatorRequest, find_coordinator.FindCoordinatorResponse),
    (group_classic.JoinGroupRequest, group_classic.JoinGroupResponse),
    (group_classic.HeartbeatRequest, group_classic.HeartbeatResponse),
    (group_classic.LeaveGroupRequest, group_classic.LeaveGroupResponse),
    (group_classic.SyncGroupRequest, group_classic.SyncGroupResponse),
    (group_admin.DescribeGroupsRequest, group_admin.DescribeGroupsResponse),
    (group_admin.ListGroupsRequest, group_admin.ListGroupsResponse),
    (api_versions.ApiVersionsRequest, api_versions.ApiVersionsResponse),
    (topics.CreateTopicsRequest, topics.CreateTopicsResponse),
    (topics.DeleteTopicsRequest, topics.DeleteTopicsResponse),
    (topics.DeleteRecordsRequest, topics.DeleteRecordsResponse),
    (producer_ids.InitProducerIdRequest, producer_ids.InitProducerIdResponse),
    (epochs.OffsetForLeaderEpochRequest, epochs.OffsetForLeaderEpochResponse),
    (transactions.AddPartitionsToTxnRequest, transactions.AddPartitionsToTxnResponse),
    (transactions.AddOffsetsToTxnRequest, transactions.AddOffsetsToTxnResponse),
    (transactions.EndTxnRequest, transactions.EndTxnResponse),
    (transactions.WriteTxnMarkersRequest, transactions.WriteTxnMarkersResponse),
    (transactions.TxnOffsetCommitRequest, transactions.TxnOffsetCommitResponse),
    (acls.DescribeAclsRequest, acls.DescribeAclsResponse),
    (acls.CreateAclsRequest, acls.CreateAclsResponse),
    (acls.DeleteAclsRequest, acls.DeleteAclsResponse),
    (configs.DescribeConfigsRequest, configs.DescribeConfigsResponse),
    (configs.AlterConfigsRequest, configs.AlterConfigsResponse),
    (log_dirs.AlterReplicaLogDirsRequest, log_dirs.AlterReplicaLogDirsResponse),
    (log_dirs.DescribeLogDirsRequest, log_dirs.DescribeLogDirsResponse),
    (topics.CreatePartitionsRequest, topics.CreatePartitionsResponse),
    (group_admin.DeleteGroupsRequest, group_admin.DeleteGroupsResponse),
    (reassignments.ElectLeadersRequest, reassignments.ElectLeadersResponse),
    (configs.IncrementalAlterConfigsRequest, configs.IncrementalAlterConfigsResponse),
    (reassignments.AlterPartitionReassignmentsRequest, reassignments.AlterPartitionReassignmentsResponse),
    (reassignments.ListPartitionReassignmentsRequest, reassignments.ListPartitionReassignmentsResponse),
    (offsets.OffsetDeleteRequest, offsets.OffsetDeleteResponse),
    (quorum.DescribeQuorumRequest, quorum.DescribeQuorumResponse),
    (cluster.DescribeClusterRequest, cluster.DescribeClusterResponse),
    (producer_ids.DescribeProducersRequest, producer_ids.DescribeProducersResponse),
    (transaction_admin.DescribeTransactionsRequest, transaction_admin.DescribeTransactionsResponse),
    (transaction_admin.ListTransactionsRequest, transaction_admin.ListTransactionsResponse),
    (configs.ListConfigResourcesRequest, configs.ListConfigResourcesResponse),
    (topic_partitions.DescribeTopicPartitionsRequest, topic_partitions.DescribeTopicPartitionsResponse),
)


def _api(request: type[Message], response: type[Message]) -> Api:
    assert request.API_KEY is not None
    assert request.API_KEY == response.API_KEY
    assert request.VERSIONS == response.VERSIONS
    low, high = request.VERSIONS
    flexible_from = request.FLEXIBLE.low if request.FLEXIBLE.high == MAX_VERSION else MAX_VERSION
    name = request.__name__.removesuffix("Request")
    return Api(request.API_KEY, name, request, response, low, HIGHEST_SERVED.get(request.API_KEY, high), flexible_from)


APIS: Final[dict[int, Api]] = {api.key: api for api in (_api(*pair) for pair in _PAIRS)}


def api_of(message: Message | type[Message]) -> Api:
    """The API that a request or a response belongs to. Raises KeyError for a message that belongs to none."""
    key = message.API_KEY
    if key is None:
        raise KeyError(f"{message!r} is neither a request nor a response")
    return APIS[key]


def response_of(request: type[Message]) -> type[Message]:
    """The class of the answers to ``request``."""
    return api_of(request).response
