"""A request for every API with its required rights, for tests of authorization.

The requests are about existing objects (``Things``), so that an allowed request has an effect. Any broker can be used:
``message`` and ``version`` determine the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kohort.errors import ErrorCode
from kohort.security.acls import IMPLIED_BY, Operation, ResourceType
from kohort.wire.apis import APIS
from kohort.wire.messages.acls import (
    AclCreation,
    AclFilter,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.cluster import DescribeClusterRequest, DescribeQuorumRequest, QuorumPartition, QuorumTopic
from kohort.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ReplacingConfig,
    ReplacingConfigsResource,
)
from kohort.wire.messages.features import UpdateFeaturesRequest
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.wire.messages.log_dirs import (
    AlterLogDir,
    AlterLogDirTopic,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
)
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.messages.producer_ids import DescribeProducersRequest, DescribeProducersTopic, InitProducerIdRequest
from kohort.wire.messages.quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    QuotaAlteration,
    QuotaEntityPart,
    QuotaOperation,
)
from kohort.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersTopic,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kohort.wire.messages.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kohort.wire.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from kohort.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
    DescribedTopicName,
    DescribeTopicPartitionsRequest,
)
from kohort.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kohort.wire.record_batch import NewRecord, build_batch
from kohort.wire.schema import Message

TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, ID_DENIED = 29, 30, 31, 53
DENIALS = frozenset({TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, ID_DENIED, ErrorCode.OPERATION_NOT_ATTEMPTED})
TIMESTAMP_MS = 1_700_000_000_000
ALLOW, LITERAL, ANY = 3, 3, 1

Right = tuple[Operation, ResourceType]
"""Operation, and type of its resource."""

TOPIC, GROUP, CLUSTER, ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)


@dataclass(frozen=True)
class Things:
    """Objects of the requests; all exist except ``new_topic``."""

    topic: str
    topic_id: bytes
    new_topic: str
    group: str
    """A stable group with ``member_id`` and ``generation`` and a committed offset of the topic."""
    member_id: str
    generation: int
    empty_group: str
    """A group without members and with a committed offset of the topic."""
    transactional_id: str
    """A transactional id with an open transaction that includes the topic."""
    producer_id: int
    producer_epoch: int
    folder: str
    """Folder of the logs."""

    def named(self, resource_type: ResourceType) -> tuple[str, ...]:
        """Names of the objects of a type."""
        return {
            TOPIC: (self.topic, self.new_topic),
            GROUP: (self.group, self.empty_group),
            ID: (self.transactional_id,),
            CLUSTER: ("kafka-cluster",),
        }[resource_type]


@dataclass(frozen=True)
class ApiCall:
    """One request, its required rights, and the errors in the response to a user without rights."""

    name: str
    message: Message
    version: int
    needs: tuple[frozenset[Right], ...]
    """Alternative sufficient sets of rights; empty: no right is required."""
    refused: tuple[int, ...] = ()
    """Error codes in order, without repeats. Empty if unauthorized items are left out."""
    is_shorter: bool = False
    """True if the response to an unauthorized user has fewer items, without an error."""
    error_since: int = 0
    """First version with a field for the error; older responses contain less."""

    def is_allowed_by(self, granted: Iterable[Right]) -> bool:
        """Return True if these rights suffice."""
        rights = set(granted)
        return not self.needs or any(
            all(any((by, kind) in rights for by in IMPLIED_BY[operation]) for operation, kind in needed)
            for needed in self.needs
        )

    @property
    def api(self) -> str:
        return APIS[type(self.message).API_KEY].name


def needs(*rights: Right) -> frozenset[Right]:
    """Require all of these rights."""
    return frozenset(rights)


def error_codes(answer: Any) -> Iterator[int]:
    """Yield every error code in a response, 0 included; except why topic options are missing."""
    for field in answer.FIELDS:
        value = getattr(answer, field.name)
        if field.name in ("error_code", "partition_error_code"):
            yield value
        elif isinstance(value, Message):
            yield from error_codes(value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, Message):
                    yield from error_codes(item)


def denials_in(answer: Any) -> tuple[int, ...]:
    """Return the authorization errors in a response, without repeats."""
    return tuple(sorted({code for code in error_codes(answer) if code in DENIALS}))


def calls(of: Things) -> list[ApiCall]:
    """Return one or several calls for each API."""
    return [*_of_records(of), *_of_topics(of), *_of_groups(of), *_of_transactions(of), *_of_cluster(of)]


def _of_records(of: Things) -> list[ApiCall]:
    write, read, describe, delete = (needs((operation, TOPIC)) for operation in (
        Operation.WRITE, Operation.READ, Operation.DESCRIBE, Operation.DELETE))  # fmt: skip
    plain = build_batch([NewRecord(None, b"v", (), TIMESTAMP_MS)])
    transactional = build_batch(
        [NewRecord(None, b"v", (), TIMESTAMP_MS)],
        producer_id=of.producer_id,
        producer_epoch=of.producer_epoch,
        base_sequence=1,
        is_transactional=True,
    )

    def produce(batch: bytes, *, by_id: bool = False, transactional_id: str | None = None) -> ProduceRequest:
        data = PartitionProduceData(index=0, records=batch)
        topic = TopicProduceData(topic_id=of.topic_id) if by_id else TopicProduceData(name=of.topic)
        topic.partition_data.append(data)
        return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=[topic])

    def fetch(*, by_id: bool = False) -> FetchRequest:
        request_partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic_id=of.topic_id) if by_id else FetchTopic(topic=of.topic)
        topic.partitions.append(request_partition)
        return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[topic])

    in_transaction = produce(transactional, transactional_id=of.transactional_id)
    both = needs((Operation.WRITE, ID), (Operation.WRITE, TOPIC))
    offset = ListOffsetsPartition(partition_index=0, timestamp=-1)
    epoch = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    kept = DeleteRecordsPartition(partition_index=0, offset=1)
    return [
        ApiCall("Produce", produce(plain), 9, (write,), (TOPIC_DENIED,)),
        ApiCall("Produce by id", produce(plain, by_id=True), 13, (write,), (TOPIC_DENIED,)),
        ApiCall("Produce in a transaction", in_transaction, 9, (both,), (ID_DENIED,)),
        ApiCall("Fetch", fetch(), 12, (read,), (TOPIC_DENIED,)),
        ApiCall("Fetch by id", fetch(by_id=True), 13, (read,), (TOPIC_DENIED,)),
        ApiCall(
            "ListOffsets",
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=of.topic, partitions=[offset])]),
            7,
            (describe,),
            (TOPIC_DENIED,),
        ),
        ApiCall(
            "OffsetForLeaderEpoch",
            OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=of.topic, partitions=[epoch])]),
            4,
            (describe, needs((Operation.CLUSTER_ACTION, CLUSTER))),
            (TOPIC_DENIED,),
        ),
        ApiCall(
            "DeleteRecords",
            DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=of.topic, partitions=[kept])], timeout_ms=1000),
            2,
            (delete,),
            (TOPIC_DENIED,),
        ),
        ApiCall(
            "DescribeProducers",
            DescribeProducersRequest(topics=[DescribeProducersTopic(name=of.topic, partition_indexes=[0])]),
            0,
            (read,),
            (TOPIC_DENIED,),
        ),
    ]


def _of_topics(of: Things) -> list[ApiCall]:
    describe = needs((Operation.DESCRIBE, TOPIC))
    create = needs((Operation.CREATE, TOPIC)), needs((Operation.CREATE, CLUSTER))
    delete = needs((Operation.DELETE, TOPIC)), needs((Operation.DELETE, CLUSTER))
    named = MetadataRequestTopic(name=of.topic)
    made = MetadataRequestTopic(name=of.new_topic)
    request_topic = MetadataRequestTopic(topic_id=of.topic_id, name=None)
    on_demand = tuple(describe | one for one in create)
    topic = CreatableTopic(name=of.new_topic, num_partitions=1, replication_factor=1)
    deleted_topic = DeleteTopicState(name=None, topic_id=of.topic_id)
    return [
        ApiCall("Metadata", MetadataRequest(topics=[named]), 12, (describe,), (TOPIC_DENIED,)),
        ApiCall("Metadata by id", MetadataRequest(topics=[request_topic]), 12, (describe,), (TOPIC_DENIED,)),
        ApiCall("Metadata that creates", MetadataRequest(topics=[made]), 12, on_demand, (TOPIC_DENIED,)),
        ApiCall("Metadata of all", MetadataRequest(topics=None), 12, (describe,), (), True),
        ApiCall(
            "DescribeTopicPartitions",
            DescribeTopicPartitionsRequest(topics=[DescribedTopicName(name=of.topic)]),
            0,
            (describe,),
            (TOPIC_DENIED,),
        ),
        ApiCall("DescribeTopicPartitions of all", DescribeTopicPartitionsRequest(), 0, (describe,), (), True),
        ApiCall("CreateTopics", CreateTopicsRequest(topics=[topic]), 7, create, (TOPIC_DENIED,)),
        ApiCall("DeleteTopics", DeleteTopicsRequest(topic_names=[of.topic], timeout_ms=1000), 5, delete, (29,)),
        ApiCall("DeleteTopics by id", DeleteTopicsRequest(topics=[deleted_topic], timeout_ms=1000), 6, delete, (29,)),
        ApiCall(
            "CreatePartitions",
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=of.topic, count=3, assignments=None)], timeout_ms=1000
            ),
            3,
            (needs((Operation.ALTER, TOPIC)),),
            (TOPIC_DENIED,),
        ),
    ]


def _of_groups(of: Things) -> list[ApiCall]:
    member = (needs((Operation.READ, GROUP)),)
    read_both = needs((Operation.READ, GROUP), (Operation.READ, TOPIC))
    describe_both = needs((Operation.DESCRIBE, GROUP), (Operation.DESCRIBE, TOPIC))
    describe = needs((Operation.DESCRIBE, GROUP))
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    joining = JoinGroupRequest(
        group_id=of.group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=of.member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )
    syncing = SyncGroupRequest(
        group_id=of.group, generation_id=of.generation, member_id=of.member_id,
        protocol_type="consumer", protocol_name="range",
    )  # fmt: skip
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata="")
    by_name = OffsetCommitRequestTopic(name=of.topic, partitions=[offset])
    by_id = OffsetCommitRequestTopic(topic_id=of.topic_id, partitions=[offset])
    one = OffsetFetchRequestGroup(
        group_id=of.empty_group, topics=[OffsetFetchRequestTopics(name=of.topic, partition_indexes=[0])]
    )
    request_group = OffsetFetchRequestGroup(
        group_id=of.empty_group, topics=[OffsetFetchRequestTopics(topic_id=of.topic_id, partition_indexes=[0])]
    )
    old = OffsetFetchRequestTopic(name=of.topic, partition_indexes=[0])
    every = OffsetFetchRequestGroup(group_id=of.empty_group, topics=None)
    offsets = OffsetDeleteRequestTopic(name=of.topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    leaving = MemberIdentity(member_id=of.member_id)
    return [
        ApiCall("JoinGroup", joining, 5, member, (GROUP_DENIED,)),
        ApiCall("SyncGroup", syncing, 5, member, (GROUP_DENIED,)),
        ApiCall(
            "Heartbeat",
            HeartbeatRequest(group_id=of.group, generation_id=of.generation, member_id=of.member_id),
            4,
            member,
            (GROUP_DENIED,),
        ),
        ApiCall("LeaveGroup", LeaveGroupRequest(group_id=of.group, members=[leaving]), 5, member, (GROUP_DENIED,)),
        ApiCall(
            "LeaveGroup of one member",
            LeaveGroupRequest(group_id=of.group, member_id=of.member_id),
            2,
            member,
            (GROUP_DENIED,),
        ),
        ApiCall("OffsetCommit", OffsetCommitRequest(group_id=of.empty_group, topics=[by_name]), 8, (read_both,), (30,)),
        ApiCall(
            "OffsetCommit by id",
            OffsetCommitRequest(group_id=of.empty_group, topics=[by_id]),
            10,
            (read_both,),
            (GROUP_DENIED,),
        ),
        ApiCall("OffsetFetch", OffsetFetchRequest(groups=[one]), 8, (describe_both,), (GROUP_DENIED,)),
        ApiCall("OffsetFetch by id", OffsetFetchRequest(groups=[request_group]), 10, (describe_both,), (GROUP_DENIED,)),
        ApiCall(
            "OffsetFetch of one group",
            OffsetFetchRequest(group_id=of.empty_group, topics=[old]),
            7,
            (describe_both,),
            (GROUP_DENIED,),
        ),
        ApiCall("OffsetFetch of all", OffsetFetchRequest(groups=[every]), 8, (describe,), (GROUP_DENIED,)),
        ApiCall(
            "OffsetDelete",
            OffsetDeleteRequest(group_id=of.empty_group, topics=[offsets]),
            0,
            (needs((Operation.DELETE, GROUP), (Operation.READ, TOPIC)),),
            (GROUP_DENIED,),
        ),
        ApiCall("DescribeGroups", DescribeGroupsRequest(groups=[of.group]), 5, (describe,), (GROUP_DENIED,)),
        ApiCall(
            "ConsumerGroupHeartbeat",
            ConsumerGroupHeartbeatRequest(
                group_id=of.empty_group,
                member_id="m",
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[of.topic],
                topic_partitions=[],
            ),
            0,
            (needs((Operation.READ, GROUP), (Operation.DESCRIBE, TOPIC)),),
            (GROUP_DENIED,),
        ),
        ApiCall(
            "ConsumerGroupDescribe",
            ConsumerGroupDescribeRequest(group_ids=[of.group]),
            0,
            (describe,),
            (GROUP_DENIED,),
        ),
        ApiCall(
            "DeleteGroups",
            DeleteGroupsRequest(groups_names=[of.empty_group]),
            2,
            (needs((Operation.DELETE, GROUP)),),
            (GROUP_DENIED,),
        ),
        ApiCall("ListGroups", ListGroupsRequest(), 4, (describe, needs((Operation.DESCRIBE, CLUSTER))), (), True),
    ]


def _of_transactions(of: Things) -> list[ApiCall]:
    write = needs((Operation.WRITE, ID))
    describe = needs((Operation.DESCRIBE, ID))
    some = needs((Operation.IDEMPOTENT_WRITE, CLUSTER)), needs((Operation.WRITE, TOPIC))
    topic = AddPartitionsToTxnTopic(name=of.topic, partitions=[0])
    older = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=of.transactional_id,
        v3_and_below_producer_id=of.producer_id,
        v3_and_below_producer_epoch=of.producer_epoch,
        v3_and_below_topics=[topic],
    )
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=of.transactional_id,
        producer_id=of.producer_id,
        producer_epoch=of.producer_epoch,
        verify_only=False,
        topics=[topic],
    )
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata="")
    committing = TxnOffsetCommitRequest(
        transactional_id=of.transactional_id,
        group_id=of.empty_group,
        producer_id=of.producer_id,
        producer_epoch=of.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=of.topic, partitions=[offset])],
    )
    committing_by_id = TxnOffsetCommitRequest(
        transactional_id=of.transactional_id,
        group_id=of.empty_group,
        producer_id=of.producer_id,
        producer_epoch=of.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(topic_id=of.topic_id, partitions=[offset])],
    )
    marker = WritableTxnMarker(
        producer_id=of.producer_id,
        producer_epoch=of.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=of.topic, partition_indexes=[0])],
        coordinator_epoch=0,
    )
    adding = AddOffsetsToTxnRequest(
        transactional_id=of.transactional_id,
        producer_id=of.producer_id,
        producer_epoch=of.producer_epoch,
        group_id=of.empty_group,
    )
    ending = EndTxnRequest(
        transactional_id=of.transactional_id,
        producer_id=of.producer_id,
        producer_epoch=of.producer_epoch,
        committed=True,
    )
    both = needs((Operation.WRITE, ID), (Operation.READ, GROUP))
    cluster_action = needs((Operation.CLUSTER_ACTION, CLUSTER))
    return [
        ApiCall(
            "InitProducerId", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1), 4, some, (31,)
        ),
        ApiCall(
            "InitProducerId of a transactional id",
            InitProducerIdRequest(transactional_id=of.transactional_id, transaction_timeout_ms=60_000),
            4,
            (write,),
            (ID_DENIED,),
        ),
        ApiCall("AddPartitionsToTxn", older, 3, (write | {(Operation.WRITE, TOPIC)},), (ID_DENIED,)),
        ApiCall(
            "AddPartitionsToTxn by a broker",
            AddPartitionsToTxnRequest(transactions=[transaction]),
            4,
            (cluster_action,),
            (CLUSTER_DENIED,),
        ),
        ApiCall("AddOffsetsToTxn", adding, 3, (both,), (ID_DENIED,)),
        ApiCall("TxnOffsetCommit", committing, 3, (both | {(Operation.READ, TOPIC)},), (ID_DENIED,)),
        ApiCall("TxnOffsetCommit by id", committing_by_id, 6, (both | {(Operation.READ, TOPIC)},), (ID_DENIED,)),
        ApiCall("EndTxn", ending, 3, (write,), (ID_DENIED,)),
        ApiCall(
            "WriteTxnMarkers",
            WriteTxnMarkersRequest(markers=[marker]),
            1,
            (cluster_action, needs((Operation.ALTER, CLUSTER))),
            (CLUSTER_DENIED,),
        ),
        ApiCall(
            "DescribeTransactions",
            DescribeTransactionsRequest(transactional_ids=[of.transactional_id]),
            0,
            (describe,),
            (ID_DENIED,),
        ),
        ApiCall("ListTransactions", ListTransactionsRequest(), 1, (describe,), (), True),
    ]


def _of_cluster(of: Things) -> list[ApiCall]:
    describe = (needs((Operation.DESCRIBE, CLUSTER)),)
    alter = (needs((Operation.ALTER, CLUSTER)),)
    find_group, find_id = (needs((Operation.DESCRIBE, kind)) for kind in (GROUP, ID))
    acl = AclCreation(
        resource_type=TOPIC, resource_name=of.new_topic, resource_pattern_type=LITERAL, principal="User:nobody",
        host="*", operation=Operation.READ, permission_type=ALLOW,
    )  # fmt: skip
    all_acls = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    nothing = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    no_user = {**nothing, "principal_filter": "User:nobody"}
    moved = AlterLogDir(path=of.folder, topics=[AlterLogDirTopic(name=of.topic, partitions=[0])])
    elected = ElectLeadersTopic(topic=of.topic, partitions=[0])
    reassigned = ReassignableTopic(name=of.topic, partitions=[ReassignablePartition(partition_index=0, replicas=[1])])
    metadata = QuorumTopic(topic_name="__cluster_metadata", partitions=[QuorumPartition(partition_index=0)])
    limited = QuotaAlteration(
        entity=[QuotaEntityPart(entity_type="user", entity_name="nobody")],
        ops=[QuotaOperation(key="producer_byte_rate", value=1000.0, remove=False)],
    )
    credential = ScramCredentialUpsertion(
        name="nobody", mechanism=1, iterations=4096, salt=b"saltsaltsalt", salted_password=b"p" * 32
    )
    return [
        ApiCall("ApiVersions", ApiVersionsRequest(), 0, ()),
        ApiCall("DescribeCluster", DescribeClusterRequest(), 0, ()),
        ApiCall("GetTelemetrySubscriptions", GetTelemetrySubscriptionsRequest(), 0, ()),
        ApiCall("PushTelemetry", PushTelemetryRequest(), 0, ()),
        ApiCall(
            "DescribeCluster with operations",
            DescribeClusterRequest(include_cluster_authorized_operations=True),
            0,
            describe,
            (),
            True,
        ),
        ApiCall(
            "FindCoordinator of a group",
            FindCoordinatorRequest(key_type=0, coordinator_keys=[of.group]),
            4,
            (find_group,),
            (GROUP_DENIED,),
        ),
        ApiCall(
            "FindCoordinator of a transactional id",
            FindCoordinatorRequest(key_type=1, coordinator_keys=[of.transactional_id]),
            4,
            (find_id,),
            (ID_DENIED,),
        ),
        ApiCall("FindCoordinator of one key", FindCoordinatorRequest(key=of.group), 3, (find_group,), (GROUP_DENIED,)),
        *_of_options(of),
        ApiCall("DescribeLogDirs", DescribeLogDirsRequest(topics=None), 4, describe, (CLUSTER_DENIED,), error_since=3),
        ApiCall("AlterReplicaLogDirs", AlterReplicaLogDirsRequest(dirs=[moved]), 2, alter, (CLUSTER_DENIED,)),
        ApiCall("ElectLeaders", ElectLeadersRequest(topic_partitions=[elected]), 2, alter, (CLUSTER_DENIED,)),
        ApiCall(
            "AlterPartitionReassignments",
            AlterPartitionReassignmentsRequest(topics=[reassigned]),
            0,
            alter,
            (CLUSTER_DENIED,),
        ),
        ApiCall("ListPartitionReassignments", ListPartitionReassignmentsRequest(), 0, describe, (CLUSTER_DENIED,)),
        ApiCall("UpdateFeatures", UpdateFeaturesRequest(), 0, alter, (CLUSTER_DENIED,)),
        ApiCall("DescribeQuorum", DescribeQuorumRequest(topics=[metadata]), 0, describe, (CLUSTER_DENIED,)),
        ApiCall("DescribeAcls", DescribeAclsRequest(**all_acls, **nothing), 3, describe, (CLUSTER_DENIED,)),
        ApiCall("CreateAcls", CreateAclsRequest(creations=[acl]), 3, alter, (CLUSTER_DENIED,)),
        ApiCall("DeleteAcls", DeleteAclsRequest(filters=[AclFilter(**all_acls, **no_user)]), 3, alter, (31,)),
        ApiCall(
            "DescribeClientQuotas",
            DescribeClientQuotasRequest(),
            1,
            (needs((Operation.DESCRIBE_CONFIGS, CLUSTER)),),
            (CLUSTER_DENIED,),
        ),
        ApiCall(
            "AlterClientQuotas",
            AlterClientQuotasRequest(entries=[limited]),
            1,
            (needs((Operation.ALTER_CONFIGS, CLUSTER)),),
            (CLUSTER_DENIED,),
        ),
        ApiCall("DescribeUserScramCredentials", DescribeUserScramCredentialsRequest(users=None), 0, describe, (31,)),
        ApiCall(
            "AlterUserScramCredentials",
            AlterUserScramCredentialsRequest(upsertions=[credential]),
            0,
            alter,
            (CLUSTER_DENIED,),
        ),
    ]


def _of_options(of: Things) -> list[ApiCall]:
    kinds = (
        ("a topic", ConfigResourceType.TOPIC, of.topic, TOPIC, TOPIC_DENIED),
        ("a group", ConfigResourceType.GROUP, of.group, GROUP, GROUP_DENIED),
        ("a broker", ConfigResourceType.BROKER, "1", CLUSTER, CLUSTER_DENIED),
    )
    made = []
    for words, kind, name, of_type, code in kinds:
        see, change = needs((Operation.DESCRIBE_CONFIGS, of_type)), needs((Operation.ALTER_CONFIGS, of_type))
        is_topic = kind is ConfigResourceType.TOPIC
        options = [AlterableConfig(name="retention.ms", config_operation=0, value="1000")] if is_topic else []
        values = [ReplacingConfig(name="retention.ms", value="1000")] if is_topic else []
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        changed = AlterConfigsResource(resource_type=kind, resource_name=name, configs=options)
        replaced = ReplacingConfigsResource(resource_type=kind, resource_name=name, configs=values)
        made += [
            ApiCall(f"DescribeConfigs of {words}", DescribeConfigsRequest(resources=[resource]), 4, (see,), (code,)),
            ApiCall(
                f"IncrementalAlterConfigs of {words}",
                IncrementalAlterConfigsRequest(resources=[changed]),
                1,
                (change,),
                (code,),
            ),
        ]
        if is_topic:
            request = AlterConfigsRequest(resources=[replaced])
            made.append(ApiCall(f"AlterConfigs of {words}", request, 2, (change,), (code,)))
    listing = needs((Operation.DESCRIBE_CONFIGS, CLUSTER))
    made.append(ApiCall("ListConfigResources", ListConfigResourcesRequest(), 1, (listing,), (CLUSTER_DENIED,)))
    return made
