"""Requests that no member of the group would send: under an earlier id, under no id, to remove another member, and to
write what the coordinator alone writes.

They go through the administrator's client. Each gives the error code that it was answered with; judging that is the
checks' business.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.broker.offsets_topic import NAME as OFFSETS_TOPIC
from kohort.client.admin.coordinators import CoordinatorCall, ask_coordinators
from kohort.client.admin.groups import BY_NAME
from kohort.client.admin.operations import Operation
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

NOBODY = -1
"""The generation of a commit from outside of the group."""
NOT_THERE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
PARTITIONS_MOST = 3
"""Of ``__consumer_offsets``: a stranger tries them all."""
PRODUCE_BY_NAME = 9
"""A version of Produce that names topics."""


@dataclass(frozen=True, slots=True)
class Guise:
    """Whose request it pretends to be; nobody's by default."""

    member_id: str = ""
    instance_id: str | None = None
    generation_id: int = NOBODY


def commit_as(metadata: Metadata, group_id: str, who: Guise, partition: TopicPartition, offset: int) -> Operation[int]:
    """Commit ``offset`` as somebody."""
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

    return _of_one(metadata, group_id, CoordinatorCall(ask, read, max_version=BY_NAME))


def heartbeat_as(metadata: Metadata, group_id: str, who: Guise) -> Operation[int]:
    """Send a heartbeat as somebody."""

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


def remove_member(metadata: Metadata, group_id: str, who: Guise) -> Operation[int]:
    """Take a member out of the group from outside (KIP-345, removeMembersFromConsumerGroup)."""

    def read(answer: LeaveGroupResponse, _group: str, _node_id: int) -> tuple[int, str | None, int]:
        return 0, None, answer.error_code or answer.members[0].error_code

    def ask(group: str) -> LeaveGroupRequest:
        leaving = MemberIdentity(member_id=who.member_id, group_instance_id=who.instance_id, reason="removed by hand")
        return LeaveGroupRequest(group_id=group, members=[leaving])

    return _of_one(metadata, group_id, CoordinatorCall(ask, read))


def write_as_broker(metadata: Metadata, group_id: str, partition: TopicPartition, offset: int) -> Operation[int]:
    """Write what would be a commit of the group into ``__consumer_offsets``, by Produce."""
    value = OffsetCommitValue(offset=offset, metadata="forged")
    key_bytes, value_bytes = build_record(OffsetCommitted(group_id, *partition, value))
    batch = build_batch([NewRecord(key_bytes, value_bytes, (), 0)])
    data = [PartitionProduceData(index=p, records=batch) for p in range(PARTITIONS_MOST)]

    def read(answer: ProduceResponse, _group: str, _node_id: int) -> tuple[int, str | None, int]:
        """Return what most of them were refused with: NONE where one was not."""
        return 0, None, min(p.error_code for p in answer.responses[0].partition_responses if p.error_code != NOT_THERE)

    def ask(_group: str) -> ProduceRequest:
        topic = TopicProduceData(name=OFFSETS_TOPIC, partition_data=data)
        return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])

    return _of_one(metadata, group_id, CoordinatorCall(ask, read, max_version=PRODUCE_BY_NAME))


def _of_one(metadata: Metadata, group_id: str, call: CoordinatorCall) -> Operation[int]:
    by_group = yield from ask_coordinators(metadata, [group_id], call)
    code: int = by_group[group_id]
    return code
