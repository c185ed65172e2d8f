"""Produce, ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers: what is read and written of topics.

Fetch asks in its handler, which knows what its session wants.
"""

from __future__ import annotations

from typing import Any, Final

from kohort.broker.guards.guard import PASSED, ArrayRule, Checking, Guard, Guarded, guard_array
from kohort.errors import ErrorCode
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps
from kohort.wire.messages.epochs import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from kohort.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kohort.wire.messages.producer_ids import (
    ActiveProducersPartition,
    ActiveProducersTopic,
    DescribeProducersResponse,
    DescribeProducersTopic,
)
from kohort.wire.messages.topics import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from kohort.wire.record_batch import TRANSACTIONAL_BIT
from kohort.wire.schema import Message

DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
FIRST_PRODUCE_WITH_TOPIC_IDS: Final = 13
ATTRIBUTES_AT: Final = 22
"""The low byte of a batch's attributes."""
LOOK_US: Final = 0.3


def guard_produce(checking: Checking) -> Steps[Guarded]:
    """WRITE on the transactional id, where records are of a transaction; then WRITE on each topic."""
    message: ProduceRequest = checking.request.message
    is_transactional = yield from _is_transactional(message)
    if is_transactional and not _may_write_as(checking, message.transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return _refused(message, ProduceResponse(responses=[_produced(t, code) for t in message.topic_data]))
    by_id = checking.request.version >= FIRST_PRODUCE_WITH_TOPIC_IDS
    allowed, denied = yield from checking.sifted(
        Operation.WRITE,
        ResourceType.TOPIC,
        message.topic_data,
        (lambda topic: checking.topic_name(topic.topic_id)) if by_id else (lambda topic: topic.name),
    )
    if not denied:
        return PASSED
    refused = [_produced(topic, DENIED) for topic in denied]
    if not allowed:
        return _refused(message, ProduceResponse(responses=refused))
    checking.keep(topic_data=allowed)

    def amend(answer: ProduceResponse) -> Message:
        answer.responses.extend(refused)
        return answer

    return Guarded(amend=amend, closing=_closing(message, refused))


def _is_transactional(message: ProduceRequest) -> Steps[bool]:
    pace = Pace()
    for topic in message.topic_data:
        for data in topic.partition_data:
            batch: Any = data.records
            if batch is not None and len(batch) > ATTRIBUTES_AT and batch[ATTRIBUTES_AT] & TRANSACTIONAL_BIT:
                return True
            if pace.is_due(LOOK_US):
                yield
    return False


def _may_write_as(checking: Checking, transactional_id: str | None) -> bool:
    return transactional_id is not None and checking.may(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )


def _produced(topic: TopicProduceData, code: ErrorCode) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1) for data in topic.partition_data
        ],
    )


def _refused(message: ProduceRequest, answer: ProduceResponse) -> Guarded:
    return Guarded(answer=answer, closing=_closing(message, answer.responses))


def _closing(message: ProduceRequest, refused: list[TopicProduceResponse]) -> str | None:
    """Return why the connection of a producer that waits for no answer is closed."""
    if message.acks != 0:
        return None
    first = refused[0]
    code = ErrorCode(first.partition_responses[0].error_code) if first.partition_responses else DENIED
    return f"Produce with acks=0 failed: {first.name or first.topic_id.hex()}: {code.name}"


def _list_offsets(topic: ListOffsetsTopic) -> Message:
    return ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=DENIED) for p in topic.partitions
        ],
    )


def _ends(topic: OffsetForLeaderTopic) -> Message:
    ends = [EpochEndOffset(error_code=DENIED, partition=p.partition) for p in topic.partitions]
    return OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends)


def _deleted(topic: DeleteRecordsTopic) -> Message:
    return DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            DeleteRecordsPartitionResult(partition_index=p.partition_index, low_watermark=-1, error_code=DENIED)
            for p in topic.partitions
        ],
    )


def _producers(topic: DescribeProducersTopic) -> Message:
    return ActiveProducersTopic(
        name=topic.name,
        partitions=[ActiveProducersPartition(partition_index=p, error_code=DENIED) for p in topic.partition_indexes],
    )


def _topics_rule(operation: Operation, response: type[Message], **more: Any) -> Guard:
    return guard_array(
        ArrayRule(
            operation=operation,
            resource_type=ResourceType.TOPIC,
            asked="topics",
            answered="topics",
            response=response,
            **{"name_of": lambda topic: topic.name, **more},
        )
    )


guard_list_offsets = _topics_rule(Operation.DESCRIBE, ListOffsetsResponse, refuse=_list_offsets)
guard_epochs = _topics_rule(
    Operation.DESCRIBE,
    OffsetForLeaderEpochResponse,
    refuse=_ends,
    name_of=lambda topic: topic.topic,
    or_on_cluster=Operation.CLUSTER_ACTION,
)
guard_delete_records = _topics_rule(Operation.DELETE, DeleteRecordsResponse, refuse=_deleted)
guard_describe_producers = _topics_rule(Operation.READ, DescribeProducersResponse, refuse=_producers)
