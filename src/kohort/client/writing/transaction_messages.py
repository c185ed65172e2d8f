"""What a transactional producer asks of its coordinator, and of the groups whose offsets it commits (KIP-98, KIP-447).

There are two protocols. In the second (KIP-890) the first batch and the first offsets begin a transaction by
themselves, and its end gives the producer a new epoch, so that nothing of it can come late. A feature of the cluster
says which it speaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kohort.errors import ErrorCode, error_code
from kohort.model import (
    NO_PRODUCER_ID_AND_EPOCH,
    NO_UUID,
    GroupMetadata,
    OffsetAndMetadata,
    ProducerIdAndEpoch,
    TopicPartition,
    by_topic,
)
from kohort.wire.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kohort.wire.schema import Message

FEATURE: Final = "transaction.version"
SECOND_PROTOCOL: Final = 2
"""Its level from which the cluster speaks the second protocol."""
MAX_VERSION: Final = {
    InitProducerIdRequest.API_KEY: 5,
    AddPartitionsToTxnRequest.API_KEY: 3,
    AddOffsetsToTxnRequest.API_KEY: 4,
    EndTxnRequest.API_KEY: 4,
    TxnOffsetCommitRequest.API_KEY: 4,
}
"""Of the first protocol, by API key. AddPartitionsToTxn 4 is for brokers, InitProducerId 6 for KIP-939."""
MAX_VERSION_OF_SECOND: Final = MAX_VERSION | {EndTxnRequest.API_KEY: 5, TxnOffsetCommitRequest.API_KEY: 5}
BY_TOPIC_ID: Final = 6
"""The version of TxnOffsetCommit that names topics by their ids (KIP-1319)."""
PRODUCE_MAX_VERSION: Final = 11
"""Of the first protocol: from Produce 12 on a batch begins its transaction by itself."""


@dataclass(slots=True)
class TransactionalProducer:
    """A producer's transactional id, and the producer id and epoch that the coordinator gave it last."""

    transactional_id: str
    id_and_epoch: ProducerIdAndEpoch = NO_PRODUCER_ID_AND_EPOCH


def init_request(producer: TransactionalProducer, timeout_ms: int) -> InitProducerIdRequest:
    """Ask for an id; with an id, for its next epoch; what an earlier holder left open is aborted."""
    return InitProducerIdRequest(
        transactional_id=producer.transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer.id_and_epoch.producer_id,
        producer_epoch=producer.id_and_epoch.epoch,
    )


def add_partitions(producer: TransactionalProducer, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.id_and_epoch.producer_id,
        v3_and_below_producer_epoch=producer.id_and_epoch.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=numbers)
            for topic, numbers in by_topic(sorted(partitions)).items()
        ],
    )


def add_group(producer: TransactionalProducer, group_id: str) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.id_and_epoch.producer_id,
        producer_epoch=producer.id_and_epoch.epoch,
        group_id=group_id,
    )


def commit_offsets(
    producer: TransactionalProducer,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ids: Mapping[str, bytes | None],
) -> TxnOffsetCommitRequest:
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for partition, offset in offsets.items():
        name = partition.topic
        if name not in topics:
            topics[name] = TxnOffsetCommitRequestTopic(name=name, topic_id=ids.get(name) or NO_UUID, partitions=[])
        topics[name].partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group.group_id,
        producer_id=producer.id_and_epoch.producer_id,
        producer_epoch=producer.id_and_epoch.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=list(topics.values()),
    )


def end(producer: TransactionalProducer, *, commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.id_and_epoch.producer_id,
        producer_epoch=producer.id_and_epoch.epoch,
        committed=commit,
    )


def first_error(request: Message, response: Message) -> tuple[ErrorCode, str]:
    """Return the error that an answer carries, and for which partition; NONE if all went well."""
    where = ""
    match response:
        case InitProducerIdResponse() | AddOffsetsToTxnResponse() | EndTxnResponse():
            return error_code(response.error_code), where
        case AddPartitionsToTxnResponse():
            found = [
                (error_code(p.partition_error_code), f"{t.name}-{p.partition_index}")
                for t in response.results_by_topic_v3_and_below
                for p in t.results_by_partition
            ]
        case TxnOffsetCommitResponse():
            assert isinstance(request, TxnOffsetCommitRequest)
            names = {topic.topic_id: topic.name for topic in request.topics}
            found = [
                (error_code(p.error_code), f"{t.name or names.get(t.topic_id, '')}-{p.partition_index}")
                for t in response.topics
                for p in t.partitions
            ]
        case _:
            raise AssertionError(f"not an answer to a transaction's request: {response}")
    bad = [(code, tp) for code, tp in found if code is not ErrorCode.NONE]
    # What was not attempted says nothing of why.
    return min(bad, key=lambda one: one[0] is ErrorCode.OPERATION_NOT_ATTEMPTED, default=(ErrorCode.NONE, where))
