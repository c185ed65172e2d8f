"""Transactions, as administrative operations: brokers list them, coordinators describe and end them (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kohort.client.admin.coordinators import GroupCall, for_each_group
from kohort.client.admin.model import TransactionDescription, TransactionListing
from kohort.client.admin.operations import Operation, Results
from kohort.client.admin.topics import ask_every_broker
from kohort.client.requests.find_coordinator import TRANSACTION_KEY
from kohort.client.requests.metadata import Metadata
from kohort.client.writing.transaction_messages import MAX_VERSION
from kohort.model import TopicPartition
from kohort.wire.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
)

OPEN: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States in which readers wait for the end of a transaction."""
FENCING_TIMEOUT_MS: Final = 1
"""What Kafka's own tool asks for: whoever takes the id over next says how long his transactions may take."""


def list_transactions(
    metadata: Metadata, *, states: Sequence[str], producer_ids: Sequence[int]
) -> Operation[list[TransactionListing]]:
    """Return every transactional id of the cluster. Raises the error of a broker that does not tell."""
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
    """Return what each transactional id has open. One that is not known is TRANSACTIONAL_ID_NOT_FOUND."""

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
    """Take the ids over, as their next producers would: what is open is aborted, who has it open is fenced."""

    def request(name: str) -> InitProducerIdRequest:
        return InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS)

    def read(answer: InitProducerIdResponse, _name: str, _node_id: int) -> tuple[int, str | None, Any]:
        return answer.error_code, None, None

    most = MAX_VERSION[InitProducerIdRequest.API_KEY]
    call = GroupCall(request, read, max_version=most, key_type=TRANSACTION_KEY)
    return for_each_group(metadata, transactional_ids, call)
