"""Requests of a transactional producer to its coordinator, and to coordinators of groups (KIP-98, KIP-447).

The cluster's features select the first protocol or the second one (KIP-890). In the second protocol the first batch
or offset commit begins a transaction. The end of the transaction gives the producer a new epoch, so that a late batch
cannot join the next transaction.
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
from kohort.wire.messages import transactions as wire
from kohort.wire.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.schema import Message

FEATURE: Final = "transaction.version"
SECOND_PROTOCOL: Final = 2
MAX_VERSION: Final = {
    InitProducerIdRequest.API_KEY: 5,
    wire.AddPartitionsToTxnRequest.API_KEY: 3,
    wire.AddOffsetsToTxnRequest.API_KEY: 4,
    wire.EndTxnRequest.API_KEY: 4,
    wire.TxnOffsetCommitRequest.API_KEY: 4,
}
"""Highest version of each API without KIP-890. AddPartitionsToTxn 4 and later is for brokers only."""
MAX_VERSION_OF_SECOND: Final = MAX_VERSION | {wire.EndTxnRequest.API_KEY: 5, wire.TxnOffsetCommitRequest.API_KEY: 5}
BY_TOPIC_ID: Final = 6
PRODUCE_MAX_VERSION: Final = 11
"""Highest version of Produce without KIP-890. With Produce 12 the broker adds the partitions to the transaction."""


@dataclass(slots=True)
class TransactionalProducer:
    """Transactional id, and the producer id and epoch from the coordinator."""

    transactional_id: str
    id_and_epoch: ProducerIdAndEpoch = NO_PRODUCER_ID_AND_EPOCH


def init_request(producer: TransactionalProducer, timeout_ms: int) -> InitProducerIdRequest:
    """Build a request for a new producer id or the next epoch. The coordinator also aborts an open transaction."""
    return InitProducerIdRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.id_and_epoch.producer_id,
        producer_epoch=producer.id_and_epoch.epoch,
        transaction_timeout_ms=timeout_ms,
    )


def add_partitions(
    producer: TransactionalProducer, partitions: Iterable[TopicPartition]
) -> wire.AddPartitionsToTxnRequest:
    topics = [wire.AddPartitionsToTxnTopic(name=t, partitions=ns) for t, ns in by_topic(sorted(partitions)).items()]
    return wire.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.id_and_epoch.producer_id,
        v3_and_below_producer_epoch=producer.id_and_epoch.epoch,
        v3_and_below_topics=topics,
    )


def add_group(producer: TransactionalProducer, group_id: str) -> wire.AddOffsetsToTxnRequest:
    return wire.AddOffsetsToTxnRequest(
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
) -> wire.TxnOffsetCommitRequest:
    topics: dict[str, wire.TxnOffsetCommitRequestTopic] = {}
    for (name, number), (offset, metadata, leader_epoch) in offsets.items():
        if name not in topics:
            topics[name] = wire.TxnOffsetCommitRequestTopic(name=name, topic_id=ids.get(name) or NO_UUID, partitions=[])
        topics[name].partitions.append(
            wire.TxnOffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
        )
    return wire.TxnOffsetCommitRequest(
        group_id=group.group_id,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=list(topics.values()),
        transactional_id=producer.transactional_id,
        producer_id=producer.id_and_epoch.producer_id,
        producer_epoch=producer.id_and_epoch.epoch,
    )


def end(producer: TransactionalProducer, *, commit: bool) -> wire.EndTxnRequest:
    return wire.EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.id_and_epoch.producer_id,
        producer_epoch=producer.id_and_epoch.epoch,
        committed=commit,
    )


def first_error(request: Message, response: Message) -> tuple[ErrorCode, str]:
    """Return the first error code in a transaction response, and its partition; NONE without an error."""
    where = ""
    match response:
        case InitProducerIdResponse() | wire.AddOffsetsToTxnResponse() | wire.EndTxnResponse():
            return error_code(response.error_code), where
        case wire.AddPartitionsToTxnResponse():
            found = [
                (error_code(p.partition_error_code), f"{t.name}-{p.partition_index}")
                for t in response.results_by_topic_v3_and_below
                for p in t.results_by_partition
            ]
        case wire.TxnOffsetCommitResponse():
            assert isinstance(request, wire.TxnOffsetCommitRequest)
            names = {topic.topic_id: topic.name for topic in request.topics}
            found = [
                (error_code(p.error_code), f"{t.name or names.get(t.topic_id, '')}-{p.partition_index}")
                for t in response.topics
                for p in t.partitions
            ]
        case _:
            raise AssertionError(f"unexpected response in a transaction: {response}")
    bad = [(code, tp) for code, tp in found if code is not ErrorCode.NONE]
    # A partition gets OPERATION_NOT_ATTEMPTED only because another partition has an error.
    return min(bad, key=lambda one: one[0] is ErrorCode.OPERATION_NOT_ATTEMPTED, default=(ErrorCode.NONE, where))
