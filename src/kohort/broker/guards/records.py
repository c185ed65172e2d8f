"""Produce, ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers: what is read and written of topics.

Fetch asks in its handler, which knows what its session wants.
"""

from __future__ import annotations

from typing import Any, Final

from kohort.broker.guards.guard import (
    PASSED,
    ArrayRule,
    Checking,
    Denials,
    Guard,
    Guarded,
    guard_array,
    refused_by_topic,
)
from kohort.errors import ErrorCode
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps
from kohort.wire.messages.list_offsets import (
    EpochEndOffset,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
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
)
from kohort.wire.messages.topics import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kohort.wire.record_batch import TRANSACTIONAL_BIT
from kohort.wire.schema import Message

DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
WORDS: Final = "Topic authorization failed."
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
        return _refused(message, (yield from _produced(message.topic_data, code)))
    by_id = checking.request.version >= FIRST_PRODUCE_WITH_TOPIC_IDS
    allowed, denied = yield from checking.sifted(
        Operation.WRITE,
        ResourceType.TOPIC,
        message.topic_data,
        (lambda topic: checking.topic_name(topic.topic_id)) if by_id else (lambda topic: topic.name),
    )
    if not denied:
        return PASSED
    refused = yield from _produced(denied, DENIED)
    if not allowed:
        return _refused(message, refused)
    checking.keep(topic_data=allowed)
    return Guarded(amend=Denials("topic_data", "responses", refused).add, closing=_closing(message, refused))


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


def _produced(topics: list[TopicProduceData], code: ErrorCode) -> Steps[list[TopicProduceResponse]]:
    return refused_by_topic(
        topics,
        lambda topic: topic.partition_data,
        lambda data: PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1),
        lambda topic, made: TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=made),
    )


def _refused(message: ProduceRequest, responses: list[TopicProduceResponse]) -> Guarded:
    return Guarded(answer=ProduceResponse(responses=responses), closing=_closing(message, responses))


def _closing(message: ProduceRequest, refused: list[TopicProduceResponse]) -> str | None:
    """Return why the connection of a producer that waits for no answer is closed."""
    if message.acks != 0:
        return None
    first = refused[0]
    code = ErrorCode(first.partition_responses[0].error_code) if first.partition_responses else DENIED
    return f"Produce with acks=0 failed: {first.name or first.topic_id.hex()}: {code.name}"


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


guard_list_offsets = _topics_rule(
    Operation.DESCRIBE,
    ListOffsetsResponse,
    refuse=lambda p: ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=DENIED),
    gather=lambda topic, made: ListOffsetsTopicResponse(name=topic.name, partitions=made),
)
guard_epochs = _topics_rule(
    Operation.DESCRIBE,
    OffsetForLeaderEpochResponse,
    refuse=lambda p: EpochEndOffset(error_code=DENIED, partition=p.partition),
    gather=lambda topic, made: OffsetForLeaderTopicResult(topic=topic.topic, partitions=made),
    name_of=lambda topic: topic.topic,
    or_on_cluster=Operation.CLUSTER_ACTION,
)
guard_delete_records = _topics_rule(
    Operation.DELETE,
    DeleteRecordsResponse,
    refuse=lambda p: DeleteRecordsPartitionResult(
        partition_index=p.partition_index, low_watermark=-1, error_code=DENIED
    ),
    gather=lambda topic, made: DeleteRecordsTopicResult(name=topic.name, partitions=made),
)
guard_describe_producers = _topics_rule(
    Operation.READ,
    DescribeProducersResponse,
    refuse=lambda p: ActiveProducersPartition(partition_index=p, error_code=DENIED, error_message=WORDS),
    gather=lambda topic, made: ActiveProducersTopic(name=topic.name, partitions=made),
    partitions_of=lambda topic: topic.partition_indexes,
)
