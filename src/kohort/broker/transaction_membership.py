"""What must hold before something is written in a producer's transaction, on whichever node it is written (KIP-890).

A client of the newer protocol makes a partition part of its transaction by writing to it; an older one has said so
before, and is held to it. So nothing of a transaction arrives after its end, to hang until somebody notices.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.broker.state import BrokerState
from kohort.coordinator.transactions.decide import WITH_NEW_EPOCHS
from kohort.errors import ApiError, ErrorCode
from kohort.model import ProducerIdAndEpoch, TopicPartition


def transaction_coordinator(state: BrokerState, transactional_id: str, now_ms: int) -> int:
    """Return the node whom the producers of a transactional id ask, or NO_LEADER."""
    transactions = state.cluster.transactions
    return state.cluster.leader_of(transactions.ensure(now_ms), transactions.partition_of(transactional_id))


def check_coordinator(state: BrokerState, transactional_id: str, now_ms: int) -> None:
    """Raise ApiError unless it is this node that producers of the transactional id ask."""
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if transaction_coordinator(state, transactional_id, now_ms) != state.node.node_id:
        raise ApiError(ErrorCode.NOT_COORDINATOR, f"another node coordinates {transactional_id!r}")


@dataclass(frozen=True, slots=True)
class TransactionalWrite:
    """What a producer is about to write in its transaction."""

    transactional_id: str | None
    producer: ProducerIdAndEpoch
    partition: TopicPartition
    adds: bool
    """Whether the write makes the partition part of the transaction, if it is not yet."""
    knows_abortable: bool
    """Whether the writer knows the error TRANSACTION_ABORTABLE."""


def join_transaction(state: BrokerState, write: TransactionalWrite, now_ms: int) -> None:
    """See that the partition of ``write`` is part of the producer's open transaction.

    Raises ApiError with what a writer is told.
    """
    transactional_id, producer, partition = write.transactional_id, write.producer, write.partition
    if not transactional_id:
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        raise ApiError(refused, "the batch is transactional, and the request has no transactional id")
    transactions = state.cluster.transactions
    try:
        if write.adds:
            transactions.add(transactional_id, producer, [partition], WITH_NEW_EPOCHS, now_ms)
        else:
            transactions.verify(transactional_id, producer, partition)
    except ApiError as error:
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif code is ErrorCode.TRANSACTION_ABORTABLE and not write.knows_abortable:
            code = ErrorCode.INVALID_TXN_STATE
        elif code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE) and not write.adds:
            code = ErrorCode.NOT_ENOUGH_REPLICAS  # what makes an older writer try again
        raise ApiError(code, error.message) from error
