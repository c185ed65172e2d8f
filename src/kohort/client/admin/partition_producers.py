"""What the leader of a partition knows of the producers there (DescribeProducers), and the end of a transaction that no
coordinator ends (WriteTxnMarkers). KIP-664."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kohort.client.admin.leaders import of_leaders
from kohort.client.admin.model import ProducerState
from kohort.client.admin.operations import Operation, Results
from kohort.client.requests.metadata import Metadata
from kohort.errors import UsageError
from kohort.model import TopicPartition, by_topic
from kohort.wire.messages.producer_ids import (
    ActiveProducer,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopic,
)
from kohort.wire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

FIRST_COORDINATOR_EPOCH: Final = 0
"""What a marker bears where no marker of the producer came before it, as with Kafka's own tool."""
MOST: Final = {"producer_id": (1 << 63) - 1, "producer_epoch": (1 << 15) - 1, "coordinator_epoch": (1 << 31) - 1}
"""The largest that each number of a marker can be."""


def describe_producers(
    metadata: Metadata, partitions: Iterable[TopicPartition]
) -> Operation[Results[TopicPartition, list[ProducerState]]]:
    """Return the producers that the leader of each partition knows, by their ids."""

    def request(wanted: Iterable[TopicPartition]) -> DescribeProducersRequest:
        topics = [DescribeProducersTopic(name=name, partition_indexes=ids) for name, ids in by_topic(wanted).items()]
        return DescribeProducersRequest(topics=topics)

    def found(answer: DescribeProducersResponse) -> Iterator[tuple[TopicPartition, list[ProducerState], int]]:
        for topic in answer.topics:
            for p in topic.partitions:
                known = sorted((_state(producer) for producer in p.active_producers), key=lambda s: s.producer_id)
                yield TopicPartition(topic.name, p.partition_index), known, p.error_code

    return (yield from of_leaders(metadata, dict.fromkeys(partitions), request, found))


def abort_transaction(
    metadata: Metadata,
    partition: TopicPartition,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int | None,
) -> Operation[None]:
    """Have the leader of a partition write an abort marker for what a producer has open there. Raises the error of a
    leader that refuses it, and UsageError for a number that a marker cannot bear."""
    if coordinator_epoch is None or coordinator_epoch < 0:
        coordinator_epoch = FIRST_COORDINATOR_EPOCH
    numbers = {"producer_id": producer_id, "producer_epoch": producer_epoch, "coordinator_epoch": coordinator_epoch}
    for name, number in numbers.items():
        if not 0 <= number <= MOST[name]:
            raise UsageError(f"{name} is a number from 0 to {MOST[name]}, not {number}")
    topic = WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])
    marker = WritableTxnMarker(transaction_result=False, topics=[topic], **numbers)

    def found(answer: WriteTxnMarkersResponse) -> Iterator[tuple[TopicPartition, None, int]]:
        for written in answer.markers:
            for topic in written.topics:
                for p in topic.partitions:
                    yield TopicPartition(topic.name, p.partition_index), None, p.error_code

    results = yield from of_leaders(metadata, [partition], lambda _: WriteTxnMarkersRequest(markers=[marker]), found)
    return results[partition]


def _state(producer: ActiveProducer) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        last_sequence=producer.last_sequence,
        last_timestamp_ms=producer.last_timestamp,
        coordinator_epoch=_known(producer.coordinator_epoch),
        transaction_start_offset=_known(producer.current_txn_start_offset),
    )


def _known(number: int) -> int | None:
    return None if number < 0 else number
