"""Transactions, as administrative operations: brokers list them, coordinators describe and end them (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kohort.client.admin.coordinators import GroupCall, for_each_group
from kohort.client.admin.model import ProducerState, TransactionDescription, TransactionListing
from kohort.client.admin.offsets import of_leaders
from kohort.client.admin.operations import Operation, Results
from kohort.client.admin.topics import ask_every_broker
from kohort.client.requests.find_coordinator import TRANSACTION_KEY
from kohort.client.requests.metadata import Metadata
from kohort.client.writing.transaction_messages import MAX_VERSION
from kohort.errors import UsageError
from kohort.model import TopicPartition, by_topic
from kohort.wire.messages.producer_ids import (
    ActiveProducer,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopic,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kohort.wire.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
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


OPEN: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States in which readers wait for the end of a transaction."""
FENCING_TIMEOUT_MS: Final = 1
"""What Kafka's own tool asks for: whoever takes the id over next says how long his transactions may take."""


def list_transactions(
    metadata: Metadata, *, states: Sequence[str], producer_ids: Sequence[int]
) -> Operation[list[TransactionListing]]:
    request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))
    answers = (yield from ask_every_broker(metadata, request)).check()
    found = [
        TransactionListing(t.transactional_id, t.producer_id, t.transaction_state, node_id)
        for node_id, answer in answers.items()
        for t in answer.transaction_states
    ]
    return sorted(found, key=lambda listing: listing.transactional_id)


def describe_transactions(
    metadata: Metadata, transactional_ids: Iterable[str]
) -> Operation[Results[str, TransactionDescription]]:

    def read(answer: DescribeTransactionsResponse, name: str, node_id: int) -> tuple[int, str | None, Any]:
        (found,) = answer.transaction_states
        partitions = tuple(TopicPartition(t.topic, p) for t in found.topics for p in t.partitions)
        is_open = found.transaction_state in OPEN and found.transaction_start_time_ms >= 0
        started_ms = found.transaction_start_time_ms if is_open else None  # Kafka keeps the time of the last one
        described = TransactionDescription(
            name,
            found.transaction_state,
            found.producer_id,
            found.producer_epoch,
            found.transaction_timeout_ms,
            started_ms,
            tuple(sorted(partitions)),
            node_id,
        )
        return found.error_code, None, described

    call = GroupCall(lambda t: DescribeTransactionsRequest(transactional_ids=[t]), read, key_type=TRANSACTION_KEY)
    return for_each_group(metadata, transactional_ids, call)


def fence_producers(metadata: Metadata, transactional_ids: Iterable[str]) -> Operation[Results[str, None]]:

    def request(name: str) -> InitProducerIdRequest:
        return InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS)

    def read(answer: InitProducerIdResponse, _name: str, _node_id: int) -> tuple[int, str | None, Any]:
        return answer.error_code, None, None

    most = MAX_VERSION[InitProducerIdRequest.API_KEY]
    call = GroupCall(request, read, max_version=most, key_type=TRANSACTION_KEY)
    return for_each_group(metadata, transactional_ids, call)
