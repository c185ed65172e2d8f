"""Forged requests of the classic protocol: earlier or unknown member ids, removals of members, writes to internal
topics.

They use the administrator's client and return the error code of the response. Checks judge the code.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.broker.offsets_topic import NAME as OFFSETS_TOPIC
from kohort.client.admin.coordinators import CoordinatorCall, ask_coordinators
from kohort.client.admin.operations import Operation
from kohort.client.group.offset_messages import BY_NAME_COMMIT
from kohort.client.requests.metadata import Metadata
from kohort.coordinator.records import OffsetCommitted, build_record
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kohort.wire.messages.group_records import OffsetCommitValue
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.wire.record_batch import NewRecord, build_batch

NO_PRODUCER = -1
"""Generation of a commit by a client that is no member of the group."""
NOT_THERE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
PARTITIONS_MOST = 3
"""Partitions of ``__consumer_offsets``; a forged write goes to each."""
PRODUCE_BY_NAME = 9
"""Produce version with topic names."""


@dataclass(frozen=True, slots=True)
class ClaimedMember:
    """Claimed identity of a forged request; the default is no member."""

    member_id: str = ""
    instance_id: str | None = None
    generation_id: int = NO_PRODUCER


def commit_as(
    metadata: Metadata, group_id: str, who: ClaimedMember, partition: TopicPartition, offset: int
) -> Operation[int]:
    """Commit ``offset`` with a claimed identity."""
    topic = OffsetCommitRequestTopic(
        name=partition.topic,
        partitions=[OffsetCommitRequestPartition(partition_index=partition.partition, committed_offset=offset)],
    )

    def read(answer: OffsetCommitResponse, _group: str, _node_id: int) -> tuple[int, str | None, int]:
        return 0, None, answer.topics[0].partitions[0].error_code

    def ask(group: str) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=who.generation_id,
            member_id=who.member_id,
            group_instance_id=who.instance_id,
            topics=[topic],
        )

    return _of_one(metadata, group_id, CoordinatorCall(ask, read, max_version=BY_NAME_COMMIT))


def heartbeat_as(metadata: Metadata, group_id: str, who: ClaimedMember) -> Operation[int]:
    """Send a heartbeat with a claimed identity."""

    def read(answer: HeartbeatResponse, _group: str, _node_id: int) -> tuple[int, str | None, int]:
        return 0, None, answer.error_code

    def ask(group: str) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=group,
            generation_id=who.generation_id,
            member_id=who.member_id,
            group_instance_id=who.instance_id,
        )

    return _of_one(metadata, group_id, CoordinatorCall(ask, read))


def remove_member(metadata: Metadata, group_id: str, who: ClaimedMember) -> Operation[int]:
    """Remove a member from the group by an administrator request (KIP-345, removeMembersFromConsumerGroup)."""

    def read(answer: LeaveGroupResponse, _group: str, _node_id: int) -> tuple[int, str | None, int]:
        return 0, None, answer.error_code or answer.members[0].error_code

    def ask(group: str) -> LeaveGroupRequest:
        leaving = MemberIdentity(member_id=who.member_id, group_instance_id=who.instance_id, reason="removed by hand")
        return LeaveGroupRequest(group_id=group, members=[leaving])

    return _of_one(metadata, group_id, CoordinatorCall(ask, read))


def write_as_broker(metadata: Metadata, group_id: str, partition: TopicPartition, offset: int) -> Operation[int]:
    """Write a forged commit record into ``__consumer_offsets`` by Produce."""
    value = OffsetCommitValue(offset=offset, metadata="forged")
    key_bytes, value_bytes = build_record(OffsetCommitted(group_id, *partition, value))
    batch = build_batch([NewRecord(key_bytes, value_bytes, (), 0)])
    data = [PartitionProduceData(index=p, records=batch) for p in range(PARTITIONS_MOST)]

    def read(answer: ProduceResponse, _group: str, _node_id: int) -> tuple[int, str | None, int]:
        return 0, None, min(p.error_code for p in answer.responses[0].partition_responses if p.error_code != NOT_THERE)

    def ask(_group: str) -> ProduceRequest:
        topic = TopicProduceData(name=OFFSETS_TOPIC, partition_data=data)
        return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])

    return _of_one(metadata, group_id, CoordinatorCall(ask, read, max_version=PRODUCE_BY_NAME))


def _of_one(metadata: Metadata, group_id: str, call: CoordinatorCall) -> Operation[int]:
    by_group = yield from ask_coordinators(metadata, [group_id], call)
    code: int = by_group[group_id]
    return code
