"""Admin operations on transactions: list, describe, fence a producer, abort (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kohort.client.admin.coordinators import CoordinatorCall, ask_coordinators
from kohort.client.admin.model import ProducerState, TransactionDescription, TransactionListing
from kohort.client.admin.offsets import ask_leaders
from kohort.client.admin.operations import Operation, Results
from kohort.client.admin.topics import ask_every_broker
from kohort.client.requests.find_coordinator import TRANSACTION_KEY
from kohort.client.requests.metadata import Metadata
from kohort.client.writing.transaction_messages import MAX_VERSION
from kohort.errors import UsageError
from kohort.model import TopicPartition, by_topic
from kohort.wire.messages import producer_ids
from kohort.wire.messages import transactions as wire

FIRST_COORDINATOR_EPOCH: Final = 0
"""Coordinator epoch of an abort marker if the producer has no earlier marker, as in Kafka's kafka-transactions."""


def describe_producers(
    metadata: Metadata, partitions: Iterable[TopicPartition]
) -> Operation[Results[TopicPartition, list[ProducerState]]]:

    def request(partitions: Iterable[TopicPartition]) -> producer_ids.DescribeProducersRequest:
        topics = [
            producer_ids.DescribeProducersTopic(name=name, partition_indexes=ids)
            for name, ids in by_topic(partitions).items()
        ]
        return producer_ids.DescribeProducersRequest(topics=topics)

    def found(
        answer: producer_ids.DescribeProducersResponse,
    ) -> Iterator[tuple[TopicPartition, list[ProducerState], int]]:
        for topic in answer.topics:
            for p in topic.partitions:
                known = sorted((_state(producer) for producer in p.active_producers), key=lambda s: s.producer_id)
                yield TopicPartition(topic.name, p.partition_index), known, p.error_code

    return (yield from ask_leaders(metadata, dict.fromkeys(partitions), request, found))


def abort_transaction(
    metadata: Metadata,
    partition: TopicPartition,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int | None,
) -> Operation[None]:
    """Write an abort marker for a producer's open transaction in a partition.

    Raises the error of the partition leader, and UsageError for a number out of range.
    """
    if coordinator_epoch is None or coordinator_epoch < 0:
        coordinator_epoch = FIRST_COORDINATOR_EPOCH
    marker = wire.WritableTxnMarker(
        producer_id=_checked("producer_id", producer_id, 63),
        producer_epoch=_checked("producer_epoch", producer_epoch, 15),
        coordinator_epoch=_checked("coordinator_epoch", coordinator_epoch, 31),
        transaction_result=False,
        topics=[wire.WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
    )

    def found(answer: wire.WriteTxnMarkersResponse) -> Iterator[tuple[TopicPartition, None, int]]:
        for written in answer.markers:
            for topic in written.topics:
                for p in topic.partitions:
                    yield TopicPartition(topic.name, p.partition_index), None, p.error_code

    results = yield from ask_leaders(
        metadata, [partition], lambda _: wire.WriteTxnMarkersRequest(markers=[marker]), found
    )
    return results[partition]


def _checked(name: str, number: int, bits: int) -> int:
    if not 0 <= number < 1 << bits:
        raise UsageError(f"{name} must be a number from 0 to {(1 << bits) - 1}, not {number}")
    return number


def _state(producer: producer_ids.ActiveProducer) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        last_sequence=producer.last_sequence,
        last_timestamp_ms=producer.last_timestamp,
        coordinator_epoch=None if producer.coordinator_epoch < 0 else producer.coordinator_epoch,
        transaction_start_offset=None if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset,
    )


OPEN: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States of a transaction that is not completed: consumers with read_committed wait for its end."""
FENCING_TIMEOUT_MS: Final = 1
"""Transaction timeout in ms in the InitProducerId request that fences a producer, as in Kafka's admin tool."""


def list_transactions(
    metadata: Metadata, *, states: Sequence[str], producer_ids: Sequence[int]
) -> Operation[list[TransactionListing]]:
    request = wire.ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))
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

    def read(answer: wire.DescribeTransactionsResponse, name: str, node_id: int) -> tuple[int, str | None, Any]:
        (found,) = answer.transaction_states
        partitions = tuple(TopicPartition(t.topic, p) for t in found.topics for p in t.partitions)
        # Kafka also reports a start time for a completed transaction: ignore it
        is_open = found.transaction_state in OPEN and found.transaction_start_time_ms >= 0
        described = TransactionDescription(
            name,
            found.transaction_state,
            found.producer_id,
            found.producer_epoch,
            found.transaction_timeout_ms,
            found.transaction_start_time_ms if is_open else None,
            tuple(sorted(partitions)),
            node_id,
        )
        return found.error_code, None, described

    call = CoordinatorCall(
        lambda t: wire.DescribeTransactionsRequest(transactional_ids=[t]), read, key_type=TRANSACTION_KEY
    )
    return ask_coordinators(metadata, transactional_ids, call)


def fence_producers(metadata: Metadata, transactional_ids: Iterable[str]) -> Operation[Results[str, None]]:

    def request(name: str) -> producer_ids.InitProducerIdRequest:
        return producer_ids.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS)

    call = CoordinatorCall(
        request,
        lambda answer, _name, _node_id: (answer.error_code, None, None),
        max_version=MAX_VERSION[producer_ids.InitProducerIdRequest.API_KEY],
        key_type=TRANSACTION_KEY,
    )
    return ask_coordinators(metadata, transactional_ids, call)
