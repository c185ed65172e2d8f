"""ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46).

ElectLeaders 1: unclean elections, and an error for the whole request. 2: flexible.
AlterPartitionReassignments 1: permission to change the replication factor (KIP-860).
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, boolean, int8, int16, int32, string


class ElectLeadersTopic(Message):
    topic: str = string()
    partitions: list[int] = array(int32())


class ElectLeadersRequest(Message, api_key=43, versions="0-2", flexible="2+"):
    election_type: int = int8("1+")
    topic_partitions: list[ElectLeadersTopic] | None = array(ElectLeadersTopic, nullable="0+")
    timeout_ms: int = int32(default=60000)


class ElectLeadersPartitionResult(Message):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ElectLeadersTopicResult(Message):
    topic: str = string()
    partition_result: list[ElectLeadersPartitionResult] = array(ElectLeadersPartitionResult)


class ElectLeadersResponse(Message, api_key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("1+", ignorable=True)  # as in Kafka, version 0 omits it
    replica_election_results: list[ElectLeadersTopicResult] = array(ElectLeadersTopicResult)


class ReassignablePartition(Message):
    partition_index: int = int32()
    replicas: list[int] | None = array(int32(), nullable="0+", default=None)


class ReassignableTopic(Message):
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions="0-1", flexible="0+"):
    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Message):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReassignableTopicResponse(Message):
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)


class ListPartitionReassignmentsTopic(Message):
    name: str = string()
    partition_indexes: list[int] = array(int32())


class ListPartitionReassignmentsRequest(Message, api_key=46, versions="0", flexible="0+"):
    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsTopic] | None = array(
        ListPartitionReassignmentsTopic, nullable="0+", default=None
    )


class OngoingPartitionReassignment(Message):
    partition_index: int = int32()
    replicas: list[int] = array(int32())
    adding_replicas: list[int] = array(int32())
    removing_replicas: list[int] = array(int32())


class OngoingTopicReassignment(Message):
    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(Message, api_key=46, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
